"""Tests the names of LLDP neighbors against the inventory: each match at the end of a link."""

import pytest

from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory, PortName
from streams.fabric.lldp_verdict import LldpNeighbor, NeighborMatch
from streams.fabric.name_resolution import NameResolver
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import inventory, link, topology

EXPECTED, UNEXPECTED, UNKNOWN = NeighborMatch.EXPECTED, NeighborMatch.UNEXPECTED, NeighborMatch.UNKNOWN_NAME


@pytest.mark.parametrize(
    ("device", "port", "match", "remote"),
    [
        ("p1-l0", "d1", EXPECTED, Port("p1-l0", "d1")),
        ("P1-L0.fabric.example", "d1", EXPECTED, Port("p1-l0", "d1")),
        ("p1-l0", "00:11:22:33:44:55", EXPECTED, Port("p1-l0", "d1")),
        ("p1-l0", "d2", UNEXPECTED, Port("p1-l0", "d2")),
        ("p1-l0", "d7", UNEXPECTED, None),
        ("p1-l1", "d1", UNEXPECTED, Port("p1-l1", "d1")),
        ("p1-l1", "who knows", UNEXPECTED, None),
        ("another-name", "d1", UNKNOWN, None),
    ],
)
def test_a_neighbor_is_expected_unexpected_or_unknown(
    device: str, port: str, match: NeighborMatch, remote: Port | None
) -> None:
    """A port name of another kind is expected if one link leads to the device; one that differs in digits is not."""
    top = topology()
    own = top.links["link:p1-h1/e0--p1-l0/d1"]
    neighbor = LldpNeighbor("e0", device, port)
    assert NameResolver(top).match_neighbor(own, own.upper, neighbor) == (match, remote)


def test_a_port_name_of_another_kind_is_unknown_if_several_links_lead_to_the_device() -> None:
    """It may be the name of any of their ports."""
    devices = (Device("h", "host", "host"), Device("l", "switch", "T0"))
    links = (link("h/0", "l/a1", "host-link"), link("h/1", "l/a2", "host-link"))
    top = Topology(Inventory(devices=devices, links=links))
    own = top.links["link:h/0--l/a1"]
    neighbor = LldpNeighbor("0", "l", "00:11:22:33:44:55")
    assert NameResolver(top).match_neighbor(own, own.upper, neighbor) == (UNKNOWN, None)


def test_an_ambiguous_name_resolves_to_nothing() -> None:
    """Two devices share a short name; ids and serial numbers are names too, without regard to case."""
    devices = (Device("h.a", "host", "host"), Device("h.b", "host", "host"), Device("l", "switch", "T0", serial="S1"))
    links = (link("h.a/0", "l/a", "host-link"), link("h.b/0", "l/b", "host-link"))
    names = NameResolver(Topology(Inventory(devices=devices, links=links)))
    assert [names.resolve_device(name) for name in ("h", "H.A", "s1", "x")] == [None, "h.a", "l", None]


def test_an_alias_of_the_inventory_resolves_to_its_port() -> None:
    """A port that no link ends at resolves to nothing."""
    names = NameResolver(topology(inventory(ports=[PortName("p1-h1", "e0", "ens3")])))
    assert [names.resolve_port("p1-h1", name) for name in ("ens3", "e0", "e9")] == ["e0", "e0", None]


@pytest.mark.parametrize(
    ("own", "advertised", "match"),
    [
        ("Ethernet8", "Ethernet2", EXPECTED),
        ("Ethernet0", "Ethernet1", EXPECTED),
        ("Ethernet56", "Ethernet8", EXPECTED),
        ("Ethernet8", "Ethernet56", UNEXPECTED),
        ("Ethernet8", "Ethernet3", UNKNOWN),
        ("Ethernet8", "Ethernet16", UNEXPECTED),
    ],
)
def test_an_alias_that_numbers_ports_and_not_lanes_is_no_other_port(
    own: str, advertised: str, match: NeighborMatch
) -> None:
    """SONiC names ports by lanes and may advertise aliases by ports; a number of neither is unknown."""
    devices = (Device("l", "switch", "T0"), Device("s", "switch", "T1"))
    ports = ("Ethernet0", "Ethernet8", "Ethernet56")
    links = tuple(link(f"l/u{n}", f"s/{port}", "fabric-link") for n, port in enumerate(ports))
    top = Topology(Inventory(devices=devices, links=links))
    cable = top.links[f"link:l/u{ports.index(own)}--s/{own}"]
    neighbor = LldpNeighbor(cable.lower.port, "s", advertised)
    assert NameResolver(top).match_neighbor(cable, cable.upper, neighbor)[0] is match
