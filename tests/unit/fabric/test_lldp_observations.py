"""Tests reported LLDP neighbors and identities against the inventory: each verdict with its evidence."""

from collections.abc import Iterable
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory, PortName
from streams.fabric.lldp_observations import LldpObservations
from streams.fabric.lldp_verdict import (
    CablingVerdict,
    LldpNeighbor,
    NeighborEvidence,
    NeighborMatch,
    cabling_verdicts,
    swapped_links,
)
from streams.fabric.reported_identity import Difference, differences, is_replacement, with_reported_fields
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Component, Facts, Neighbor, Source
from tests.worlds.small_fabric import inventory, link, topology

TOP = topology()
LINK = TOP.links["link:p1-h1/e0--p1-l0/d1"]
CLOS = Topology(generate(GenerateParams(gpus=64, radix=8, rails=4, gpus_per_host=4, planes=2)))


def _of(neighbors: dict[str, Iterable[tuple[str, str, str]]], top: Topology = TOP) -> LldpObservations:
    observations = LldpObservations(top)
    for device, each_device in neighbors.items():
        observations.set_neighbors(device, "lldp", 5, [Neighbor(*each) for each in each_device])
    return observations


@pytest.mark.parametrize(
    ("neighbors", "verdict"),
    [
        ({}, CablingVerdict.UNOBSERVED),
        ({"p1-h1": [("e0", "p1-l0", "d1")]}, CablingVerdict.CONFIRMED),
        ({"p1-l0": [("d1", "p1-h1", "e0")]}, CablingVerdict.CONFIRMED),
        ({"p1-h1": [("e0", "p1-l0", "d1")], "p1-l0": [("d1", "p1-h1", "e0")]}, CablingVerdict.CONFIRMED),
        ({"p1-h1": [("e0", "p1-l0", "d2")]}, CablingVerdict.CONTRADICTED),
        ({"p1-h1": [("e0", "p1-l1", "d1")]}, CablingVerdict.CONTRADICTED),
        ({"p1-h1": [("e0", "p1-l1", "who knows")]}, CablingVerdict.CONTRADICTED),
        ({"p1-h1": [("e0", "p1-l0", "d7")]}, CablingVerdict.CONTRADICTED),
        ({"p1-h1": [("e0", "p1-l0", "d1")], "p1-l0": [("d1", "p1-h2", "e0")]}, CablingVerdict.CONTRADICTED),
        ({"p1-h1": [("e0", "another-name", "d1")]}, CablingVerdict.UNOBSERVED),
        ({"p1-h1": [("e0", "p1-l0", "00:11:22:33:44:55")]}, CablingVerdict.CONFIRMED),
        ({"p1-h1": [("e0", "dpu", "p0"), ("e0", "p1-l0", "d1"), ("e0", "p1-l1", "d2")]}, CablingVerdict.CONFIRMED),
        ({"p1-h1": [("e0", "dpu", "p0"), ("e0", "p1-l1", "d2")]}, CablingVerdict.CONTRADICTED),
        ({"p1-h1": [("e1", "p1-l1", "d1")]}, CablingVerdict.UNOBSERVED),
        ({"p1-h1": [("e0", "P1-L0.fabric.example", "d1")]}, CablingVerdict.CONFIRMED),
    ],
)
def test_a_link_is_confirmed_contradicted_or_unobserved(
    neighbors: dict[str, Iterable[tuple[str, str, str]]], verdict: CablingVerdict
) -> None:
    """The neighbor at either end decides; no neighbor and unresolved names neither confirm nor contradict."""
    observations = _of(neighbors)
    assert observations.verdict(LINK) is verdict
    assert observations.contradicted() == ((LINK,) if verdict is CablingVerdict.CONTRADICTED else ())


def test_evidence_has_port_source_time_and_neighbor() -> None:
    """Evidence has the advertised names and the resolved port where there is one; the newest comes first."""
    observations = _of({"p1-h1": [("e0", "p1-l1.example", "d2")]})
    observations.set_neighbors("p1-l0", "gnmi", 9, [LldpNeighbor("d1", "P1-H1", "e0")])
    assert observations.evidence(LINK) == (
        NeighborEvidence(Port("p1-l0", "d1"), "gnmi", 9, NeighborMatch.EXPECTED, "p1-h1", "e0", Port("p1-h1", "e0")),
        NeighborEvidence(
            Port("p1-h1", "e0"), "lldp", 5, NeighborMatch.UNEXPECTED, "p1-l1.example", "d2", Port("p1-l1", "d2")
        ),
    )
    assert [each.at_ns for each in observations.evidence(LINK, since_ns=6)] == [9]


def test_old_neighbors_are_ignored() -> None:
    """The caller passes the oldest time to consider."""
    observations = _of({"p1-h1": [("e0", "p1-l0", "d1")]})
    assert (observations.verdict(LINK, since_ns=5), observations.verdict(LINK, since_ns=6)) == (
        CablingVerdict.CONFIRMED, CablingVerdict.UNOBSERVED,
    )  # fmt: skip


def test_a_newer_report_replaces_the_older_one() -> None:
    """A repaired link is confirmed, a port without a neighbor is unobserved; an older report changes nothing."""
    observations = _of({"p1-h1": [("e0", "p1-l0", "d2")]})
    observations.set_neighbors("p1-h1", "lldp", 6, [LldpNeighbor("e0", "p1-l0", "d1")])
    assert observations.verdict(LINK) is CablingVerdict.CONFIRMED
    observations.set_neighbors("p1-h1", "lldp", 4, [LldpNeighbor("e0", "p1-l0", "d2")])
    assert observations.verdict(LINK) is CablingVerdict.CONFIRMED
    observations.set_neighbors("p1-h1", "lldp", 7, [])
    assert (observations.verdict(LINK), observations.evidence(LINK)) == (CablingVerdict.UNOBSERVED, ())


def test_the_newer_of_two_sources_takes_precedence() -> None:
    """An unresolved name does not override a resolved one."""
    observations = _of({"p1-h1": [("e0", "p1-l0", "d2")]})
    observations.set_neighbors("p1-h1", "snmp", 6, [LldpNeighbor("e0", "p1-l0", "d1")])
    assert observations.verdict(LINK) is CablingVerdict.CONFIRMED
    observations.set_neighbors("p1-h1", "lldp", 7, [LldpNeighbor("e0", "p1-l0", "d2")])
    assert observations.verdict(LINK) is CablingVerdict.CONTRADICTED
    observations.set_neighbors("p1-h1", "snmp", 8, [LldpNeighbor("e0", "a name", "d1")])
    assert observations.verdict(LINK) is CablingVerdict.CONTRADICTED
    assert len(observations.evidence(LINK)) == 2


def test_two_swapped_links_are_reported_as_a_pair() -> None:
    """Each has the far end of the other as its neighbor; a third miscabled link has no partner."""
    observations = _of({
        "p1-h1": [("e0", "p1-l0", "d2")], "p1-h2": [("e0", "p1-l0", "d1"), ("e1", "p2-l1", "d1")],
        "p1-l0": [("d1", "p1-h2", "e0"), ("d2", "p1-h1", "e0")],
    })  # fmt: skip
    pairs, graph = swapped_links(observations.link_neighbors()), TOP.graph
    own = [graph.number_of(TOP.links[f"link:p1-h{n}/e0--p1-l0/d{n}"]) for n in (1, 2)]
    assert pairs[own].tolist() == own[::-1]
    assert np.count_nonzero(pairs >= 0) == 2
    assert len(observations.contradicted()) == 3


def test_parallel_links_are_distinguished_by_their_ports() -> None:
    """With two links to one device its name alone confirms neither; with known port names it does."""
    devices = (Device("h", "host", "host"), Device("l", "switch", "T0"))
    links = tuple(link(f"h/e{n}", f"l/d{n}", "host-link", rail=n) for n in (0, 1))
    top = Topology(Inventory(devices=devices, links=links))
    link_ = top.links["link:h/e0--l/d0"]
    observations = _of({"l": [("d0", "h", "b8:59:9f:00:00:01"), ("d1", "h", "b8:59:9f:00:00:02")]}, top)
    assert observations.verdict(link_) is CablingVerdict.UNOBSERVED
    assert observations.evidence(link_)[0].match is NeighborMatch.UNKNOWN_NAME
    observations.set_components(
        "h", "host", [Component("e1", alias=("ens1", "B859.9F00.0001")), Component("e0", alias=("ens0",))]
    )
    assert observations.verdict(link_) is CablingVerdict.CONTRADICTED
    assert observations.evidence(link_)[0].resolved == Port("h", "e1")
    observations.set_components(
        "h", "host", [Component("e0", alias=("b8599f000001",)), Component("e1", alias=("b8599f000002",))]
    )
    observations.set_neighbors(
        "l", "lldp", 6, [LldpNeighbor("d0", "h", "b8-59-9f-00-00-01"), LldpNeighbor("d1", "h", "b859.9f00.0002")]
    )
    assert observations.verdicts().tolist() == [CablingVerdict.CONFIRMED] * 2


def test_port_aliases_of_a_host_are_resolved() -> None:
    """The table of ports resolves them at once, its components from then on; before that the neighbor is unmatched."""
    observations = _of({"p1-h1": [("ens3", "p1-l0", "d1")]})
    assert (observations.verdict(LINK), list(observations.unmatched())) == (
        CablingVerdict.UNOBSERVED, [("p1-h1", "lldp", LldpNeighbor("ens3", "p1-l0", "d1"))],
    )  # fmt: skip
    observations.set_components("p1-h1", "nic", [Component("mlx5_0", alias=("ens3", "e0"))])
    assert (observations.verdict(LINK), list(observations.unmatched())) == (CablingVerdict.CONFIRMED, [])
    named = topology(inventory(ports=[PortName("p1-h1", "e0", "ens3")]))
    assert _of({"p1-h1": [("ens3", "p1-l0", "d1")]}, named).verdict(LINK) is CablingVerdict.CONFIRMED


def test_an_ambiguous_name_resolves_to_nothing() -> None:
    """Two devices share a short name, and two ports share an alias."""
    devices = (Device("h.a", "host", "host"), Device("h.b", "host", "host"), Device("l", "switch", "T0", serial="S1"))
    links = (link("h.a/0", "l/a", "host-link"), link("h.b/0", "l/b", "host-link"))
    top = Topology(Inventory(devices=devices, links=links))
    names = LldpObservations(top).names
    assert (
        names.resolve_device("h"),
        names.resolve_device("H.A"),
        names.resolve_device("s1"),
        names.resolve_device("x"),
    ) == (None, "h.a", "l", None)
    names.set_components(
        "l", 1, [Component("a", alias=("m", "n")), Component("b", alias=("m",)), Component("c", alias=("o",))]
    )
    assert [names.resolve_port("l", name) for name in ("a", "m", "n", "o")] == ["a", None, "a", None]
    names.set_components("l", 2, [Component("b", alias=("n",))])
    assert names.resolve_port("l", "n") is None


def test_reports_of_unknown_devices_are_ignored() -> None:
    """Their neighbors are on links that the inventory does not contain either."""
    observations = _of({"ghost": [("e0", "p1-l0", "d1")]})
    observations.set_components("ghost", 1, [Component("e0")])
    assert list(observations.observations()) == []


def test_neighbors_are_evaluated_again_for_another_version() -> None:
    """A link that the new inventory corrects is confirmed by neighbors reported before."""
    observations = _of({"p1-h1": [("e0", "p1-l0", "d2"), ("e1", "p1-l1", "d1"), ("x", "y", "z")]})
    assert {(d, s, at): set(neighbors) for d, s, at, neighbors in observations.observations()} == {
        ("p1-h1", "lldp", 5): {
            LldpNeighbor("e0", "p1-l0", "d2"),
            LldpNeighbor("e1", "p1-l1", "d1"),
            LldpNeighbor("x", "y", "z"),
        }
    }
    own = inventory()
    wanted = {("p1-h1", "e0"): "d2", ("p1-h2", "e0"): "d1"}
    links = tuple(each._replace(a_port=wanted.get((each.z_device, each.z_port), each.a_port)) for each in own.links)
    later = observations.rebased_on(Topology(Inventory(own.devices, links)))
    assert later.contradicted() == ()
    assert np.count_nonzero(later.verdicts() == CablingVerdict.CONFIRMED) == 2
    assert [set(neighbors) for *_, neighbors in later.observations()] == [
        set(neighbors) for *_, neighbors in observations.observations()
    ]


@given(st.data())
def test_verdicts_equal_the_simulated_cabling(data: st.DataObject) -> None:
    """Links with changed upper ends are contradicted, the others confirmed, for any reporting end and any order."""
    links = list(CLOS.links.values())
    some = data.draw(st.lists(st.sampled_from(range(len(links))), unique=True, max_size=6))
    shuffled = data.draw(st.permutations(some))
    far_ends = {link_: link_.upper for link_ in links}
    far_ends |= {links[one]: links[other].upper for one, other in zip(some, shuffled, strict=True)}
    neighbors: dict[str, list[LldpNeighbor]] = {}
    for link_, upper in far_ends.items():
        neighbors.setdefault(link_.lower.device, []).append(LldpNeighbor(link_.lower.port, *upper))
        neighbors.setdefault(upper.device, []).append(LldpNeighbor(upper.port, *link_.lower))
    reporting_ends = data.draw(st.sampled_from(["both", "lower", "upper"]))
    observations, reporting = LldpObservations(CLOS), set()
    for device, at_ns in zip(data.draw(st.permutations(sorted(neighbors))), count()):
        is_host = CLOS.devices[device].kind == "host"
        if reporting_ends == "both" or is_host == (reporting_ends == "lower"):
            observations.set_neighbors(device, 1, at_ns, neighbors[device])
            reporting.add(device)

    def expected(link_: TopologyLink) -> CablingVerdict:
        wrong = {near for near, far in zip(some, shuffled, strict=True) if near != far}
        if not reporting & {link_.lower.device, link_.upper.device}:
            return CablingVerdict.UNOBSERVED
        return CablingVerdict.CONTRADICTED if link_ in {links[one] for one in wrong} else CablingVerdict.CONFIRMED

    found = observations.verdicts()
    assert {c.id: CablingVerdict(int(found[CLOS.graph.number_of(c)])) for c in links} == {
        c.id: expected(c) for c in links
    }
    again = observations.rebased_on(CLOS)
    assert again.verdicts().tolist() == found.tolist()
    assert {s[:3]: set(s[3]) for s in again.observations()} == {s[:3]: set(s[3]) for s in observations.observations()}


@given(st.lists(st.tuples(st.sampled_from(list(NeighborMatch)), st.sampled_from(list(NeighborMatch))), max_size=9))
def test_a_verdict_does_not_depend_on_the_reporting_end(ends: list[tuple[NeighborMatch, NeighborMatch]]) -> None:
    """Contradiction takes precedence over confirmation, and one end suffices to confirm."""
    match = np.array(ends, np.int8).reshape(-1, 2).T
    assert cabling_verdicts(match).tolist() == cabling_verdicts(match[::-1]).tolist()
    for (one, other), found in zip(ends, cabling_verdicts(match).tolist(), strict=True):
        assert (found == CablingVerdict.CONTRADICTED) == (NeighborMatch.UNEXPECTED in (one, other))
        assert (found == CablingVerdict.UNOBSERVED) == (
            {one, other} <= {NeighborMatch.NO_NEIGHBOR, NeighborMatch.UNKNOWN_NAME}
        )


def test_a_reported_identity_is_compared_with_the_inventory() -> None:
    """A different serial number is another device, a longer vendor name is not; blank means not reported."""
    own = Device("l", "switch", "T0", vendor="Arista", model="7060X5", serial="S1")
    neighbors = Facts(
        "l", 1, Source.SOURCE_GNMI, vendor="Arista Networks", model="7800R3", os_version="4.31", serial="s1 "
    )
    assert differences(own, neighbors) == (Difference("model", "7060X5", "7800R3"),)
    assert not is_replacement(own, neighbors)
    assert with_reported_fields(own, neighbors) == own._replace(firmware="4.31")
    other = Facts("l", 1, Source.SOURCE_GNMI, serial="S11")
    assert (differences(own, other), is_replacement(own, other)) == ((Difference("serial", "S1", "S11"),), True)
    assert with_reported_fields(Device("l", "switch", "T0"), neighbors).serial == "s1 "
