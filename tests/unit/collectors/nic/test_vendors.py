"""NICs of other vendors: their counters, and what is no port of the fabric beside them."""

from pathlib import Path

import pytest

from collectors.kernel.ports import Role
from tests.fixtures.host_tree import link
from tests.fixtures.nic_tree import CARD, PORT, rows, whole, write
from tests.recordings import field_report, linked_tree

FABRIC = frozenset({Role.FABRIC})
ETHERNET = {path: text for path, text in CARD.items() if "counters/" not in path and "statistics" not in path}


@pytest.mark.parametrize(("counters", "statistics", "expected"), [
    ({"rx_out_of_buffer": "3", "rx_roce_only_bytes": "500", "tx_roce_only_pkts": "4", "rx_bytes": "1"}, {},
     {"out_of_buffer": 3, "rx_bytes": 500, "tx_packets": 4}),
    ({"rx_roce_only_bytes": "500", "rx_roce_only_pkts": "5"}, {"rx_bytes": 900, "rx_total_frames": 9},
     {"rx_bytes": 900, "rx_packets": 9}),
    ({}, {"pfc_pri3_rx_duration_us": 500, "pfc_pri3_tx_transitions": 2, "pfc_pri8_rx_duration_us": 1},
     {"pfc_rx_pause_useconds[3]": 500, "pfc_tx_transitions[3]": 2}),
    ({"tx_rdma_ucast_bytes": "70", "rx_rdma_ucast_pkts": "7", "tx_rdma_retx_pkts": "2", "resp_rx_outof_buf": "3",
      "resp_rx_dup_request": "4", "req_rx_impl_nak_seq_err": "5", "tx_rdma_ack_timeout": str(2**64 - 1)},
     {"tx_bytes": 10},
     {"tx_bytes": 70, "rx_packets": 7, "retransmitted_packets": 2, "out_of_buffer": 3, "duplicate_requests": 4,
      "implied_nak_sequence_errors": 5}),
    ({"tx_rdma_ucast_bytes": "70"}, {"octets_tx_ok": 90, "frames_rx_bad_fcs": 1},
     {"tx_bytes": 90, "rx_fcs_errors": 1}),
], ids=["bnxt_re", "bnxt_re beside the wire", "bnxt_en", "ionic", "ionic beside the wire"])  # fmt: skip
async def test_a_vendors_counters(
    tmp_path: Path, counters: dict[str, str], statistics: dict[str, int], expected: dict[str, float]
) -> None:
    """The wire's counters precede those of RDMA; a counter that the firmware lacks is absent."""
    text = "".join(f"\n  {name}: {value}" for name, value in statistics.items())
    write(tmp_path, ETHERNET | {f"{PORT}/hw_counters/{name}": value for name, value in counters.items()})
    write(tmp_path, {"ethtool/ens1np0.statistics": f"NIC statistics:{text}"})
    found = rows(await whole(tmp_path, wanted=FABRIC).host.read_once())["mlx5_0"]
    state = {"oper_up", "admin_up", "speed_bps", "link_transitions", "link_down_events"}
    assert {name: value for name, value in found.items() if name not in state} == expected


EFA_DEVICE = "sys/devices/pci0000:53/0000:53:00.0"
EFA = f"{EFA_DEVICE}/infiniband/rdmap83s0"


def efa(root: Path, **counters: int) -> None:
    """Write an EFA: always ACTIVE and LinkUp, with a rate."""
    write(root, {f"{EFA}/ports/1/state": "4: ACTIVE", f"{EFA}/ports/1/phys_state": "5: LinkUp",
                 f"{EFA}/ports/1/rate": "100 Gb/sec (4X EDR)", f"{EFA}/ports/1/link_layer": "Unspecified",
                 f"{EFA}/node_guid": "0000:0000:0000:0000"})  # fmt: skip
    write(root, {f"{EFA}/ports/1/hw_counters/{name}": str(value) for name, value in counters.items()})
    if not (root / EFA / "device").is_symlink():
        link(root, f"{EFA}/device", "../../../0000:53:00.0")
        link(root, f"{EFA_DEVICE}/driver", "../../../bus/pci/drivers/efa")
        link(root, "sys/class/infiniband/rdmap83s0", f"../../../{EFA}")


async def test_an_efa_has_counters_and_no_state(tmp_path: Path) -> None:
    """Its driver reports constants as state and rate, which are no evidence of a link."""
    efa(tmp_path, retrans_timeout_events=3, retrans_pkts=40, retrans_bytes=50, unresponsive_remote_events=1,
        impaired_remote_conn_events=2, rx_bytes=1000, tx_bytes=2000, rx_pkts=10, tx_pkts=20, rx_drops=7,
        rdma_read_wr_err=5, rdma_write_wr_err=6)  # fmt: skip
    made = whole(tmp_path, wanted=FABRIC)
    first = rows(await made.host.read_once())["rdmap83s0"]
    efa(tmp_path, retrans_timeout_events=9)
    second = rows(await made.host.read_once())["rdmap83s0"]
    assert second["local_ack_timeouts"] - first.pop("local_ack_timeouts") == 6
    assert first == {
        "retransmitted_packets": 40, "retransmitted_bytes": 50, "unresponsive_remotes": 1, "impaired_connections": 2,
        "rx_bytes": 1000, "tx_bytes": 2000, "rx_packets": 10, "tx_packets": 20, "rx_discards": 7,
        "requester_cqe_errors": 11,
    }  # fmt: skip


async def test_a_sum_without_one_of_its_parts_is_absent(tmp_path: Path) -> None:
    """The rest alone would look like a reset."""
    efa(tmp_path, rdma_read_wr_err=5, rdma_write_wr_err=6)
    made = whole(tmp_path, wanted=FABRIC)
    await made.host.read_once()
    write(tmp_path, {f"{EFA}/ports/1/hw_counters/rdma_write_wr_err": "many"})
    assert await made.host.read_once() is None


def infiniband(root: Path, vpd: bytes = b"") -> None:
    """Write a ConnectX-7 on InfiniBand with this vital product data."""
    device = "sys/devices/pci0000:c6/0000:c6:00.0"
    own = f"{device}/infiniband/ibp198s0f0"
    write(root, {f"{own}/node_guid": "cc40:f303:0027:f630", f"{own}/ports/1/state": "4: ACTIVE",
                 f"{own}/ports/1/link_layer": "InfiniBand", f"{device}/vendor": "0x15b3"})  # fmt: skip
    link(root, f"{own}/device", "../../../0000:c6:00.0")
    link(root, "sys/class/infiniband/ibp198s0f0", f"../../../{own}")
    if vpd:
        body = b"V0" + bytes([len(vpd)]) + vpd
        (root / device / "vpd").write_bytes(b"\x90" + len(body).to_bytes(2, "little") + body + b"\x78")


@pytest.mark.parametrize(("vpd", "beside_efa", "is_port"), [
    (b"SMDL=SW_MNG", False, False), (b"", True, False), (b"SMDL=CX7", False, True), (b"", False, True),
])  # fmt: skip
async def test_a_bridge_of_nvlink_is_no_port(tmp_path: Path, vpd: bytes, beside_efa: bool, is_port: bool) -> None:
    """Its vital product data has a mark that root may read; no host with EFA has an InfiniBand fabric."""
    infiniband(tmp_path, vpd)
    write(tmp_path, CARD)
    if beside_efa:
        efa(tmp_path, rx_bytes=1)
    found = rows(await whole(tmp_path, wanted=FABRIC).host.read_once())
    assert set(found) == {"mlx5_0", *(["ibp198s0f0"] if is_port else []), *(["rdmap83s0"] if beside_efa else [])}
    assert found["mlx5_0"]["oper_up"] == 1


async def test_efa_of_a_field_report(tmp_path: Path) -> None:
    """Two adapters without netdevs: bytes, packets and drops are in `hw_counters`."""
    root = linked_tree(field_report("host/14-efa") / "tree", tmp_path / "tree")
    found = rows(await whole(root, wanted=FABRIC).host.read_once())
    assert set(found) == {"rdmap83s0", "rdmap97s0"}
    for row in found.values():
        assert {"rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_discards"} <= set(row)
        assert "oper_up" not in row and "speed_bps" not in row
