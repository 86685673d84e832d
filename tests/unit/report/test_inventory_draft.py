"""A draft of the inventory from the Facts of the simulator: equal to the true one, but for what LLDP cannot have."""

from dataclasses import replace

import pytest

from lab.world.demo_fabric import DemoShape, inventory
from lab.world.fabric_arrays import fabric_arrays
from lab.world.facts_source import FactsSource
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory import Device, Inventory, Link, compare, filled
from streams.fabric.topology import Topology
from streams.report.inventory_draft import Draft, draft_inventory
from streams.wire.models import Component, Facts, Neighbor, Source

NOW_NS = 1_800_000_000 * 10**9
DEMO = inventory(DemoShape(), NOW_NS)
PLANES = generate(GenerateParams(gpus=64, radix=8, rails=2, gpus_per_host=4, planes=2, jobs=0))
THREE_TIERS = generate(GenerateParams(gpus=256, radix=16, rails=4, gpus_per_host=4, jobs=0))


def reported(own: Inventory) -> list[Facts]:
    """Return the Facts of every device of a simulated fabric."""
    topology = Topology(own)
    arrays = fabric_arrays(own)
    source = FactsSource(arrays, topology, ())
    return [source.facts(number, NOW_NS) for number in range(len(arrays.devices))]


def without_what_lldp_lacks(own: Inventory, *, has_planes: bool) -> tuple[set[Device], set[object]]:
    """Return devices and links without speeds, GPUs, identities, and planes unless they begin at the NICs."""
    devices = {
        device._replace(
            gpus=0, vendor="", model="", serial="", firmware="", plane=device.plane if has_planes else None
        )
        for device in own.devices
    }  # fmt: skip
    links: set[object] = {
        (frozenset((link.a, link.z)), link.role, link.rail, link.plane if has_planes else None) for link in own.links
    }
    return devices, links


@pytest.mark.parametrize(("own", "has_planes"), [(DEMO, False), (PLANES, True), (THREE_TIERS, False)])
def test_a_draft_equals_the_true_inventory(own: Inventory, has_planes: bool) -> None:
    """Devices, kinds, tiers, pods with their names, links, roles, rails, and planes that begin at the NICs."""
    draft = draft_inventory(reported(own)).inventory
    assert without_what_lldp_lacks(draft, has_planes=has_planes) == without_what_lldp_lacks(own, has_planes=has_planes)


@pytest.mark.parametrize("own", [DEMO, PLANES, THREE_TIERS])
def test_what_lldp_cannot_have_is_marked(own: Inventory) -> None:
    """Speeds, rails, planes, the GPUs of each host, the name of each pod; every link is reported by both ends."""
    doubts = draft_inventory(reported(own)).doubts
    marked = {(each.table, each.column) for each in doubts}
    assert marked == {
        ("links", "speed_bps"), ("links", "rail"), ("devices", "plane"), ("devices", "gpus"), ("devices", "pod"),
    }  # fmt: skip
    hosts = {device.name for device in own.devices if device.kind == "host"}
    assert {each.row for each in doubts if each.column == "gpus"} == hosts


def test_blank_columns_of_a_draft_are_no_change() -> None:
    """Against the present inventory only real changes are listed."""
    draft = draft_inventory(reported(DEMO), gpus_per_host=8).inventory
    assert not any(change.changed or change.added or change.removed for change in compare(DEMO, filled(draft, DEMO)))
    missing = replace(draft, links=draft.links[1:], devices=(*draft.devices[1:], Device("new", "switch", "T0")))
    devices, links = compare(DEMO, filled(missing, DEMO))
    assert (devices.added, devices.removed, len(links.removed)) == (("new",), (draft.devices[0].name,), 1)


def facts(device: str, source: Source, *neighbors: tuple[str, str, str], **more: object) -> Facts:
    """Return the Facts of one device with its neighbors (port, device, port)."""
    return Facts(device, NOW_NS, source, neighbors=tuple(Neighbor(*each) for each in neighbors), **more)  # type: ignore[arg-type]


def doubts_of(draft: Draft, row: str) -> set[str]:
    return {each.reason for each in draft.doubts if each.row == row}


def test_names_of_other_sources_are_resolved() -> None:
    """A domain that only one side has, and the alias of a port; the same link is not listed twice."""
    nic = Component("mlx5_0", "nic", alias=("ens1np0", "02:00:00:00:00:01"))
    gpus = tuple(Component(f"gpu{number}", "gpu") for number in range(8))
    draft = draft_inventory([
        facts("h1.example.net", Source.SOURCE_HOST, ("ens1np0", "leaf1", "Ethernet1"), components=(nic, *gpus)),
        facts("leaf1", Source.SOURCE_GNMI, ("Ethernet1", "h1", "02:00:00:00:00:01")),
    ])  # fmt: skip
    assert draft.inventory.links == (Link("h1.example.net", "mlx5_0", "leaf1", "Ethernet1", "host-link", 0),)
    assert {device.name: device.gpus for device in draft.inventory.devices} == {"h1.example.net": 8, "leaf1": 0}


@pytest.mark.parametrize(("known", "reported", "domains", "doubtful"), [
    ({}, {"h1": ("c.7",), "h2": ("c.7",), "h3": ("c.8",)}, ["c.7", "c.7", "c.8"], {}),
    ({}, {"h1": (), "h2": ("N/A",), "h3": ("", "c.8")}, ["", "", "c.8"], {}),
    ({}, {"h1": ("c.7", "c.8"), "h2": (), "h3": ()}, ["", "", ""], {"h1": "its GPUs report several: c.7, c.8"}),
    # The known names stay, and a new host gets the name that its neighbors have.
    ({"h1": "rack7"}, {"h1": ("c.7",), "h2": ("c.7",), "h3": ("c.8",)}, ["rack7", "rack7", "c.8"], {}),
    ({"h1": "rack7", "h2": "c.8"}, {"h1": (), "h2": ("c.9",), "h3": ("c.9",)}, ["rack7", "c.8", "c.8"], {}),
    # A host that moved to another rack, with or without others of it.
    (
        {"h1": "c.7", "h2": "c.7", "h3": "c.7"}, {"h1": ("c.7",), "h2": ("c.7",), "h3": ("c.8",)},
        ["c.7", "c.7", "c.7"], {"h3": "the known inventory has c.7, its GPUs report c.8"},
    ),
    (
        {"h1": "rack7", "h2": "rack8"}, {"h1": ("c.7",), "h2": ("c.7",), "h3": ("c.7",)},
        ["rack7", "rack8", "rack7"], {"h2": "the known inventory has rack8, its GPUs report c.7 (rack7)"},
    ),
])  # fmt: skip
def test_hosts_have_the_nvlink_domain_that_their_gpus_report(
    known: dict[str, str], reported: dict[str, tuple[str, ...]], domains: list[str], doubtful: dict[str, str]
) -> None:
    """Not until they are registered; a domain that the known inventory has stays."""
    names = {device: tuple(Component(name, "nvlink-domain") for name in own) for device, own in reported.items()}
    own = Inventory(tuple(Device(device, "host", "host", domain=domain) for device, domain in known.items()))
    draft = draft_inventory(
        [facts(device, Source.SOURCE_HOST, components=parts) for device, parts in names.items()], known=own
    )
    assert [device.domain for device in draft.inventory.devices] == domains
    assert {each.row: each.reason for each in draft.doubts if each.column == "domain"} == doubtful


def test_a_switch_has_no_nvlink_domain() -> None:
    """A device that the known inventory has as a switch is none of a domain's hosts."""
    known = Inventory((Device("sw", "switch", "T0"),))
    parts = (Component("c.7", "nvlink-domain"),)
    (switch,) = draft_inventory([facts("sw", Source.SOURCE_GNMI, components=parts)], known=known).inventory.devices
    assert (switch.kind, switch.domain) == ("switch", "")


def card(rail: int, plane: int, names: str) -> Component:
    """Return a port of a card with four planes and one RDMA device, with the name of its netdev."""
    return Component(f"mlx5_{rail}/{3 * plane + 3}", "nic",
                     alias=(names.format(rail=rail, plane=plane), f"0000:{rail}a:00.{plane}"))  # fmt: skip


@pytest.mark.parametrize(("names", "rails"), [
    ("eth_r{rail}_p{plane}", {3, 5}), ("eth_p{plane}_r{rail}", {3, 5}), ("ens{rail}f{plane}np{plane}", {0, 1}),
])  # fmt: skip
def test_planes_that_share_leaves_are_those_of_the_cards(names: str, rails: set[int]) -> None:
    """By the names of netdevs, which have the rail too, or by the functions of a card."""
    ends = [(rail, plane) for rail in (3, 5) for plane in range(4) if (rail, plane) != (3, 0) or rails != {3, 5}]
    draft = draft_inventory([
        facts("h1", Source.SOURCE_NIC, components=tuple(card(*end, names) for end in ends)),
        facts("h1", Source.SOURCE_HOST, *((f"mlx5_{r}/{3 * p + 3}", "leaf1", f"{r}/{p}") for r, p in ends)),
    ])  # fmt: skip
    numbers = dict(zip((3, 5), sorted(rails), strict=True))
    assert {(link.z_port, link.rail, link.plane) for link in draft.inventory.links} == {
        (f"{rail}/{plane}", numbers[rail], plane) for rail, plane in ends
    }  # fmt: skip
    assert ("rail" in {doubt.column for doubt in draft.doubts if doubt.table == "links"}) is (rails == {0, 1})


def test_two_devices_of_one_card_are_no_planes() -> None:
    """Each function has an RDMA device of its own: they are two rails."""
    nics = tuple(Component(f"mlx5_{n}", "nic", alias=(f"mlx5_{n}/1", f"0000:1a:00.{n}")) for n in range(2))
    draft = draft_inventory([
        facts("h1", Source.SOURCE_HOST, ("mlx5_0", "leaf1", "1"), ("mlx5_1", "leaf1", "2"), components=nics),
    ])  # fmt: skip
    assert [(link.rail, link.plane) for link in draft.inventory.links] == [(0, None), (1, None)]


def test_doubtful_links_and_devices_are_marked() -> None:
    """A link that one end reports, a neighbor that reports nothing, and two neighbors at one port."""
    draft = draft_inventory([
        facts("h1", Source.SOURCE_HOST, ("e0", "leaf1", "1"), ("e1", "leaf2", "1")),
        facts("leaf1", Source.SOURCE_GNMI, ("1", "h1", "e0"), ("2", "h2", "e0"), ("1", "h3", "e0")),
    ])  # fmt: skip
    kinds = {device.name: (device.kind, device.tier) for device in draft.inventory.devices}
    assert kinds == {
        "h1": ("host", "host"),
        "h2": ("host", "host"),
        "leaf1": ("switch", "T0"),
        "leaf2": ("switch", "T0"),
    }
    assert doubts_of(draft, "h1/e1 -- leaf2/1") == {"only one end reports it"}
    assert "it reports nothing itself: a switch if a host is connected, else a host" in doubts_of(draft, "leaf2")
    assert doubts_of(draft, "h3/e0 -- leaf1/1") == {"left out: another neighbor is reported at one of its ports"}


@pytest.mark.parametrize("own", [DEMO, PLANES, THREE_TIERS])
@pytest.mark.parametrize("part", [1, 2, 5])
def test_a_draft_forgets_nothing_of_the_known_inventory(own: Inventory, part: int) -> None:
    """Also while only a part of the devices has reported; the silent ones are marked."""
    some = reported(own)[::part]
    draft = draft_inventory(some, known=own)
    completed = {device.name: device for device in draft.inventory.devices}
    for device in own.devices:
        assert {name for name, value in device._asdict().items() if value} <= {
            name for name, value in device._asdict().items() if getattr(completed[device.name], name) == value
        }
    assert (len(completed), set(draft.inventory.links)) == (len(own.devices), set(own.links))
    silent = {device.name for device in own.devices} - {each.device for each in some}
    assert {each.row for each in draft.doubts if each.reason == "it has reported nothing yet"} == silent


def test_what_a_person_named_stays_and_links_complete_it() -> None:
    """A host that is read by SNMP stays a host with its pod, rail and GPUs; a new host gets the pod of its leaf."""
    known = Inventory(
        (Device("h1", "host", "host", "hall-2", gpus=4), Device("sw7", "switch", "T1", "hall-2")),
        (Link("h1", "eth1", "sw7", "p2", "host-link", 3, speed_bps=10**11),),
    )
    draft = draft_inventory(
        [
            facts("h1", Source.SOURCE_SNMP, ("eth0", "sw7", "p1")),
            facts("sw7", Source.SOURCE_SNMP, ("p1", "h1", "eth0"), ("p3", "h2", "eth0")),
            facts("h2", Source.SOURCE_HOST, ("eth0", "sw7", "p3")),
        ],
        known=known,
    )
    rows = {device.name: (device.kind, device.tier, device.pod, device.gpus) for device in draft.inventory.devices}
    assert rows == {
        "h1": ("host", "host", "hall-2", 4),
        "h2": ("host", "host", "hall-2", 0),
        "sw7": ("switch", "T0", "hall-2", 0),
    }
    assert known.links[0] in draft.inventory.links and len(draft.inventory.links) == 3
    assert doubts_of(draft, "h1/eth1 -- sw7/p2") == {"in the known inventory only: no end reports it"}
    assert "the known inventory has T1, the links show T0" in doubts_of(draft, "sw7")
