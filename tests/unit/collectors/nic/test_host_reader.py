"""A whole host: its ports found and joined, its status and facts, what comes and goes."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from collectors.core.context import CollectorContext
from collectors.core.params import Core
from collectors.kernel.ports import Role
from collectors.kernel.tree import Tree
from collectors.nic.collector import SPEC, host_reader
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, Facts
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.host_tree import link
from tests.fixtures.nic_tree import CARD, NET, PORT, RDMA, rows, whole, write

FABRIC = frozenset({Role.FABRIC})


def two_ports_in_one_function(root: Path) -> None:
    """An mlx4 on Ethernet: ports 1 and 2, netdevs distinguished by `dev_port`, without a reference by the kernel."""
    card = "sys/devices/pci0000:00/0000:1a:00.0"
    for number, name in ((1, "ens9"), (2, "ens9d1")):
        write(root, {
            f"{card}/infiniband/mlx4_0/ports/{number}/link_layer": "Ethernet",
            f"{card}/infiniband/mlx4_0/ports/{number}/counters/link_downed": str(number),
            f"{card}/net/{name}/dev_port": str(number - 1),
            f"{card}/net/{name}/operstate": "up",
            f"{card}/net/{name}/address": f"02:00:00:00:00:0{number}",
        })  # fmt: skip
        link(root, f"{card}/net/{name}/device", "../../../0000:1a:00.0")
        link(root, f"sys/class/net/{name}", f"../../devices/pci0000:00/0000:1a:00.0/net/{name}")
    write(root, {f"{card}/infiniband/mlx4_0/node_guid": "0002:c903:0012:3456", f"{card}/vendor": "0x15b3"})
    link(root, f"{card}/infiniband/mlx4_0/device", "../../../0000:1a:00.0")
    link(root, "sys/class/infiniband/mlx4_0", "../../devices/pci0000:00/0000:1a:00.0/infiniband/mlx4_0")


async def test_two_ports_of_a_card_are_two_rows_with_names_of_their_own(tmp_path: Path) -> None:
    """Ports are not always `ports/1`, and each has its netdev, its counters and its aliases."""
    two_ports_in_one_function(tmp_path)
    found = whole(tmp_path)
    result = rows(await found.host.read_once())
    assert {name: row["link_down_events"] for name, row in result.items()} == {"mlx4_0/1": 1, "mlx4_0/2": 2}
    (facts,) = found.published.of(Facts)
    assert {c.name: c.alias for c in facts.components} == {
        "mlx4_0/1": ("ens9", "02:00:00:00:00:01", "0002:c903:0012:3456", "0000:1a:00.0"),
        "mlx4_0/2": ("ens9d1", "02:00:00:00:00:02", "0002:c903:0012:3456", "0000:1a:00.0"),
    }


@pytest.mark.parametrize("fabric", [(), ("*",)], ids=["by evidence", "by a glob over all names"])
async def test_a_bond_and_a_virtual_function_are_no_ports(tmp_path: Path, fabric: tuple[str, ...]) -> None:
    """Nor is a representor, a subfunction or an ifb; they are read when one asks for all, and are never facts."""
    two_ports_in_one_function(tmp_path)
    function = "sys/devices/pci0000:00/0000:1a:00.3"
    write(tmp_path, {f"{function}/net/ens9v0/operstate": "up", "sys/class/net/bond0/operstate": "up",
                     "sys/devices/pci0000:00/0000:1a:00.0/net/ens9r0/phys_port_name": "pf0vf1",
                     "sys/devices/pci0000:00/0000:1a:00.0/mlx5_core.sf.2/net/en0f0s2/type": "1",
                     "sys/devices/virtual/net/ifb0/type": "1",
                     "sys/class/net/bonding_masters": "bond0"})  # fmt: skip
    link(tmp_path, "sys/class/net/ifb0", "../../devices/virtual/net/ifb0")
    link(tmp_path, "sys/class/net/en0f0s2", "../../devices/pci0000:00/0000:1a:00.0/mlx5_core.sf.2/net/en0f0s2")
    link(tmp_path, "sys/devices/pci0000:00/0000:1a:00.0/mlx5_core.sf.2/net/en0f0s2/device", "../../../mlx5_core.sf.2")
    link(tmp_path, f"{function}/physfn", "../0000:1a:00.0")
    link(tmp_path, f"{function}/net/ens9v0/device", "../../../0000:1a:00.3")
    link(tmp_path, "sys/devices/pci0000:00/0000:1a:00.0/net/ens9r0/device", "../../../0000:1a:00.0")
    for address, name in (("0000:1a:00.3", "ens9v0"), ("0000:1a:00.0", "ens9r0")):
        link(tmp_path, f"sys/class/net/{name}", f"../../devices/pci0000:00/{address}/net/{name}")
    found = whole(tmp_path, wanted=FABRIC, fabric=fabric)
    assert set(rows(await found.host.read_once())) == {"mlx4_0/1", "mlx4_0/2"}
    assert {c.name for c in found.published.of(Facts)[0].components} == {"mlx4_0/1", "mlx4_0/2"}
    everything = rows(await whole(tmp_path).host.read_once())
    assert set(everything) == {"mlx4_0/1", "mlx4_0/2", "bond0", "ens9v0"}  # of the representor nothing could be read


async def test_a_renumbered_card_keeps_its_row(tmp_path: Path) -> None:
    """The driver was reloaded and the kernel renumbers: the GUID identifies the port."""
    write(tmp_path, CARD)
    found = whole(tmp_path)
    await found.host.read_once()
    (tmp_path / RDMA).rename(tmp_path / RDMA.replace("mlx5_0", "mlx5_5"))
    write(tmp_path, {PORT.replace("mlx5_0", "mlx5_5") + "/counters/port_rcv_data": "2000"})
    assert rows(await found.host.read_once())["mlx5_0"]["rx_bytes"] == 8000
    assert [c.alias[0] for facts in found.published.of(Facts) for c in facts.components] == ["mlx5_0/1", "mlx5_5"]


async def test_a_port_that_goes_has_no_row_and_no_invented_state(tmp_path: Path) -> None:
    """Its absence shows: its row is missing, and if it was the last, the status reports it."""
    write(tmp_path, CARD)
    found = whole(tmp_path, wanted=FABRIC)
    assert await found.host.read_once() is not None
    shutil.rmtree(tmp_path / RDMA)
    shutil.rmtree(tmp_path / NET)
    assert await found.host.read_once() is None
    statuses = found.published.of(CollectorStatus)
    assert [status.reachable for status in statuses] == [True, False]
    assert statuses[1].error == "no fabric port among 0 found"
    assert statuses[1].last_sample_at_ns == statuses[0].last_sample_at_ns > 0


async def test_an_excluded_port_is_never_touched(tmp_path: Path) -> None:
    """By any of its names; it is no row and no fact."""
    write(tmp_path, CARD)
    for pattern in ("mlx5_0", "ens1*", "946d:ae03:00aa:bbcc", "94:6d:*"):
        found = whole(tmp_path, exclude=(pattern,))
        assert await found.host.read_once() is None, pattern
        assert found.published.of(Facts)[0].components == ()


async def test_facts_come_at_the_first_reading_and_at_changes_only(tmp_path: Path) -> None:
    """And a status at once, then every so often."""
    write(tmp_path, CARD)
    found = whole(tmp_path)
    for _ in range(5):
        await found.host.read_once()
    assert len(found.published.of(Facts)) == len(found.published.of(CollectorStatus)) == 1
    assert found.published.of(CollectorStatus)[0].cadence_ns == 10**9


async def test_the_life_of_a_host_is_the_kernels(tmp_path: Path) -> None:
    """Its boot's own number goes with every reading, and the time of the boot with the facts."""
    write(tmp_path, CARD | {"proc/sys/kernel/random/boot_id": "6f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
                            "proc/stat": "cpu 1\nbtime 1700000000"})  # fmt: skip
    found = whole(tmp_path)
    samples = await found.host.read_once()
    assert samples is not None and samples.boot_id == 0x6F1E2D3C4B5A6978
    assert found.published.of(Facts)[0].booted_at_ns == 1_700_000_000 * 10**9


async def test_a_sysfs_alone_is_a_root_as_well(tmp_path: Path) -> None:
    """Without a proc beside it the boot is unknown."""
    write(tmp_path, CARD)
    samples = await whole(tmp_path / "sys").host.read_once()
    assert set(rows(samples)) == {"mlx5_0"}
    assert samples is not None and samples.boot_id == 0


def test_a_root_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    """And so is a folder of statistics."""
    for wrong in ({"root": tmp_path / "none"}, {"ethtool_dir": tmp_path / "none"}):
        params = SPEC.Params.model_validate(wrong)
        with pytest.raises(Misconfigured, match="none"):
            host_reader(params, CollectorContext(RecordingPublisher(), "c"), FABRIC)  # type: ignore[arg-type]


def test_one_reading_of_an_empty_tree_prints_nothing(tmp_path: Path) -> None:
    """A machine without a sysfs has no ports, which is no error."""
    lines: list[str] = []
    SPEC.print_once(SPEC.Params.model_validate({"root": tmp_path}), lines.append)
    assert lines == []


async def test_a_containers_netdev_does_not_start_a_search(tmp_path: Path) -> None:
    """They come and go all the time; a NIC that comes is found at the next reading."""
    write(tmp_path, CARD)
    found = whole(tmp_path)
    await found.host.read_once()
    write(tmp_path, {"sys/class/net/veth0/operstate": "up"})
    assert "veth0" not in rows(await found.host.read_once())
    write(tmp_path, {"sys/devices/pci0000:00/0000:03:00.0/net/eno1/operstate": "up"})
    link(tmp_path, "sys/devices/pci0000:00/0000:03:00.0/net/eno1/device", "../../../0000:03:00.0")
    link(tmp_path, "sys/class/net/eno1", "../../devices/pci0000:00/0000:03:00.0/net/eno1")
    assert set(rows(await found.host.read_once())) == {"mlx5_0", "eno1", "veth0"}


async def test_what_cannot_start_reports_so_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="Kafka"):
        await SPEC.run(SPEC.Params(), Core())
    nowhere = Core(client_options={"bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(Misconfigured, match="no such directory"):
        await SPEC.run(SPEC.Params.model_validate({"root": tmp_path / "none"}), nowhere)


async def test_vital_product_data_reports_part_and_restriction(tmp_path: Path) -> None:
    """A function that the fabric's own manager reads is left alone from the start; only NVIDIA's cards are asked."""
    body = b"PN\x05MCX75SN\x06MT2301V3\x0bSMDL=SW_MNG"
    card = tmp_path / "sys/devices/pci0000:00/0000:18:00.0"
    write(tmp_path, CARD | {f"{RDMA}/x": ""})
    for vendor, is_asked in (("0x15b3", True), ("0x14e4", False)):
        card.mkdir(parents=True, exist_ok=True)
        (card / "vpd").write_bytes(b"\x90" + len(body).to_bytes(2, "little") + body + b"\x78")
        (card / "vendor").write_text(vendor)
        if is_asked:
            link(tmp_path, f"{RDMA}/device", "../../../devices/pci0000:00/0000:18:00.0")
        found = whole(tmp_path)
        result = rows(await found.host.read_once())["mlx5_0"]
        component = next(c for c in found.published.of(Facts)[0].components if c.name == "mlx5_0")
        assert (component.part_number, component.serial) == (("MCX75", "MT2301") if is_asked else ("MT_0000000838", ""))
        assert ("rx_bytes" in result, "cnp_sent" in result, "speed_bps" in result) == (True, not is_asked, not is_asked)


class Stuck(Tree):
    """A tree in which one file does not answer until it is let."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.free = threading.Event()

    def read_bytes(self, path: str, most: int = 4096) -> bytes | None:
        if path.endswith("/node_guid"):
            assert self.free.wait(20)
        return super().read_bytes(path, most)


async def test_a_device_that_hangs_while_ports_are_looked_for_is_reported(tmp_path: Path) -> None:
    """The collector goes on, and finds the ports once it answers."""
    write(tmp_path, CARD)
    tree = Stuck(tmp_path)
    found = whole(tmp_path, tree=tree, deadline_s=0.2)
    for _ in range(3):
        assert await found.host.read_once() is None
    assert [s.error for s in found.published.of(CollectorStatus)] == [
        "a device does not answer while its ports are looked for"
    ]
    tree.free.set()
    for _ in range(2000):
        if await found.host.read_once() is not None:
            break
        await asyncio.sleep(0.01)
    assert found.published.of(CollectorStatus)[-1].reachable


async def test_a_bond_without_a_device_link_is_no_fabric_port(tmp_path: Path) -> None:
    """Its counters repeat those of its ports; the kernel names it by its netdev, which has a folder `bonding`."""
    bond = {path.replace("mlx5_0", "mlx5_bond_0"): text for path, text in CARD.items() if "mlx5_0" in path}
    bond |= {
        "sys/class/infiniband/mlx5_bond_0/node_guid": "0000:0000:0000:00bb",
        "sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0": "bond0",
        "sys/class/infiniband/mlx5_bond_0/ports/1/link_layer": "Ethernet",
        "sys/class/net/bond0/bonding/slaves": "ens1np0 ens2np0", "sys/class/net/bond0/type": "1",
    }  # fmt: skip
    write(tmp_path, CARD | bond)
    assert set(rows(await whole(tmp_path, wanted=FABRIC).host.read_once())) == {"mlx5_0"}
