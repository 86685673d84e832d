"""Real sysfs trees and ethtool statistics, read in place, against what a peer makes of them, value by value.

What is not compared is listed here by name and explained in docs/collectors/nic.md; a metric of the peer's that is in
neither list fails.
"""

import gzip
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.kernel import signals, values
from tests.fixtures.nic_tree import rows, whole, write
from tests.recordings import DATA

NIC = DATA / "nic"

pytestmark = pytest.mark.skipif(not NIC.exists(), reason=f"no recordings at {NIC}")

Scale = Callable[[float], float]


def same(value: float) -> float:
    return value


def bits(value: float) -> float:
    return value * 8


MAPPED: dict[str, tuple[str, Scale]] = {
    "infiniband_port_data_received_bytes_total": ("rx_bytes", same),
    "infiniband_port_data_transmitted_bytes_total": ("tx_bytes", same),
    "infiniband_port_packets_received_total": ("rx_packets", same),
    "infiniband_port_packets_transmitted_total": ("tx_packets", same),
    "infiniband_port_discards_received_total": ("rx_discards", same),
    "infiniband_port_discards_transmitted_total": ("tx_discards", same),
    "infiniband_port_errors_received_total": ("rx_errors", same),
    "infiniband_port_transmit_wait_total": ("tx_wait_ticks", same),
    "infiniband_link_downed_total": ("link_down_events", same),
    "infiniband_link_error_recovery_total": ("link_error_recoveries", same),
    "infiniband_rate_bytes_per_second": ("speed_bps", bits),
    "infiniband_state_id": ("oper_up", lambda state: float(state in {4, 5})),
    "infiniband_physical_state_id": ("admin_up", lambda state: float(state != 3)),
    "network_carrier_changes_total": ("link_transitions", same),
    "network_carrier_down_changes_total": ("link_down_events", same),
    "network_up": ("oper_up", same),
    "network_speed_bytes": ("speed_bps", bits),
    "ethtool_received_packets_total": ("rx_packets", same),
    "ethtool_transmitted_packets_total": ("tx_packets", same),
    "ethtool_received_errors_total": ("rx_errors", same),
    "ethtool_transmitted_errors_total": ("tx_errors", same),
    "ethtool_port_received_dropped": ("rx_discards", same),
}
"""The exporter's name, the metric, and the unit factor."""

OTHERS = (
    # The catalogue has no metric for them.
    r"infiniband_(legacy_)?(unicast|multicast)_packets_.*", r"infiniband_port_constraint_errors_.*",
    r"network_carrier_up_changes_total", r"network_carrier", r"network_dormant",
    r"ethtool_(align_errors|received_(broadcast|missed|multicast|unicast))",
    r"ethtool_transmitted_(aborted|multi_collisions|single_collisions|underrun)",
    # The 64-bit twin of a counter that is there: one of them is taken (docs).
    r"infiniband_legacy_(data|packets)_.*",
    # Names, settings and identifiers, which are facts and no measurements.
    r"infiniband_info", r"ethtool_info",
    r"network_(info|flags|mtu_bytes|.*_type|.*_id|iface_.*|net_dev_group|transmit_queue_length)",
    r"network_.*(advertised|supported|autonegotiate).*",
    # Of /proc/net/dev, not of a tree.
    r"network_(receive|transmit)_.*_total",
)  # fmt: skip
"""Metrics that are omitted; the table in the docs has the reasons."""


def expected(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """The peer's samples: name without its prefix, labels, value."""
    for name, labels, value in re.findall(r"^node_(\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        yield name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)


def unpacked(archive: str, folder: Path) -> Path:
    with tarfile.open(NIC / archive) as tar:
        # Its links lead to folders that are not in it; Python 3.11.3 and older have no filter, and none as an argument.
        tar.extraction_filter = lambda member, _: member
        tar.extractall(folder)
    return folder


def port_of(labels: dict[str, str]) -> str:
    """Our row's name: a card of several ports is called with its port's number."""
    return f"{labels['device']}/{labels['port']}" if labels["device"] == "mlx4_0" else labels["device"]


async def test_sysfs_trees_agree_with_the_peers_metrics(tmp_path: Path) -> None:
    """node_exporter's tree with mlx4 of two ports, i40iw and bonds: every value that both have is the same."""
    result = rows(await whole(unpacked("node_exporter-sys-class.tar.gz", tmp_path)).host.read_once())
    compared = 0
    text = gzip.decompress(
        (NIC / "node_exporter-ethtool/e2e-expected-infiniband-network.prom.gz").read_bytes()
    ).decode()
    for name, labels, value in expected(text):
        if name not in MAPPED:
            assert any(re.fullmatch(other, name) for other in OTHERS), name
            continue
        if labels["device"] == "eth0":  # a link out of the archive: the folder is not in it
            continue
        ours, scale = MAPPED[name]
        assert result[port_of(labels)].get(ours) == scale(value), (name, labels)
        compared += 1
    assert compared == 26
    assert "eth0" not in result


async def test_a_device_without_counters_has_none(tmp_path: Path) -> None:
    """i40iw has `N/A (no PMA)` in each file: the exporter omits them, so does the collector. Another tool has 0."""
    found = whole(unpacked("node_exporter-sys-class.tar.gz", tmp_path))
    assert rows(await found.host.read_once())["i40iw0"] == {"oper_up": 1, "admin_up": 1, "speed_bps": 10e9}
    assert found.metrics.value("unreadable") == 0


async def test_every_known_counter_of_the_other_tree_is_read_as_it_stands(tmp_path: Path) -> None:
    """The tree of procfs: mlx5 with hw_counters, mlx4, hfi1; each file that has a metric is a value in that metric."""
    result = rows(await whole(unpacked("procfs-sys-class.tar.gz", tmp_path)).host.read_once())
    compared = 0
    for port in sorted((tmp_path / "sys/class/infiniband").glob("*/ports/*")):
        card = port.parent.parent.name
        row = result[f"{card}/{port.name}" if card == "mlx4_0" else card]
        for folder, known in (("counters", signals.COUNTERS), ("hw_counters", signals.HW_COUNTERS)):
            for name, signal in known.items():
                if (port / folder / name).exists():
                    value = int((port / folder / name).read_text())
                    assert row[signal.metric.name.lower()] == value * signal.factor, (port, name)
                    compared += 1
    assert compared == 4 * 14 + 11
    assert result["mlx5_0"]["local_ack_timeouts"] == 131
    assert result["mlx5_0"]["speed_bps"] == 25e9
    assert result["eth0"] == {
        "link_down_events": 1, "link_transitions": 2, "oper_up": 1, "admin_up": 1, "speed_bps": 1e9,
    }  # fmt: skip


async def test_ethtool_statistics_agree_with_the_peers_metrics(tmp_path: Path) -> None:
    """e1000e's, with a statistic of a name that is there twice but for a blank."""
    folder = NIC / "node_exporter-ethtool"
    write(tmp_path, {"sys/class/net/eth0/operstate": "up", "ethtool/eth0.statistics":
                     (folder / "eth0.statistics").read_text()})  # fmt: skip
    result = rows(await whole(tmp_path).host.read_once())["eth0"]
    compared = 0
    for name, labels, value in expected((folder / "ethtool_expected_metrics.excerpt.txt").read_text()):
        assert labels["device"] == "eth0"
        if name not in MAPPED:
            assert any(re.fullmatch(other, name) for other in OTHERS), name
            continue
        ours, scale = MAPPED[name]
        assert result[ours] == scale(value), name
        compared += 1
    assert compared == 5
    assert result["oper_up"] == 1


async def test_a_bad_cable_shows_in_one_lane(tmp_path: Path) -> None:
    """The figures of a real one: 99.8 % of its raw errors are in lane 3, and frames were lost."""
    text = (NIC / "mlx5_ethtool_S_real.txt").read_text()
    write(tmp_path, {"sys/class/net/ens1np0/operstate": "up", "ethtool/ens1np0.statistics": text})
    result = rows(await whole(tmp_path).host.read_once())["ens1np0"]
    lanes = [result[f"lane_raw_errors[{lane}]"] for lane in range(4)]
    assert lanes[3] / sum(lanes) == pytest.approx(0.998, abs=5e-4)
    assert (result["rx_fcs_errors"], result["fec_corrected_bits"], result["pcs_symbol_errors"]) == (386, 17750739, 386)
    there = dict(values.ethtool_statistics(text))
    assert (result["rx_bytes"], result["tx_bytes"]) == (there["rx_bytes_phy"], there["tx_bytes_phy"])


async def test_module_events_are_counted_by_kind(tmp_path: Path) -> None:
    """Manual unplugging, and three faults; a healthy module has zero, and a missing statistic is absent."""
    text = (NIC / "mlx5_ethtool_S_real.txt").read_text()
    text = text.replace("module_unplug: 0", "module_unplug: 3").replace("module_high_temp: 0", "module_high_temp: 1")
    write(tmp_path, {"sys/class/net/ens1np0/operstate": "up", "ethtool/ens1np0.statistics": text})
    write(tmp_path, {"sys/class/net/ens2np0/operstate": "up"})
    result = rows(await whole(tmp_path).host.read_once())
    assert [result["ens1np0"][f"module_events[{kind}]"] for kind in range(4)] == [3, 0, 1, 0]
    assert not [name for name in result["ens2np0"] if name.startswith("module_events")]
