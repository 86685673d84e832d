"""What devices hear and say of themselves, beside the inventory: each verdict with its evidence."""

from collections.abc import Iterable
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from streams.simulation.clos import GenerateParams, generate
from streams.wire.models import Component, Facts, Neighbor, Source
from tests.worlds.small_fabric import inventory, link, topology

TOP = topology()
CABLE = TOP.links["link:p1-h1/e0--p1-l0/d1"]
CLOS = Topology(generate(GenerateParams(gpus=64, radix=8, rails=4, gpus_per_host=4, planes=2)))


def _of(told: dict[str, Iterable[tuple[str, str, str]]], top: Topology = TOP) -> LldpObservations:
    observed = LldpObservations(top)
    for device, neighbors in told.items():
        observed.set_neighbors(device, "lldp", 5, [Neighbor(*each) for each in neighbors])
    return observed


@pytest.mark.parametrize(
    ("told", "verdict"),
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
def test_a_link_is_confirmed_contradicted_or_unseen(
    told: dict[str, Iterable[tuple[str, str, str]]], verdict: CablingVerdict
) -> None:
    """By what either end hears; silence and names that nobody knows are neither for nor against."""
    observed = _of(told)
    assert observed.verdict(CABLE) is verdict
    assert observed.contradicted() == ((CABLE,) if verdict is CablingVerdict.CONTRADICTED else ())


def test_evidence_says_who_heard_what_where_and_when() -> None:
    """The words as they were spoken, and the port that they mean where it is known; the newest first."""
    observed = _of({"p1-h1": [("e0", "p1-l1.example", "d2")]})
    observed.set_neighbors("p1-l0", "gnmi", 9, [LldpNeighbor("d1", "P1-H1", "e0")])
    assert observed.evidence(CABLE) == (
        NeighborEvidence(Port("p1-l0", "d1"), "gnmi", 9, NeighborMatch.EXPECTED, "p1-h1", "e0", Port("p1-h1", "e0")),
        NeighborEvidence(
            Port("p1-h1", "e0"), "lldp", 5, NeighborMatch.UNEXPECTED, "p1-l1.example", "d2", Port("p1-l1", "d2")
        ),
    )
    assert [each.at_ns for each in observed.evidence(CABLE, since_ns=6)] == [9]


def test_what_is_too_old_is_as_if_nobody_had_spoken() -> None:
    """The caller says from when on it cares."""
    observed = _of({"p1-h1": [("e0", "p1-l0", "d1")]})
    assert (observed.verdict(CABLE, since_ns=5), observed.verdict(CABLE, since_ns=6)) == (
        CablingVerdict.CONFIRMED, CablingVerdict.UNOBSERVED,
    )  # fmt: skip


def test_a_device_that_speaks_again_takes_back_what_it_said() -> None:
    """A cable put right is confirmed, a port that hears nothing any more is unseen; an older word changes nothing."""
    observed = _of({"p1-h1": [("e0", "p1-l0", "d2")]})
    observed.set_neighbors("p1-h1", "lldp", 6, [LldpNeighbor("e0", "p1-l0", "d1")])
    assert observed.verdict(CABLE) is CablingVerdict.CONFIRMED
    observed.set_neighbors("p1-h1", "lldp", 4, [LldpNeighbor("e0", "p1-l0", "d2")])
    assert observed.verdict(CABLE) is CablingVerdict.CONFIRMED
    observed.set_neighbors("p1-h1", "lldp", 7, [])
    assert (observed.verdict(CABLE), observed.evidence(CABLE)) == (CablingVerdict.UNOBSERVED, ())


def test_of_two_sources_at_one_end_the_newer_holds() -> None:
    """Whichever it is; a name that nobody knows does not outdo one that says something."""
    observed = _of({"p1-h1": [("e0", "p1-l0", "d2")]})
    observed.set_neighbors("p1-h1", "snmp", 6, [LldpNeighbor("e0", "p1-l0", "d1")])
    assert observed.verdict(CABLE) is CablingVerdict.CONFIRMED
    observed.set_neighbors("p1-h1", "lldp", 7, [LldpNeighbor("e0", "p1-l0", "d2")])
    assert observed.verdict(CABLE) is CablingVerdict.CONTRADICTED
    observed.set_neighbors("p1-h1", "snmp", 8, [LldpNeighbor("e0", "a name", "d1")])
    assert observed.verdict(CABLE) is CablingVerdict.CONTRADICTED
    assert len(observed.evidence(CABLE)) == 2


def test_two_cables_that_changed_places_are_told_as_a_pair() -> None:
    """Each hears the other's far end; a third that is wrong by itself has no partner."""
    observed = _of({
        "p1-h1": [("e0", "p1-l0", "d2")], "p1-h2": [("e0", "p1-l0", "d1"), ("e1", "p2-l1", "d1")],
        "p1-l0": [("d1", "p1-h2", "e0"), ("d2", "p1-h1", "e0")],
    })  # fmt: skip
    pairs, graph = swapped_links(observed.link_neighbors()), TOP.graph
    own = [graph.number_of(TOP.links[f"link:p1-h{n}/e0--p1-l0/d{n}"]) for n in (1, 2)]
    assert pairs[own].tolist() == own[::-1]
    assert np.count_nonzero(pairs >= 0) == 2
    assert len(observed.contradicted()) == 3


def test_parallel_cables_are_told_apart_by_their_ports_only() -> None:
    """Where two lead to one device, its name alone confirms neither; where its ports are learnt, they do."""
    devices = (Device("h", "host", "host"), Device("l", "switch", "T0"))
    links = tuple(link(f"h/e{n}", f"l/d{n}", "host-link", rail=n) for n in (0, 1))
    top = Topology(Inventory(devices=devices, links=links))
    cable = top.links["link:h/e0--l/d0"]
    observed = _of({"l": [("d0", "h", "b8:59:9f:00:00:01"), ("d1", "h", "b8:59:9f:00:00:02")]}, top)
    assert observed.verdict(cable) is CablingVerdict.UNOBSERVED
    assert observed.evidence(cable)[0].match is NeighborMatch.UNKNOWN_NAME
    observed.set_components(
        "h", "host", [Component("e1", alias=("ens1", "B859.9F00.0001")), Component("e0", alias=("ens0",))]
    )
    assert observed.verdict(cable) is CablingVerdict.CONTRADICTED
    assert observed.evidence(cable)[0].resolved == Port("h", "e1")
    observed.set_components(
        "h", "host", [Component("e0", alias=("b8599f000001",)), Component("e1", alias=("b8599f000002",))]
    )
    observed.set_neighbors(
        "l", "lldp", 6, [LldpNeighbor("d0", "h", "b8-59-9f-00-00-01"), LldpNeighbor("d1", "h", "b859.9f00.0002")]
    )
    assert observed.verdicts().tolist() == [CablingVerdict.CONFIRMED] * 2


def test_a_host_that_names_its_own_ports_otherwise_is_understood_once_it_said_how() -> None:
    """By the table of ports at once, by its components from then on; until then it is heard elsewhere."""
    observed = _of({"p1-h1": [("ens3", "p1-l0", "d1")]})
    assert (observed.verdict(CABLE), list(observed.unmatched())) == (
        CablingVerdict.UNOBSERVED, [("p1-h1", "lldp", LldpNeighbor("ens3", "p1-l0", "d1"))],
    )  # fmt: skip
    observed.set_components("p1-h1", "nic", [Component("mlx5_0", alias=("ens3", "e0"))])
    assert (observed.verdict(CABLE), list(observed.unmatched())) == (CablingVerdict.CONFIRMED, [])
    named = topology(inventory(ports=[PortName("p1-h1", "e0", "ens3")]))
    assert _of({"p1-h1": [("ens3", "p1-l0", "d1")]}, named).verdict(CABLE) is CablingVerdict.CONFIRMED


def test_a_name_of_two_things_means_neither() -> None:
    """Two devices of one short name, two ports of one alias."""
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
    assert [names.resolve_port("l", said) for said in ("a", "m", "n", "o")] == ["a", None, "a", None]
    names.set_components("l", 2, [Component("b", alias=("n",))])
    assert names.resolve_port("l", "n") is None


def test_devices_that_the_inventory_does_not_have_are_not_listened_to() -> None:
    """Their words are about links that it does not have either."""
    observed = _of({"ghost": [("e0", "p1-l0", "d1")]})
    observed.set_components("ghost", 1, [Component("e0")])
    assert list(observed.observations()) == []


def test_the_words_are_heard_again_under_another_version() -> None:
    """A cable that the inventory puts right by agreeing is confirmed by what was said before."""
    observed = _of({"p1-h1": [("e0", "p1-l0", "d2"), ("e1", "p1-l1", "d1"), ("x", "y", "z")]})
    assert {(d, s, at): set(told) for d, s, at, told in observed.observations()} == {
        ("p1-h1", "lldp", 5): {
            LldpNeighbor("e0", "p1-l0", "d2"),
            LldpNeighbor("e1", "p1-l1", "d1"),
            LldpNeighbor("x", "y", "z"),
        }
    }
    own = inventory()
    wanted = {("p1-h1", "e0"): "d2", ("p1-h2", "e0"): "d1"}
    links = tuple(each._replace(a_port=wanted.get((each.z_device, each.z_port), each.a_port)) for each in own.links)
    later = observed.rebased_on(Topology(Inventory(own.devices, links)))
    assert later.contradicted() == ()
    assert np.count_nonzero(later.verdicts() == CablingVerdict.CONFIRMED) == 2
    assert [set(told) for *_, told in later.observations()] == [set(told) for *_, told in observed.observations()]


@given(st.data())
def test_what_is_wired_is_what_is_found(data: st.DataObject) -> None:
    """Cables that changed their upper ends are contradicted, the others confirmed, whoever speaks, in any order."""
    cables = list(CLOS.links.values())
    some = data.draw(st.lists(st.sampled_from(range(len(cables))), unique=True, max_size=6))
    shuffled = data.draw(st.permutations(some))
    wired = {cable: cable.upper for cable in cables}
    wired |= {cables[one]: cables[other].upper for one, other in zip(some, shuffled, strict=True)}
    told: dict[str, list[LldpNeighbor]] = {}
    for cable, upper in wired.items():
        told.setdefault(cable.lower.device, []).append(LldpNeighbor(cable.lower.port, *upper))
        told.setdefault(upper.device, []).append(LldpNeighbor(upper.port, *cable.lower))
    is_speaking = data.draw(st.sampled_from(["both", "lower", "upper"]))
    observed, heard = LldpObservations(CLOS), set()
    for device, at_ns in zip(data.draw(st.permutations(sorted(told))), count()):
        is_host = CLOS.devices[device].kind == "host"
        if is_speaking == "both" or is_host == (is_speaking == "lower"):
            observed.set_neighbors(device, 1, at_ns, told[device])
            heard.add(device)

    def expected(cable: TopologyLink) -> CablingVerdict:
        wrong = {near for near, far in zip(some, shuffled, strict=True) if near != far}
        if not heard & {cable.lower.device, cable.upper.device}:
            return CablingVerdict.UNOBSERVED
        return CablingVerdict.CONTRADICTED if cable in {cables[one] for one in wrong} else CablingVerdict.CONFIRMED

    found = observed.verdicts()
    assert {c.id: CablingVerdict(int(found[CLOS.graph.number_of(c)])) for c in cables} == {
        c.id: expected(c) for c in cables
    }
    again = observed.rebased_on(CLOS)
    assert again.verdicts().tolist() == found.tolist()
    assert {s[:3]: set(s[3]) for s in again.observations()} == {s[:3]: set(s[3]) for s in observed.observations()}


@given(st.lists(st.tuples(st.sampled_from(list(NeighborMatch)), st.sampled_from(list(NeighborMatch))), max_size=9))
def test_a_verdict_does_not_depend_on_which_end_speaks(ends: list[tuple[NeighborMatch, NeighborMatch]]) -> None:
    """Contradiction outweighs confirmation, and a confirmation needs one end only."""
    hears = np.array(ends, np.int8).reshape(-1, 2).T
    assert cabling_verdicts(hears).tolist() == cabling_verdicts(hears[::-1]).tolist()
    for (one, other), found in zip(ends, cabling_verdicts(hears).tolist(), strict=True):
        assert (found == CablingVerdict.CONTRADICTED) == (NeighborMatch.UNEXPECTED in (one, other))
        assert (found == CablingVerdict.UNOBSERVED) == (
            {one, other} <= {NeighborMatch.NO_NEIGHBOR, NeighborMatch.UNKNOWN_NAME}
        )


def test_what_a_device_says_it_is_stands_beside_the_inventory() -> None:
    """A serial number that differs is another device, a longer word for its maker is not; blank says nothing."""
    own = Device("l", "switch", "T0", vendor="Arista", model="7060X5", serial="S1")
    told = Facts("l", 1, Source.SOURCE_GNMI, vendor="Arista Networks", model="7800R3", os_version="4.31", serial="s1 ")
    assert differences(own, told) == (Difference("model", "7060X5", "7800R3"),)
    assert not is_replacement(own, told)
    assert with_reported_fields(own, told) == own._replace(firmware="4.31")
    other = Facts("l", 1, Source.SOURCE_GNMI, serial="S11")
    assert (differences(own, other), is_replacement(own, other)) == ((Difference("serial", "S1", "S11"),), True)
    assert with_reported_fields(Device("l", "switch", "T0"), told).serial == "s1 "
