"""path/loss and rail/unreachable: first what must not fire, then links, switches, flows and rails that lose probes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.probe_mesh import WINDOW_NS, ProbeMesh
from streams.detect.detectors.path_loss.flows import FlowName, PathParams
from streams.detect.detectors.path_loss.localize import localize
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.score import Truth, score
from streams.wire.models import (
    CollectorStatus,
    Condition,
    Finding,
    Message,
    ProbeReport,
    ProbeWindow,
    RailProbes,
    Source,
    Symptom,
)
from streams.wire.symptoms import SourceSilence
from tests.worlds.live_stages import in_order
from tests.worlds.observations import at, last
from tests.worlds.probe_world import ProbeWorld, probed
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import play, recorded

INVENTORY, FABRIC = probed(demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=2, uplinks=1), at(0)))
PROBED = (Condition.PATH_LOSS, Condition.RAIL_UNREACHABLE)
LINK, RAIL = "pod1-leaf4/Ethernet6/1", "pod1-host2/mlx5_3"


def world(**faults: object) -> ProbeWorld:
    return ProbeWorld(topology=FABRIC, inventory=INVENTORY, **faults)  # type: ignore[arg-type]


def found(own: ProbeWorld, until: float = 900) -> list[Finding]:
    """Return the last revisions of the findings of both detectors."""
    return [one for one in last(played(in_order(recorded(own, until)))) if one.condition in PROBED]


def played(messages: list[Message]) -> list[Finding]:
    return [one for one in play(messages, FABRIC) if isinstance(one, Finding)]


SILENT: dict[str, dict[str, object]] = {
    "no fault": {},
    "noise of 10^-4 on one link": {"dropping": {LINK: (1e-4, [(100, 700)])}},
    "a moment of loss, as of a route that changes": {"dropping": {LINK: (1.0, [(200, 204)])}},
    "two such moments a minute apart": {"dropping": {LINK: (1.0, [(200, 203), (265, 268)])}},
    "a host that is stopped": {"stopped": {"pod1-host2": [(100, 400)]}},
    "a host that is stopped for seconds, again and again": {
        "stopped": {"pod1-host2": [(t, t + 4) for t in range(100, 700, 30)]}
    },
    "a rail that is lost for less than its windows": {"dropping": {RAIL: (1.0, [(200, 225)])}},
    "a rail that is out across two windows, and loses a few probes in a third": {
        "dropping": {RAIL: (1.0, [(206, 214), (235, 235.2)])}
    },
    "two rails of a leaf whose cables are swapped": {
        "dropping": {RAIL: (1.0, [(203, 238)]), "pod1-host4/mlx5_3": (1.0, [(213, 243)])}
    },
    "a rail whose link is shut": {"dropping": {RAIL: (1.0, [(100, 400)])}, "disabled": {RAIL: [(95, 405)]}},
}


def test_probes_state_that_they_do_not_show_the_paths_of_sprayed_packets() -> None:
    """A finding in a fabric that sprays RoCE states it; one of ECMP does not."""
    rows = in_order(recorded(world(dropping={LINK: (0.01, [(100, 400)])}), 600))
    statements = {}
    for balancing in ("ecmp", "sprayed"):
        devices = tuple(one._replace(load_balancing=balancing) for one in INVENTORY.devices)
        published = play(rows, Topology(replace(INVENTORY, devices=devices)))
        (loss,) = [one for one in last([f for f in published if isinstance(f, Finding)]) if one.condition in PROBED]
        statements[balancing] = " ".join(one.statement for one in loss.evidence)
    assert "probes show their own paths, not those of RoCE" in statements["sprayed"]
    assert "RoCE" not in statements["ecmp"]


@pytest.mark.parametrize("case", SILENT)
def test_it_does_not_fire(case: str) -> None:
    """Neither noise, nor a moment, nor a host that does not answer is a fault of the network."""
    assert found(world(**SILENT[case])) == []


def test_reports_of_a_prober_that_stalled_cast_no_votes() -> None:
    """Losses of one prober after its own stalls name no link, and the coverage states who is left out."""
    rng = np.random.default_rng(1)

    def stalled(report: ProbeReport) -> ProbeReport:
        lost = tuple(int(count) for count in rng.integers(0, 3, len(report.flow_sent)))
        return replace(report, stalls=2, flow_forward_lost=lost)

    messages = [
        stalled(one) if isinstance(one, ProbeReport) and one.device == "pod1-host3" else one
        for one in in_order(recorded(world(), 600))
    ]
    assert [one for one in played(messages) if one.condition in PROBED] == []
    counted = [replace(one, stalls=0) if isinstance(one, ProbeReport) else one for one in messages]
    loud = [one for one in last(played(counted)) if one.condition is Condition.PATH_LOSS]
    assert loud == []  # and even then its host explains them, which is no network


FAULTS: dict[str, tuple[dict[str, object], Condition, str]] = {
    "1 % downwards": ({"dropping": {LINK: (0.01, [(100, 500)])}}, Condition.PATH_LOSS, LINK),
    "1 % upwards": (
        {"dropping": {"spine2/Ethernet3/1": (0.01, [(100, 500)])}}, Condition.PATH_LOSS, "spine2/Ethernet3/1",
    ),
    "1 % at a host": ({"dropping": {RAIL: (0.01, [(100, 500)])}}, Condition.PATH_LOSS, RAIL),
    "a whole link": (
        {"dropping": {LINK: (1.0, [(100, 500)])}}, Condition.PATH_LOSS, LINK,
    ),
    "one flow": (
        {"dropping": {LINK: (1.0, [(100, 500)])}, "one_flow": frozenset({LINK})}, Condition.PATH_LOSS, LINK,
    ),
    "a switch": (
        {"dropping": {f"spine1/Ethernet{n}/1": (0.02, [(100, 500)]) for n in range(1, 9)}}, Condition.PATH_LOSS,
        "spine1/",
    ),
    "a dead leaf": (
        {"dropping": {f"pod1-leaf4/Ethernet{n}/1": (1.0, [(100, 500)]) for n in range(1, 8)}}, Condition.PATH_LOSS,
        "pod1-leaf4/",
    ),
    "a rail": ({"dropping": {RAIL: (1.0, [(100, 500)])}}, Condition.RAIL_UNREACHABLE, RAIL),
}  # fmt: skip


@cache
def found_in(case: str) -> tuple[Finding, ...]:
    return tuple(found(world(**FAULTS[case][0])))


@pytest.mark.parametrize("case", FAULTS)
def test_it_names_the_fault_and_no_other(case: str) -> None:
    """Within a minute; what follows from it is its child. The last window may lose no more than noise."""
    _, condition, place = FAULTS[case]
    device, port = place.split("/", 1)
    truth = Truth(at(100), at(500), condition, device, port, 60)
    scored = score(found_in(case), [truth])
    assert (scored.precision, scored.recall) == (1.0, 1.0), scored
    own = next(one for one in found_in(case) if one.condition is condition and not one.parent_id)
    assert (own.detected_at_ns or 0) <= at(160)
    assert own.resolved_at_ns is not None
    assert at(480) <= own.resolved_at_ns <= at(510)


@pytest.mark.parametrize(("lost", "is_found"), [(9, False), (30, True)])
def test_probes_that_any_link_of_their_paths_loses_make_no_bad_switch(lost: int, is_found: bool) -> None:
    """4,860 probes of 8 links each lose 4 at a noise of 10^-4 a link, and nine now and then."""
    spines = [f"spine{number}/Ethernet{port}/1" for number in (1, 2) for port in range(1, 16)]
    flows = [(f"pod1-host1/mlx5_{n}", f"pod1-host2/mlx5_{n}", spines[n]) for n in range(lost)]

    def window(number: int) -> ProbeWindow:
        own = flows[number::6]
        paths = [("pod1-leaf4/Ethernet1/1", spine, "pod1-leaf3/Ethernet8/1") for _, _, spine in own]
        backs = [("pod1-leaf3/Ethernet2/1", spine, "pod1-leaf4/Ethernet8/1") for _, _, spine in own]
        elements = list(dict.fromkeys(port for one in (*own, *paths, *backs) for port in one))
        elements += dict.fromkeys(port.split("/")[0] for port in list(elements))
        of_device = {"pod1-leaf4": 810, "pod1-leaf3": 810, "pod1-host1": 100_000, "pod1-host2": 100_000}
        zeros, place = (0,) * len(own), elements.index
        return ProbeWindow(
            0, at(10 * number), 8, 0, 8320, tuple(elements), tuple(of_device.get(name, 400) for name in elements),
            tuple(place(source) for source, _, _ in own), tuple(place(target) for _, target, _ in own),
            (20_001,) * len(own), (10,) * len(own), (1,) * len(own), zeros, zeros, (1,) * len(own),
            (3,) * len(own), (3,) * len(own),
            tuple(1 + place(hop) for both in zip(paths, backs, strict=True) for path in both for hop in path),
            zeros, zeros,
        )  # fmt: skip

    found = {one.element for one in localize(PathParams(), [window(number) for number in range(6)])}
    assert bool(found) == is_found, found


def test_a_rail_stays_unreached_while_a_switch_on_a_part_of_its_paths_is_lost() -> None:
    """All of its probes are lost: that the switch explains some of them makes the rest neither flows nor a link."""
    dead = {f"spine1/Ethernet{n}/1": (1.0, [(200, 300)]) for n in range(1, 9)}
    own = found(world(dropping={RAIL: (1.0, [(100, 500)])} | dead))
    assert {(one.condition, one.subject.id) for one in own} == {
        (Condition.RAIL_UNREACHABLE, "rail:pod1-host2/mlx5_3"), (Condition.PATH_LOSS, "device:spine1")
    }  # fmt: skip


@pytest.mark.parametrize("last_reach", [0, 3], ids=["none", "up to the target"])
def test_a_lost_flow_is_located_by_an_earlier_trace_where_that_of_its_last_window_shows_no_place(
    last_reach: int,
) -> None:
    """The fault ends within that window; the trace before it shows the place."""
    name = FlowName("pod1-host1/mlx5_3", "pod1-host2/mlx5_2", 20_005)
    forward, back = ("pod1-leaf4/Ethernet1/1", LINK, name.target), ("pod1-leaf3/Ethernet2/1", name.source)

    def window(number: int) -> ProbeWindow:
        elements = (*dict.fromkeys((*forward, *back)), "pod1-host1", "pod1-host2", "pod1-leaf3", "pod1-leaf4")
        is_last = number == 6
        return ProbeWindow(
            0, at(10 * number), 5, 0, 3000, elements, (300,) * len(elements), (elements.index(name.source),),
            (elements.index(name.target),), (name.source_port,), (10,), (0,), (0,), (9 if is_last else 10,),
            (10 * number,), (2,), (1,), (1, 2, 4), (last_reach if is_last else 2,), (0,),
        )  # fmt: skip

    (own,) = localize(PathParams(), [window(number) for number in range(1, 7)])
    assert (own.flow, own.element, own.is_located) == (name, LINK, True)


@pytest.mark.parametrize("port", ["pod1-host1/mlx5_0", "pod1-host4/mlx5_3", "pod1-leaf1/Ethernet1/1"])
@pytest.mark.parametrize("down", [(304, 360), (306, 352), (302, 330)])
def test_a_link_that_goes_down_beside_a_lost_flow_of_its_rail_explains_none_of_the_former_losses(
    port: str, down: tuple[int, int]
) -> None:
    """Of the last minute it has a part of one window; the flow is lost in all, and others over it in that one."""
    own = found(world(dropping={LINK: (1.0, [(100, 600)]), port: (1.0, [down])}, one_flow=frozenset({LINK})))
    (lost,) = (one for one in own if one.condition is Condition.PATH_LOSS)
    assert lost.subject.id == "link:pod1-leaf4/Ethernet6/1--spine1/Ethernet4/1"
    assert (lost.started_at_ns, lost.resolved_at_ns) == (at(100), at(600))
    rails = {one.subject.id for one in own if one.condition is Condition.RAIL_UNREACHABLE}
    assert rails <= {f"rail:{port}", "rail:pod1-host1/mlx5_0"}


@pytest.mark.parametrize(
    ("port", "share"), [("pod1-host3/mlx5_3", 0.5), ("pod1-host5/mlx5_0", 0.3), ("pod1-host4/mlx5_3", 0.25)]
)
def test_a_lost_flow_beside_or_behind_a_lossy_link_is_one_finding(port: str, share: float) -> None:
    """The losses of a link at a switch of the flow, or of its target, are no reason why it loses all probes."""
    dropping = {LINK: (1.0, [(100, 500)]), port: (share, [(50, 560)])}
    own = [one for one in found(world(dropping=dropping, one_flow=frozenset({LINK}))) if not one.parent_id]
    at_flow, beside = (FABRIC.link_at(Port(*name.split("/", 1))) for name in (LINK, port))
    assert at_flow is not None
    assert beside is not None
    assert sorted(one.subject.id for one in own) == sorted([at_flow.id, beside.id])
    (flow,) = (one for one in own if one.subject.id == at_flow.id)
    assert (flow.started_at_ns, flow.resolved_at_ns) == (at(100), at(500))
    assert (flow.detected_at_ns or 0) <= at(130)


def test_reports_of_a_clock_that_is_set_back_are_no_silence() -> None:
    """Its reports are dated by the measured offset, as samples are."""
    mesh = ProbeMesh(INVENTORY, [], np.random.default_rng(3))
    stage = begun(Measure(DetectParams()), FABRIC)
    back_ns = at(0) - at(100)
    for window in range(1, 40):
        report = mesh.report("pod1-host2", at(10 * window), back_ns if window > 20 else 0)
        symptoms = [output.message for output in stage.process([report]) if isinstance(output.message, Symptom)]
        assert not [one for one in symptoms if isinstance(one.payload, SourceSilence)]
        assert bool(symptoms) == (window == 24)  # the offset is measured
    assert at(390) <= stage.watermark_ns <= at(391)


def test_the_evidence_has_the_votes_and_the_direction() -> None:
    """`explain` prints the evidence: the losses into the port, the votes, and the probers that counted."""
    (own,) = found_in("1 % downwards")
    first, votes, probers = (one.statement for one in own.evidence[:3])
    assert f"probes into {LINK} are lost" in first
    assert f"votes of these flows for {LINK}; next:" in votes
    assert probers == "5 probers reported, 0 more stalled and cast no votes"
    (lost,) = found_in("one flow")
    assert f"beyond the last hop that answers: into {LINK}" in lost.evidence[0].statement


def test_a_repeated_or_late_report_counts_once_and_a_fabric_without_losses_sends_totals_only() -> None:
    """A report that arrives within the lateness makes its window again; later ones change nothing."""
    mesh = ProbeMesh(INVENTORY, [], np.random.default_rng(3))
    stage = begun(Measure(DetectParams()), FABRIC)
    hosts = sorted(mesh.probers)

    def lossless(report: ProbeReport) -> ProbeReport:
        none = (0,) * len(report.flow_sent)
        return replace(report, stalls=0, flow_forward_lost=none, flow_reverse_lost=none, flow_unanswered=none)

    def windows(reports: list[ProbeReport]) -> list[ProbeWindow]:
        sent = [output.message for output in stage.process(reports)]
        assert not any(isinstance(one, RailProbes) for one in sent)
        return [one for one in sent if isinstance(one, ProbeWindow)]

    first = [lossless(mesh.report(host, at(10))) for host in hosts]
    early = windows([*first[:-1], first[0]])
    assert [(one.at_ns, one.probers) for one in early] == [(at(10), 4)]
    assert early[0].sent == sum(sum(report.flow_sent) for report in first[:-1])
    again = windows([first[-1]])
    assert [(one.at_ns, one.probers, one.element) for one in again] == [(at(10), 5, ())]
    for second in (20, 30, 40, 50):
        windows([mesh.report(host, at(second)) for host in hosts])
    assert windows([mesh.report(hosts[0], at(10))]) == []


def test_a_prober_that_reports_is_not_stale() -> None:
    """A prober's status promises readings: its reports are them. Without them it would be stale, as one that stops."""
    own = world()
    statuses = [
        CollectorStatus(
            f"probe@{host}", 1, Source.SOURCE_PROBE, host, at(t), True, last_sample_at_ns=at(t), cadence_ns=WINDOW_NS
        )
        for host in ("pod1-host1", "pod1-host2")
        for t in range(60, 900, 60)
    ]
    reported = in_order([*recorded(own, 900), *statuses])
    assert stale_in(reported) == []
    unread = [one for one in reported if not (isinstance(one, ProbeReport) and one.device == "pod1-host2")]
    assert {one.subject.a.device for one in stale_in(unread) if one.subject.a is not None} == {"pod1-host2"}


def stale_in(messages: list[Message]) -> list[Finding]:
    return [one for one in played(messages) if one.condition is Condition.TELEMETRY_STALE]
