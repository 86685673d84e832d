"""link/miscabled: what it is not comes first; then swaps, wrong planes, one-sided evidence and moved cables."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, PortName
from streams.fabric.lldp_verdict import NeighborMatch
from streams.fabric.topology import Topology
from streams.replay.driver import event_time
from streams.wire.models import (
    CablingReport,
    Cause,
    Component,
    Condition,
    Facts,
    Finding,
    Message,
    Neighbor,
    Source,
    Status,
)
from streams.wire.stage import Output
from tests.worlds.facts_world import FactsWorld, lldp_facts
from tests.worlds.measure_stage import detected, snapshot_head
from tests.worlds.observations import at, last
from tests.worlds.small_fabric import begun, inventory, topology
from tests.worlds.small_world import play, recorded, stages, statuses

TOP = topology()
PAIR = ("p1-l0/d1", "p1-l0/d2")
HOST, LEAF = "p1-h1/e0", "p1-l0/d1"


def miscabled(published: Iterable[object]) -> list[Finding]:
    """The last revisions of these findings."""
    return last(f for f in published if isinstance(f, Finding) and f.condition is Condition.LINK_MISCABLED)


def with_facts(*facts: Facts, until: float = 1200) -> list[Message]:
    """A healthy fabric without other facts."""
    world = FactsWorld()
    return [*world.rounds(until), *statuses(world, until), *facts]


def again(port: str, remote: str, begin: float, end: float) -> list[Facts]:
    """One end has one LLDP neighbor, each minute."""
    return [lldp_facts(port, remote, float(t)) for t in range(int(begin), int(end), 60)]


RIGHT = Neighbor("e0", "p1-l0", "d1")
HEALTHY: dict[str, list[Facts]] = {
    "its full host name": again(HOST, "p1-l0.dc1.example.net/d1", 0, 1200),
    "another case": again(HOST, "P1-L0/d1", 0, 1200),
    "another name of the port, and one cable leads there": again(HOST, "p1-l0/24:8a:07:aa:bb:cc", 0, 1200),
    "an unknown name": again(HOST, "02:42:ac:11:00:02/swp7", 0, 1200),
    "a neighbour at a port without a link": again("p1-l0/mgmt0", "p2-h2/e0", 0, 1200),
    "no neighbor": [Facts("p1-h1", at(t), Source.SOURCE_GNMI) for t in range(0, 1200, 60)],
    "for less than five minutes": [*again(HOST, "p1-l0/d2", 100, 390), *again(HOST, "p1-l0/d1", 390, 1200)],
    "then nothing any more": [lldp_facts(HOST, "p1-l0/d2", 100), Facts("p1-h1", at(200), Source.SOURCE_GNMI)],
    "who should be there, and a DPU beside": [
        Facts("p1-h1", at(t), Source.SOURCE_GNMI, neighbors=(Neighbor("e0", "p2-h1", "e1"), RIGHT))
        for t in range(0, 1200, 60)
    ],
}  # fmt: skip


@pytest.mark.parametrize("facts", HEALTHY.values(), ids=HEALTHY)
def test_it_is_silent(facts: Sequence[Facts]) -> None:
    """A neighbor under another name, for a moment, or none at all is no wrong cable."""
    assert not play(with_facts(*facts))


def test_a_port_is_known_by_the_inventorys_other_name() -> None:
    """A MAC address in the table of ports is the port: a switch has a NIC's MAC as its neighbor."""
    top = topology(inventory(ports=[PortName("p1-h1", "e0", "24:8a:07:aa:bb:cc", "host")]))
    own = again(LEAF, "p1-h1/24:8a:07:aa:bb:cc", 0, 1200)
    assert not play(with_facts(*own), top)
    other = again("p1-l0/d2", "p1-h1/24:8a:07:aa:bb:cc", 0, 1200)
    (found,) = miscabled(play(with_facts(*other), top))
    assert "p1-l0/d2 leads to p1-h1/e0" in found.summary


def test_a_device_names_its_own_port_by_an_alias() -> None:
    """LLDP daemons report netdevs; the same Facts map each to a port of the inventory."""
    part = Component("mlx5_0", "nic", alias=("ens11np0", "e0"))
    facts = [replace(lldp_facts("p1-h1/ens11np0", "p1-l0/d2", t), components=(part,)) for t in (100, 500)]
    (found,) = miscabled(play(with_facts(*facts)))
    assert found.subject.id == "link:p1-h1/e0--p1-l0/d1"


def test_two_cables_that_changed_places_are_one_finding_that_names_both() -> None:
    """Both ends of both agree; the second is the first's child."""
    world = FactsWorld(swapped={PAIR: [(100, 700)]})
    first, second = sorted(miscabled(play(recorded(world, 1200))), key=lambda f: f.parent_id)
    assert first.summary == "p1-h1/e0 -- p1-l0/d1 and p1-h2/e0 -- p1-l0/d2 are swapped"
    assert (first.cause, first.confidence, first.status) == (Cause.CABLES_SWAPPED, 0.95, Status.RESOLVED)
    assert first.coverage is not None and (first.coverage.seen, first.coverage.expected) == (2, 2)
    assert (second.parent_id, first.parent_id) == (first.id, "")
    assert (first.started_at_ns, first.detected_at_ns) == (at(120.5), at(420.5))
    assert first.resolved_at_ns == at(720.5) and first.final


def test_one_end_is_enough_with_less_confidence() -> None:
    """Hosts without LLDP neighbors: only the switch reports, and both links are still one swap."""
    world = FactsWorld(swapped={PAIR: [(100, 1300)]})
    emitted = [m for m in recorded(world, 1200) if not (isinstance(m, Facts) and m.device.startswith("p1-h"))]
    first, second = sorted(miscabled(play(emitted)), key=lambda f: f.parent_id)
    assert (first.confidence, first.cause, second.cause) == (0.7, Cause.CABLES_SWAPPED, Cause.CABLES_SWAPPED)
    assert second.parent_id == first.id
    assert first.coverage is not None and first.coverage.missing == ("p1-h1/e0",)
    assert first.resolved_at_ns is None


CAUSES = {
    Cause.WRONG_PLANE: (HOST, "p1-l1/d1", "(plane 1 instead of 0)"),
    Cause.WRONG_PORT: ("p1-l0/u0", "s1/p1-l1", "instead of s1/p1-l0"),
    Cause.WRONG_DEVICE: ("p1-l0/u0", "s2/p1-l1", "instead of s1/p1-l0"),
}


@pytest.mark.parametrize(("cause", "port", "remote", "published"), [(k, *v) for k, v in CAUSES.items()], ids=CAUSES)
def test_the_evidence_names_the_error(cause: Cause, port: str, remote: str, published: str) -> None:
    """The evidence states the plane, the port or the device, with the neighbor and the expected one."""
    (found,) = miscabled(play(with_facts(*again(port, remote, 60, 1200))))
    assert found.cause == cause
    assert published in found.evidence[0].statement
    assert found.evidence[0].window_start_ns == at(60)


def test_a_wrong_rail_is_named() -> None:
    """A NIC at the switch port of another rail."""
    links = tuple(
        link._replace(rail=1) if Port(link.a_device, link.a_port) == Port("p1-l0", "d2") else link
        for link in inventory().links
    )
    top = topology(replace(inventory(), links=links))
    (found,) = miscabled(play(with_facts(*again(HOST, "p1-l0/d2", 60, 1200)), top))
    assert (found.cause, found.evidence[0].statement) == (
        Cause.WRONG_RAIL, "p1-h1/e0 has the LLDP neighbor p1-l0/d2 instead of p1-l0/d1 (rail 1 instead of 0)",
    )  # fmt: skip


def test_three_cables_in_a_round_are_one_incident() -> None:
    """Each took the next one's place; the first is the root."""
    ends = ["p1-l0/u0", "p1-l0/u1", "p1-l0/u2"]
    fars = ["s2/p1-l0", "s3/p1-l0", "s1/p1-l0"]
    neighbors = tuple(Neighbor(end.split("/")[1], *far.split("/", 1)) for end, far in zip(ends, fars, strict=True))
    facts = [Facts("p1-l0", at(t), Source.SOURCE_GNMI, neighbors=neighbors) for t in (60, 600)]
    found = miscabled(play(with_facts(*facts)))
    assert len(found) == 3
    assert sorted(bool(f.parent_id) for f in found) == [False, True, True]


def test_a_silent_witness_neither_closes_it_nor_opens_it() -> None:
    """Its device is not read any more: a neighbor of the last five minutes opens nothing, an open finding stays."""
    late = FactsWorld(swapped={PAIR: [(0, 1300)]}, not_polled={d: [(150, 2000)] for d in ("p1-l0", "p1-h1", "p1-h2")})
    assert not miscabled(play(recorded(late, 1200)))
    emitted = FactsWorld(
        swapped={PAIR: [(0, 1300)]}, not_polled={d: [(600, 2000)] for d in ("p1-l0", "p1-h1", "p1-h2")}
    )
    assert [f.status for f in miscabled(play(recorded(emitted, 1200)))] == [Status.OPEN, Status.OPEN]


def moved() -> Inventory:
    """The fabric in which the cables of both hosts at the leaf have changed places on paper."""
    other = {"d1": "d2", "d2": "d1"}
    links = tuple(
        link._replace(a_port=other[link.a_port]) if link.a_device == "p1-l0" and link.a_port in other else link
        for link in inventory().links
    )
    return replace(inventory(), links=links)


def findings_over_a_change(world: FactsWorld, change: float, until: float) -> list[Finding]:
    """Return the findings when the inventory changes at a time, in all stages at once."""
    own = stages()
    published: list[Finding] = []
    top = Topology(moved(), "moved")

    def on(outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output.message, Finding):
                published.append(output.message)
            elif output.message is not None and "finding" not in output.topic.name:
                on((own.attribute if "episodes" in output.topic.name else own.correlate).process([output.message]))

    for stage in (own.measure, own.correlate, own.attribute):
        stage.start_epoch(1)
        stage.set_topology(TOP)
    reached, is_moved = 0, False
    for message in sorted(recorded(world, until), key=event_time):
        on(own.measure.process([message]))
        if not reached < own.measure.watermark_ns < 2**62:
            continue
        reached = own.measure.watermark_ns
        for stage in (own.measure, own.correlate, own.attribute):
            if stage is not own.measure:
                on(stage.advance_watermark(reached))
            if not is_moved and reached >= at(change):
                on(stage.set_topology(top))
        is_moved = reached >= at(change)
    return miscabled(published)


@pytest.mark.parametrize("after", [0, 60, 1800, 5400])
def test_a_cable_that_is_moved_as_the_inventory_has_it_never_fires(after: float) -> None:
    """It may move at the moment of the change or within the time that people and hourly readings need."""
    world = FactsWorld(swapped={PAIR: [(600 + after, 10_000)]})
    assert not findings_over_a_change(world, 600, 700 + after)


def test_a_cable_that_was_not_moved_is_found_in_the_end() -> None:
    """The inventory names another place, and the cable stays: found after the time that is allowed to move it."""
    found = findings_over_a_change(FactsWorld(), 600, 9000)
    assert len(found) == 2
    assert {f.detected_at_ns is not None and f.detected_at_ns >= at(600 + 7800) for f in found} == {True}


def test_moving_the_links_on_paper_ends_what_was_found() -> None:
    """The cables were swapped, and the inventory is changed to match: both findings resolve at that moment."""
    found = findings_over_a_change(FactsWorld(swapped={PAIR: [(60, 10_000)]}), 900, 1500)
    assert [f.status for f in found] == [Status.RESOLVED, Status.RESOLVED]
    assert all(f.final and f.resolved_at_ns is not None and at(890) <= f.resolved_at_ns <= at(930) for f in found)


def test_a_healthy_fabric_emits_nothing() -> None:
    """Expected neighbors of all ports emit no report."""
    stage = begun(Measure(DetectParams()), TOP)
    world = FactsWorld()
    outputs = [o for t in (0, 60, 120) for d in TOP.links_of for o in stage.process([world.facts(d, t)])]
    assert not [o for o in outputs if isinstance(o.message, CablingReport)]
    sources = snapshot_head(stage)["small"]["facts"]["neighbors"]["sources"]
    assert sources and all(own[3] is None and not own[4] for own in sources)


def test_a_change_is_emitted_once() -> None:
    """An unexpected neighbor is emitted once, and the expected one once when it returns."""
    stage = begun(Measure(DetectParams()), TOP)
    facts = [*again(HOST, "p1-l0/d2", 0, 600), *again(HOST, "p1-l0/d1", 600, 900)]
    outputs = [o for fact in facts for o in detected(stage.process([fact]))]
    emitted = [o.message for o in outputs if isinstance(o.message, CablingReport)]
    assert [(one.neighbor_match, one.at_ns) for one in emitted] == [
        (NeighborMatch.UNEXPECTED, at(0)),
        (NeighborMatch.EXPECTED, at(600)),
    ]
