"""NVLink domains: near, placements, and what schedulers get; an NVL72 rack has 18 hosts of four GPUs."""

import json
from pathlib import Path

import pytest

from streams.fabric.inventory import Device, InvalidInventory, Inventory, Link, digest, pack, read_folder, unpack
from streams.fabric.topology import Topology
from streams.locality.distance import Distances
from streams.locality.export.write import export_text
from streams.locality.fabric_state import FabricState
from streams.locality.groups import Groups
from streams.locality.params import LocalityParams
from streams.locality.placement import place
from tests.worlds.localities import doubtful

RACKS, HOSTS = 8, 18


def rack(number: int, count: int = HOSTS) -> list[str]:
    """Return the hosts of a rack."""
    return [f"r{number}n{host:02d}" for host in range(1, count + 1)]


def fabric(racks: int = RACKS, sizes: dict[int, int] | None = None, named: bool = True) -> Inventory:
    """Return racks of 18 hosts, two racks to a leaf, with their domains; some have another number of hosts."""
    devices = [Device("spine1", "switch", "T1")]
    links: list[Link] = []
    for number in range(racks):
        leaf = f"leaf{number // 2}"
        if number % 2 == 0:
            devices.append(Device(leaf, "switch", "T0"))
            links.append(Link(leaf, "up", "spine1", f"p{number}", "fabric-link"))
        for host in rack(number, (sizes or {}).get(number, HOSTS)):
            devices.append(Device(host, "host", "host", gpus=4, domain=f"nvl{number}" if named else ""))
            links.append(Link(host, "e0", leaf, f"to-{host}", "host-link", rail=0, plane=0))
    return Inventory(devices=tuple(devices), links=tuple(links))


def groups(inventory: Inventory) -> Groups:
    return Groups(Topology(inventory))


EIGHT = groups(fabric())
PARAMS = LocalityParams()


def test_near_begins_with_the_domain() -> None:
    """Then the unit, in which two racks are."""
    found = Distances(FabricState(EIGHT, ())).near("r3n05", 40)
    assert [one.host for one in found[:17]] == [host for host in rack(3) if host != "r3n05"]
    assert [one.same_domain for one in found] == [True] * 17 + [False] * 23
    assert {one.host for one in found[17:35]} == set(rack(2))
    distances = Distances(FabricState(EIGHT, ()))
    assert distances.between("r3n05", "r3n06").same_domain and not distances.between("r3n05", "r2n05").same_domain


@pytest.mark.parametrize(
    ("gpus", "busy", "sick", "expected"),
    [
        (72, [], [], ["nvl0"]),
        (72, ["r0n01"], [], ["nvl1"]),
        (72, ["r0n01"], ["r1n18"], ["nvl2"]),
        (8, ["r4n03"], [], ["nvl4"]),
        (144, [], [], ["nvl0", "nvl1"]),
        (144, ["r0n01"], [], ["nvl2", "nvl3"]),
        (80, ["r0n01"], [], ["nvl0", "nvl1"]),
    ],
    ids=["a rack", "the first is busy", "the second has a finding", "the rest of a rack", "two racks of a unit",
         "two whole racks", "a whole rack and a part"],
)  # fmt: skip
def test_a_placement_stays_inside_a_free_domain(
    gpus: int, busy: list[str], sick: list[str], expected: list[str]
) -> None:
    """It takes whole domains, and does not break up one where a part is enough."""
    state = FabricState(EIGHT, [doubtful(f"device:{host}") for host in sick])
    first = place(state, gpus, busy=dict.fromkeys(busy, "runs")).sets[0]
    assert list(first.domains) == expected and first.gpus == gpus
    assert not {*busy, *sick} & set(first.hosts)
    assert first.why[0].startswith("all hosts are of the NVLink domain") is (len(expected) == 1)


def test_sets_of_a_domain_are_in_one_list_with_others_without_repetition() -> None:
    """Eight racks are eight sets, and then units of two racks, which hold the same hosts first, are none."""
    found = place(FabricState(EIGHT, ()), 72, limit=20).sets
    assert [one.domains for one in found[:8]] == [(f"nvl{number}",) for number in range(8)]
    assert len({one.hosts for one in found}) == len(found)


def block_lines(inventory: Inventory, nodes: list[str] | None = None) -> tuple[list[str], tuple[str, ...]]:
    """Return the lines of topology.conf, and the notes."""
    text, notes = export_text(FabricState(groups(inventory), ()), "slurm", "block", PARAMS, nodes)
    return text.splitlines()[1:], notes


def test_an_absent_domain_is_an_empty_block() -> None:
    """The others keep their place, and the sizes are those of eight racks."""
    nodes = [host for number in range(RACKS) if number != 3 for host in rack(number)]
    lines, notes = block_lines(fabric(), nodes)
    assert lines[2:5] == ["BlockName=nvl2 Nodes=r2n[01-18]", "BlockName=nvl3", "BlockName=nvl4 Nodes=r4n[01-18]"]
    assert lines[8:] == ["BlockSizes=18,36,72,144"]
    assert notes == ("the NVLink domain nvl3 has 0 of 18 hosts; the block size stays 18",)


def test_an_incomplete_domain_does_not_make_the_others_smaller() -> None:
    """Three racks of 18, 18 and 17."""
    lines, notes = block_lines(fabric(3, {2: 17}))
    assert lines[2:] == ["BlockName=nvl2 Nodes=r2n[01-17]", "BlockSizes=18,36"]
    assert notes == ("the NVLink domain nvl2 has 17 of 18 hosts; the block size stays 18",)


def test_a_new_domain_moves_no_other() -> None:
    """Blocks are in the order of the inventory, not of names."""
    before = fabric(2)
    more = Device("a1", "host", "host", gpus=4, domain="a")
    links = (*before.links, Link("a1", "e0", "leaf0", "to-a1", "host-link", rail=0, plane=0))
    lines, _ = block_lines(Inventory((*before.devices, more), links))
    assert [line.split()[0] for line in lines[:3]] == ["BlockName=nvl0", "BlockName=nvl1", "BlockName=a"]


def test_a_host_without_a_domain_is_in_no_block_and_named() -> None:
    """Units are the blocks if no host has a domain."""
    one = fabric(2)
    devices = tuple(device._replace(domain="") if device.name == "r0n07" else device for device in one.devices)
    lines, notes = block_lines(Inventory(devices, one.links))
    assert lines[0] == "BlockName=nvl0 Nodes=r0n[01-06,08-18]"
    assert notes[0] == "without an NVLink domain, left out of the blocks: r0n07"
    assert block_lines(fabric(2, named=False)) == (["BlockName=leaf0 Nodes=r0n[01-18],r1n[01-18]", "BlockSizes=36"], ())


def test_kubernetes_and_json_have_the_domain() -> None:
    """The label is topograph's; a domain has its planned hosts and those that are there."""
    state = FabricState(EIGHT, ())
    nodes = json.loads(export_text(state, "kubernetes", "tree", PARAMS)[0])["items"][1:]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    assert labels["r5n18"]["accelerator.topograph.run/domain"] == "nvl5"
    found = json.loads(export_text(state, "json", "tree", PARAMS, rack(0)[:5])[0])
    assert found["hosts"]["r0n01"]["domain"] == "nvl0"
    assert found["domains"][0] == {"domain": "nvl0", "planned": 18, "hosts": rack(0)[:5]}


def test_an_inventory_without_domains_keeps_its_digest() -> None:
    """And one with them is read back."""
    plain, named = fabric(1, named=False), fabric(1)
    assert digest(plain) != digest(named) and unpack(pack(plain)[1]) == plain
    assert unpack(pack(named)[1]) == named


def test_a_clique_of_an_unregistered_gpu_is_refused(tmp_path: Path) -> None:
    """The error names the row and the value that `nvidia-smi` prints."""
    (tmp_path / "devices.csv").write_text("name,kind,tier,domain\nh1,host,host,N/A\n")
    (tmp_path / "links.csv").write_text("a_device,a_port,z_device,z_port,role\n")
    with pytest.raises(InvalidInventory) as refused:
        read_folder(tmp_path)
    assert any("no NVLink domain" in problem and "devices" in problem for problem in refused.value.problems)
