"""Tests each guard at its limit, below and above it, and with unknown input; and the order of the guards."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lab.constants import params_of
from streams.decide import guards
from streams.decide.capacity import Capacity
from streams.decide.guard_context import GuardContext, LostLinks, Proposal
from streams.decide.guards import GUARDS, Decision, evaluate
from streams.decide.params import DecideParams
from streams.decide.state import Isolations, TargetKind
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import Port
from streams.fabric.inventory import Job
from streams.fabric.inventory_rows import Part
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    Action,
    Condition,
    Coverage,
    Endpoint,
    Finding,
    SchedulerAnswer,
    Severity,
    Status,
    Subject,
    Verdict,
)
from tests.fakes.guard_views import FakeControls, FakeLinkStates
from tests.worlds.observations import at
from tests.worlds.other_fabrics import three_tiers
from tests.worlds.small_fabric import inventory, topology

HOUR = 3600
TOP = three_tiers(aggs=8, tops=8, hosts=8)
NO_LIMITS = {
    "fabric_cap": 1000, "fabric_cap_ratio": 1, "pod_cap": 1000, "pod_cap_ratio": 1, "actions_per_hour": 1000,
}  # fmt: skip
"""Settings with which caps and rates deny nothing."""


def link_at(port: str, top: Topology = TOP) -> TopologyLink:
    device, _, name = port.partition("/")
    link = top.link_at(Port(device, name))
    assert link is not None
    return link


def proposal(port: str, action: Action = Action.DRAIN_LINK, top: Topology = TOP, **changes: Any) -> Proposal:
    """Return the proposal for a link (`device/port`) or a host, with evidence of both ends."""
    device, _, name = port.partition("/")
    link = link_at(port, top) if name else None
    subject = (
        Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
        if link
        else Subject(f"device:{device}", Endpoint(device))
    )
    finding = Finding(
        f"finding/{port}", 1, False, Condition.LINK_FLAP, Status.OPEN, Severity.WARNING, subject, at(0), at(0),
        confidence=0.95, occurrences=2, coverage=Coverage(2, 2),
    )  # fmt: skip
    of_finding = {name: changes.pop(name) for name in ("confidence", "coverage", "condition") if name in changes}
    return replace(Proposal(action, subject, replace(finding, **of_finding), link), **changes)


ANSWERED = {"slurm": SchedulerAnswer("slurm", arrived_at_ns=at(1_000_000 - 30))}


def context(top: Topology = TOP, t: float = 1_000_000, **changes: Any) -> GuardContext:
    """Return a context in which all is healthy, fresh and allowed; `params` changes settings."""
    params = params_of(DecideParams, {"mode": "act", **changes.pop("params", {})})
    states = changes.pop("link_states", FakeLinkStates(at(t)))
    capacity = changes.pop("capacity", None) or Capacity(top)
    healthy = GuardContext(
        at(t), params, top, FakeControls(), states, Isolations(), capacity, schedulers=ANSWERED,
        lost_links=LostLinks(capacity, changes.pop("lost", ())).links,
    )  # fmt: skip
    return replace(healthy, **changes)


def result(decision: Decision) -> tuple[Verdict, int, str, float | None, float | None]:
    return decision.verdict, decision.guard, decision.constraint, decision.limit, decision.observed


def isolated(*targets: str, pod: str = "a", t: float = 0, kind: TargetKind = TargetKind.LINK) -> Isolations:
    isolations = Isolations()
    for target in targets:
        isolations.isolate(target, kind, pod, at(t))
    return isolations


def test_the_order_of_the_guards() -> None:
    """Numbers in results are places in this order."""
    assert [guard.__name__ for guard in GUARDS] == [
        "kill_switch", "mode", "maintenance", "exclusion", "evidence", "freshness", "inventory", "capacity", "caps",
        "rate", "budget", "cool_down", "job",
    ]  # fmt: skip


def test_a_healthy_target_is_approved_with_its_surviving_capacity() -> None:
    """No guard constrains it."""
    decision = evaluate(proposal("a-t0-0-0/u0"), context())
    assert result(decision) == (Verdict.APPROVED, 0, "", None, None)
    assert decision.surviving == 7 / 8


def test_guard_1_the_kill_switch() -> None:
    """It denies while it is on, and while the controls are not read to their end."""
    stopped = context(controls=FakeControls(is_stopped=True))
    assert result(evaluate(proposal("a-t0-0-0/u0"), stopped)) == (Verdict.DENIED, 1, "kill-switch", None, None)
    cold = context(controls=FakeControls(loaded=False))
    assert evaluate(proposal("a-t0-0-0/u0"), cold).constraint == "kill-switch"


def test_guard_2_the_mode() -> None:
    """Shadow is published as shadow, and still shows which guard denies."""
    shadow = context(params={"mode": "shadow"})
    assert result(evaluate(proposal("a-t0-0-0/u0"), shadow)) == (Verdict.SHADOW, 2, "mode", None, None)
    assert evaluate(proposal("a-t0-0-0/u0", confidence=None), shadow).guard == 5
    assert evaluate(proposal("a-t0-0-0/u0", confidence=0.6), shadow).verdict is Verdict.SHADOW
    assert DecideParams().mode == "shadow"


def test_guard_3_maintenance() -> None:
    """A control, or the inventory until the end that it has, denies."""
    target = proposal("a-t0-0-0/u0")
    controls = FakeControls(in_maintenance={target.target.id})
    assert result(evaluate(target, context(controls=controls)))[:3] == (Verdict.DENIED, 3, "maintenance")
    top = topology(inventory(maintenance=["s1"], until="2027-01-15T08:00:00Z"))
    until_ns = round(datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp() * 1e9)
    target = proposal("p1-l0/u0", top=top)
    for now_ns, guard in ((until_ns - 1, 3), (until_ns, 0)):
        now = replace(context(top, link_states=FakeLinkStates(now_ns)), now_ns=now_ns)
        assert evaluate(target, now).guard == guard


def test_guard_4_exclusion() -> None:
    """An excluded target is denied, its neighbor is not."""
    target = proposal("a-t0-0-0/u0")
    controls = FakeControls(excluded={target.target.id})
    assert result(evaluate(target, context(controls=controls)))[:3] == (Verdict.DENIED, 4, "exclusion")
    assert evaluate(proposal("a-t0-0-0/u1"), context(controls=controls)).verdict is Verdict.APPROVED


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (0.79, (Verdict.NEEDS_APPROVAL, 5, "confidence", 0.8, 0.79)),
        (0.8, (Verdict.APPROVED, 0, "", None, None)),
        (0.81, (Verdict.APPROVED, 0, "", None, None)),
        (None, (Verdict.DENIED, 5, "confidence", 0.8, None)),
    ],
)
def test_guard_5_the_confidence(confidence: float | None, expected: tuple[Any, ...]) -> None:
    """Below the floor a person decides; an unknown confidence is denied, even with an approval."""
    target = proposal("a-t0-0-0/u0", confidence=confidence)
    assert result(evaluate(target, context())) == expected
    approved = evaluate(target, context(approved_by="ops")).verdict
    assert approved is (Verdict.DENIED if confidence is None else Verdict.APPROVED)


def test_guard_5_evidence_of_one_end() -> None:
    """One of two ends reported, or sources that contradict: a person decides; wrong cabling is denied."""
    one_end = proposal("a-t0-0-0/u0", coverage=Coverage(1, 2))
    assert result(evaluate(one_end, context())) == (Verdict.NEEDS_APPROVAL, 5, "one-sided evidence", 2, 1)
    assert evaluate(proposal("a-t0-0-0/u0", coverage=Coverage(2, 2)), context()).verdict is Verdict.APPROVED
    states = FakeLinkStates(at(1_000_000), one_sided={one_end.target.id})
    for approved_by, verdict in (("", Verdict.NEEDS_APPROVAL), ("ops", Verdict.APPROVED)):
        now = context(link_states=states, approved_by=approved_by)
        assert evaluate(proposal("a-t0-0-0/u0"), now).verdict is verdict
    states = FakeLinkStates(at(1_000_000), contradicted={one_end.target.id})
    decision = evaluate(proposal("a-t0-0-0/u0"), context(link_states=states))
    assert result(decision) == (Verdict.NEEDS_APPROVAL, 5, "contradictory evidence", None, None)
    assert decision.group == "port a-t0-0-0/u0"
    miscabled = context(miscabled={one_end.target.id}, approved_by="ops")
    assert result(evaluate(one_end, miscabled)) == (Verdict.DENIED, 5, "cabling", None, None)


@pytest.mark.parametrize(("cadence_s", "limit_s"), [(1, 30), (10, 30), (60, 180)])
def test_guard_6_freshness(cadence_s: float, limit_s: float) -> None:
    """The limit is the larger of three cadences and 30 s, for both ends."""
    for age_s, guard in ((limit_s - 1, 0), (limit_s, 0), (limit_s + 1, 6)):
        states = FakeLinkStates(at(1_000_000 - age_s))
        decision = evaluate(proposal("a-t0-0-0/u0"), context(link_states=states, params={"cadence_s": cadence_s}))
        assert decision.guard == guard
    assert result(decision) == (Verdict.DENIED, 6, "freshness", limit_s, limit_s + 1)


@pytest.mark.parametrize("device", ["a-t0-0-0", "a-t1-0-0"])
def test_guard_6_an_end_without_an_observation(device: str) -> None:
    """One end that was never observed denies, with an approval too."""
    states = FakeLinkStates(at(1_000_000), unobserved={device})
    decision = evaluate(proposal("a-t0-0-0/u0"), context(link_states=states, approved_by="ops"))
    assert result(decision) == (Verdict.DENIED, 6, "freshness", 30, None)
    assert decision.group == f"device {device}"


def test_guard_7_the_inventory_has_the_target() -> None:
    """Of 40 drains of links that the inventory does not have, none is approved; nor is an unknown host."""
    known = proposal("a-t0-0-0/u0")
    subjects = [replace(known.target, id=f"link:x/{n}--y/{n}") for n in range(40)]
    unknown = [replace(known, target=subject, link=None) for subject in subjects]
    now = context(approved_by="ops", params=NO_LIMITS)
    assert {evaluate(one, now).constraint for one in unknown} == {"inventory"}
    assert evaluate(replace(known, target=subjects[0]), now).constraint == "inventory"
    assert evaluate(proposal("nohost", Action.CORDON_HOST), now).constraint == "inventory"
    assert evaluate(proposal("a-h0", Action.CORDON_HOST), now).verdict is Verdict.APPROVED


def test_guard_7_without_an_inventory_nothing_is_approved() -> None:
    """An empty topology has no links, hosts or groups."""
    from streams.fabric.inventory import Inventory

    empty = context(Topology(Inventory()), approved_by="ops", params=NO_LIMITS)
    assert evaluate(proposal("a-t0-0-0/u0"), empty).verdict is Verdict.DENIED
    assert evaluate(replace(proposal("a-t0-0-0/u0"), link=None), empty).verdict is Verdict.DENIED
    assert evaluate(proposal("a-h0", Action.CORDON_HOST), empty).verdict is Verdict.DENIED


def test_guard_8_capacity_at_the_floor() -> None:
    """A leaf with 8 uplinks keeps 6 of them with two lost; a third is denied with the group and the ratio."""
    target = proposal("a-t0-0-0/u0")
    for lost, verdict in ((0, Verdict.APPROVED), (1, Verdict.APPROVED), (2, Verdict.DENIED)):
        states = FakeLinkStates(at(1_000_000), {link_at(f"a-t0-0-0/u{n + 1}").id for n in range(lost)})
        decision = evaluate(target, context(link_states=states, approved_by="ops"))
        assert (decision.verdict, decision.surviving) == (verdict, (7 - lost) / 8)
    assert result(decision) == (Verdict.DENIED, 8, "surviving-capacity", 0.75, 0.625)
    assert decision.group == "switch a-t0-0-0"


def leaf_uplinks(leaf: str) -> set[str]:
    return {link_at(f"{leaf}/u{agg}").id for agg in range(8)}


def dead_leaf(**changes: Any) -> GuardContext:
    """Return a context with a dead T0 whose uplinks are observed down."""
    states = FakeLinkStates(at(1_000_000), down=leaf_uplinks("a-t0-0-0"))
    return context(**{"link_states": states, "dead": {"a-t0-0-0"}, **changes})


@pytest.mark.parametrize("port", ["a-t1-0-0/u0", "a-t1-0-7/u3", "a-t0-0-1/u0"])
def test_guard_8_a_dead_leaf_denies_no_drain_above_it(port: str) -> None:
    """It is proven dead, and all its uplinks are observed down: no drain of its pod lowers what it retains."""
    decision = evaluate(proposal(port), dead_leaf())
    assert (decision.verdict, decision.surviving) == (Verdict.APPROVED, 7 / 8)


@pytest.mark.parametrize("why", ["restarts", "unobserved", "observed up"])
def test_guard_8_a_leaf_that_is_not_proven_dead_denies_the_drains_on_its_paths(why: str) -> None:
    """Links that are down prove no dead switch, and a dead switch has links that are observed down."""
    unproven = {
        "restarts": dead_leaf(dead=()),
        "unobserved": dead_leaf(link_states=FakeLinkStates(at(1_000_000), leaf_uplinks("a-t0-0-0"))),
        "observed up": dead_leaf(link_states=FakeLinkStates(at(1_000_000)), lost={"a-t0-0-0"}),
    }[why]
    decision = evaluate(proposal("a-t1-0-0/u0"), unproven)
    assert result(decision) == (Verdict.DENIED, 8, "surviving-capacity", 0.75, 0)
    assert decision.group == "switch a-t0-0-0"
    assert evaluate(proposal("a-t1-1-0/u0"), unproven).verdict is Verdict.APPROVED


def test_guard_8_one_possible_path_of_a_dead_leaf_denies_its_link_only() -> None:
    """Seven of eight uplinks are observed down: a T1 that only the others reach may be drained, and its own not."""
    down = leaf_uplinks("a-t0-0-0") - {link_at("a-t0-0-0/u3").id}
    now = dead_leaf(link_states=FakeLinkStates(at(1_000_000), down=down))
    assert evaluate(proposal("a-t1-0-0/u0"), now).verdict is Verdict.APPROVED
    decision = evaluate(proposal("a-t1-0-3/u0"), now)
    assert (decision.verdict, decision.group) == (Verdict.DENIED, "switch a-t0-0-0")


def test_guard_8_the_uplinks_of_a_dead_leaf_itself_stay() -> None:
    """The own switch of a target counts whatever its links report, and a healthy leaf keeps its floor."""
    assert evaluate(proposal("a-t0-0-0/u0"), dead_leaf()).group == "switch a-t0-0-0"
    lost = {link_at(f"a-t1-0-{agg}/u{top}").id for agg in range(8) for top in range(2)}
    both = FakeLinkStates(at(1_000_000), down=leaf_uplinks("a-t0-0-0") | lost)
    assert evaluate(proposal("a-t1-0-0/u5"), dead_leaf(link_states=both)).verdict is Verdict.DENIED


LOSSES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "down or unobserved": lambda link, _: {"link_states": FakeLinkStates(at(1_000_000), {link})},
    "reported down by a finding": lambda link, _: {"lost": {link}},
    "at a device that is down": lambda _, device: {"lost": {f"device:{device}"}},
    "isolated or decided": lambda link, _: {"isolations": isolated(link)},
}


@pytest.mark.parametrize("name", ["a", "pod:a", "plane:0", "a-t1-0-1", "device:a-t1-0-1"])
def test_guard_8_counts_the_subject_of_a_maintenance(name: str) -> None:
    """Two of eight uplinks are lost, and one more by each name of their surroundings: a third is denied."""
    states = FakeLinkStates(at(1_000_000), {link_at("a-t0-0-0/u2").id})
    assert evaluate(proposal("a-t0-0-0/u0"), context(link_states=states)).verdict is Verdict.APPROVED
    decision = evaluate(proposal("a-t0-0-0/u0"), context(link_states=states, lost={name}))
    assert (decision.verdict, decision.guard) == (Verdict.DENIED, 8)


def test_guard_8_a_plane_in_maintenance_is_no_other_plane() -> None:
    """The only other plane of a host is in maintenance: a person decides."""
    assert evaluate(proposal("a-h0/e00"), context(lost={"plane:1"})).guard == 8
    assert evaluate(proposal("b-h0/e00"), context(lost={"pod:a"})).verdict is Verdict.APPROVED
    assert evaluate(proposal("a-h0/e00"), context(lost={"rail:a-h0/0"})).guard == 8


@pytest.mark.parametrize("reason", LOSSES)
def test_guard_8_counts_everything_that_is_not_proven_to_carry(reason: str) -> None:
    """One uplink of four is lost for each of these reasons: another is denied."""
    top = topology()
    lost = link_at("p1-l0/u1", top)
    changes = LOSSES[reason](lost.id, lost.upper.device)
    decision = evaluate(proposal("p1-l0/u0", top=top), context(top, params=NO_LIMITS, **changes))
    assert result(decision) == (Verdict.DENIED, 8, "surviving-capacity", 0.75, 0.5)


def test_guard_8_counts_links_of_a_device_in_maintenance() -> None:
    """The inventory has an end of the maintenance of a spine: until then its links are lost for all leaves."""
    top = topology(inventory(maintenance=["s2"], until="2027-01-15T08:00:00Z"))
    until_ns = round(datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp() * 1e9)
    for now_ns, verdict in ((until_ns - 1, Verdict.DENIED), (until_ns, Verdict.APPROVED)):
        now = replace(context(top, link_states=FakeLinkStates(now_ns)), now_ns=now_ns)
        assert evaluate(proposal("p1-l0/u0", top=top), now).verdict is verdict


def test_guard_8_the_own_report_of_a_link_waives_nothing() -> None:
    """All uplinks of a leaf are reported down: none of the repairs is approved, whatever the confidence."""
    ports = [f"a-t0-0-0/u{n}" for n in range(8)]
    links = {link_at(port).id for port in ports}
    states = FakeLinkStates(at(1_000_000), links)
    now = context(link_states=states, lost=links, approved_by="ops", params=NO_LIMITS)
    for port in ports:
        target = proposal(port, Action.REPAIR_LINK, condition=Condition.LINK_DOWN, confidence=0.6)
        assert evaluate(target, now).verdict is Verdict.DENIED


def test_guard_8_a_host_link_needs_another_plane_of_its_rail() -> None:
    """Without another plane that carries, a person decides; another rail does not help."""
    target = proposal("a-h0/e00")
    assert evaluate(target, context()).surviving == 0.5
    other_plane, other_rail = link_at("a-h0/e01"), link_at("a-h0/e10")
    assert evaluate(target, context(lost={other_rail.id})).verdict is Verdict.APPROVED
    for changes in (
        {"lost": {other_plane.id}},
        {"link_states": FakeLinkStates(at(1_000_000), {other_plane.id})},
        {"isolations": isolated(other_plane.id), "params": NO_LIMITS},
    ):
        decision = evaluate(target, context(**changes))
        assert result(decision) == (Verdict.NEEDS_APPROVAL, 8, "surviving-capacity", 1, 0)
        assert evaluate(target, context(**changes, approved_by="ops")).verdict is Verdict.APPROVED


EIGHT = generate(GenerateParams(gpus=3, rails=1, gpus_per_host=1, radix=4, planes=8, jobs=0))
"""Three hosts of one NIC with eight planes."""
OF_HOST_1 = [Job(job=name, device="host-00001", start=datetime(1970, 1, 1, tzinfo=UTC)) for name in ("other", "train")]
MANY_PLANES = {
    # the lost ports, the jobs, the action, and the limit and the observed value of the capacity guard
    "all others carry": ([], False, Action.DRAIN_LINK, None),
    "another plane is lost": (["host-00001/eth_r0_p1"], False, Action.DRAIN_LINK, (7, 6)),
    "all others are lost": ([f"host-00001/eth_r0_p{n}" for n in range(1, 8)], False, Action.DRAIN_LINK, (7, 0)),
    "a reset takes all planes": ([], False, Action.RESET_NIC, (7, 0)),
    "the same plane at another host": (["host-00002/eth_r0_p0"], False, Action.DRAIN_LINK, None),
    "the same plane at another host of its job": (["host-00002/eth_r0_p0"], True, Action.DRAIN_LINK, (1, 2)),
    "another plane at another host of its job": (["host-00002/eth_r0_p1"], True, Action.DRAIN_LINK, None),
    "the same plane at a host without the job": (["host-00003/eth_r0_p0"], True, Action.DRAIN_LINK, None),
}  # fmt: skip


@pytest.mark.parametrize("how", ["reported down", "not proven to carry", "isolated"])
@pytest.mark.parametrize(("lost", "has_job", "action", "expected"), MANY_PLANES.values(), ids=MANY_PLANES)
def test_guard_8_of_many_planes_one_may_be_missing(
    how: str, lost: list[str], has_job: bool, action: Action, expected: tuple[float, float] | None
) -> None:
    """A person decides if a rail misses more than one plane, or a job misses one plane at several hosts."""
    jobs = (*OF_HOST_1, OF_HOST_1[1]._replace(device="host-00002")) if has_job else ()
    top = Topology(replace(EIGHT, jobs=jobs))
    links = {link_at(port, top).id for port in lost}
    ways: dict[str, dict[str, Any]] = {
        "reported down": {"lost": links},
        "not proven to carry": {"link_states": FakeLinkStates(at(1_000_000), links)},
        "isolated": {"isolations": isolated(*links, pod="pod-01")},
    }
    changes = ways[how]
    decision = evaluate(proposal("host-00001/eth_r0_p0", action, top), context(top, params=NO_LIMITS, **changes))
    if expected is None:
        assert (decision.verdict, decision.surviving) == (Verdict.APPROVED, 0.875)
    else:
        assert result(decision) == (Verdict.NEEDS_APPROVAL, 8, "surviving-capacity", *expected)


def test_guard_8_a_person_decides_on_firmware() -> None:
    """No guard computes what a device loses while it restarts."""
    upgrade = proposal("a-t0-0-0", Action.UPGRADE_FIRMWARE)
    assert evaluate(upgrade, context()).verdict is Verdict.NEEDS_APPROVAL
    assert evaluate(upgrade, context(approved_by="ops")).verdict is Verdict.APPROVED


CAPS = [
    # name, settings, isolated in pod a, isolated in pod b, limit, observed
    ("pod cap", {"pod_cap": 3, "pod_cap_ratio": 1}, 3, 0, 3, 3),
    ("pod cap", {"pod_cap": 1000, "pod_cap_ratio": 2.5 / 192}, 3, 0, 3, 3),
    ("fabric cap", {"fabric_cap": 3, "pod_cap": 1000, "pod_cap_ratio": 1, "fabric_cap_ratio": 1}, 1, 2, 3, 3),
    ("fabric cap", {"pod_cap": 1000, "pod_cap_ratio": 1, "fabric_cap": 1000, "fabric_cap_ratio": 3 / 384}, 1, 2, 3, 3),
]


@pytest.mark.parametrize(("name", "changes", "in_a", "in_b", "limit", "observed"), CAPS)
def test_guard_9_caps(name: str, changes: dict[str, Any], in_a: int, in_b: int, limit: int, observed: int) -> None:
    """One below its cap is approved; at the cap the next is denied; a ratio is rounded up."""
    assert sum(link.pod == "a" for link in TOP.links.values()) == 192
    links = [f"a-t0-1-1/u{n}" for n in range(in_a)], [f"b-t0-1-1/u{n}" for n in range(in_b)]
    isolations = isolated(*(link_at(port).id for port in links[0]))
    for port in links[1]:
        isolations.isolate(link_at(port).id, TargetKind.LINK, "b", at(0))
    settings = {**NO_LIMITS, **changes}
    decision = evaluate(proposal("a-t0-0-0/u0"), context(isolations=isolations, params=settings))
    assert result(decision) == (Verdict.DENIED, 9, name, limit, observed)
    isolations.restored(link_at(links[0][0]).id, at(0))
    decision = evaluate(proposal("a-t0-0-0/u0"), context(isolations=isolations, params=settings))
    assert decision.verdict is Verdict.APPROVED


def test_guard_9_a_host_counts_for_the_absolute_caps_only() -> None:
    """Relative caps compare targets of one kind: 1 of 8 hosts, of 192 links."""
    isolations = isolated("device:a-h0", kind=TargetKind.HOST)
    changes = {**NO_LIMITS, "pod_cap_ratio": 0.001}
    now = context(isolations=isolations, params=changes, approved_by="ops")
    assert evaluate(proposal("a-t0-0-0/u0"), now).verdict is Verdict.APPROVED
    assert evaluate(proposal("a-h1", Action.CORDON_HOST), now).constraint == "pod cap"
    now = context(isolations=isolations, params={**NO_LIMITS, "pod_cap": 1}, approved_by="ops")
    assert evaluate(proposal("a-t0-0-0/u0"), now).constraint == "pod cap"


def test_guard_9_an_isolated_target_is_not_counted_again() -> None:
    """The repair of a drained link takes out nothing more."""
    target = proposal("a-t0-0-0/u0", Action.REPAIR_LINK)
    now = context(isolations=isolated(target.target.id), params={"pod_cap": 1, "actions_per_hour": 0})
    assert evaluate(target, now).verdict is Verdict.APPROVED


@pytest.mark.parametrize(("ages_s", "verdict"), [
    ([HOUR - 1, HOUR, HOUR + 1], Verdict.APPROVED),
    ([1, 2, HOUR - 1], Verdict.DENIED),
    ([1, 2, HOUR], Verdict.APPROVED),
])  # fmt: skip
def test_guard_10_the_hourly_rate(ages_s: list[float], verdict: Verdict) -> None:
    """Three in the last hour are the limit; restored targets and resets count."""
    isolations = Isolations()
    for number, age_s in enumerate(ages_s[:-1]):
        isolations.isolate(f"link:{number}", TargetKind.LINK, "b", at(1_000_000 - age_s))
        isolations.restored(f"link:{number}", at(1_000_000))
    isolations.reset("link:nic", at(1_000_000 - ages_s[-1]))
    now = context(isolations=isolations, params={**NO_LIMITS, "actions_per_hour": 3})
    decision = evaluate(proposal("a-t0-0-0/u0"), now)
    assert decision.verdict is verdict
    if verdict is Verdict.DENIED:
        assert result(decision) == (verdict, 10, "hourly rate", 3, 3)


@pytest.mark.parametrize(("ages_s", "verdict"), [
    ([5000, 6000], Verdict.APPROVED),
    ([5000, 6000, 7200], Verdict.APPROVED),
    ([5000, 6000, 7199], Verdict.DENIED),
])  # fmt: skip
def test_guard_11_the_budget_of_a_link(ages_s: list[float], verdict: Verdict) -> None:
    """Three isolations in two hours are the limit; the link was restored each time."""
    target, isolations = proposal("a-t0-0-0/u0"), Isolations()
    for age_s in sorted(ages_s, reverse=True):
        isolations.isolate(target.target.id, TargetKind.LINK, "a", at(1_000_000 - age_s))
        isolations.restored(target.target.id, at(1_000_001 - age_s))
    decision = evaluate(target, context(isolations=isolations))
    assert decision.verdict is verdict
    if verdict is Verdict.DENIED:
        assert result(decision) == (verdict, 11, "isolation budget", 3, 3)


@pytest.mark.parametrize(("days", "verdict"), [
    ([1], Verdict.APPROVED), ([1, 7], Verdict.APPROVED), ([1, 6.9], Verdict.DENIED),
])  # fmt: skip
def test_guard_11_the_resets_of_a_nic(days: list[float], verdict: Verdict) -> None:
    """Two resets in a week are the limit."""
    target, isolations = proposal("a-h0/e00", Action.RESET_NIC), Isolations()
    for day in days:
        isolations.reset(target.target.id, at(1_000_000 - day * 24 * HOUR))
    decision = evaluate(target, context(isolations=isolations, approved_by="ops"))
    assert decision.verdict is verdict
    if verdict is Verdict.DENIED:
        assert result(decision) == (verdict, 11, "reset budget", 2, 2)


@pytest.mark.parametrize(("elapsed_s", "guard"), [(599, 12), (600, 0), (601, 0)])
def test_guard_12_the_cool_down(elapsed_s: float, guard: int) -> None:
    """It counts from the last change, here the restore; only the drain of a relapse skips it."""
    target, isolations = proposal("a-t0-0-0/u0"), isolated(proposal("a-t0-0-0/u0").target.id, t=900_000)
    isolations.restored(target.target.id, at(1_000_000 - elapsed_s))
    decision = evaluate(target, context(isolations=isolations))
    assert decision.guard == guard
    if guard:
        assert result(decision) == (Verdict.DENIED, 12, "cool-down", 600, elapsed_s)
    assert evaluate(replace(target, relapse=True), context(isolations=isolations)).verdict is Verdict.APPROVED
    repair = replace(target, action=Action.REPAIR_LINK, relapse=True)
    assert evaluate(repair, context(isolations=isolations)).guard == guard


AGES: dict[str, tuple[dict[str, SchedulerAnswer], float | None, str]] = {
    "no scheduler": ({}, None, "no scheduler has answered"),
    "one that does not answer its collector": (
        {"slurm": SchedulerAnswer("slurm", 290 * 10**9, "slurmctld: no answer", at(1_000_000 - 20))}, 310,
        "the last complete answer of scheduler slurm is 310 s old: slurmctld: no answer",
    ),
    "one of two collectors is silent": (
        {**ANSWERED, "k8s": SchedulerAnswer("k8s", arrived_at_ns=at(1_000_000 - 7 * 24 * HOUR))}, 7 * 24 * HOUR,
        "the last complete answer of scheduler k8s is 604800 s old",
    ),
    "event time is behind the answers": (
        {"slurm": SchedulerAnswer("slurm", arrived_at_ns=at(1_000_400))}, -400,
        "the last complete answer of scheduler slurm is -400 s old",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AGES)
def test_guard_13_asks_for_approval_without_a_recent_complete_answer_of_each_scheduler(name: str) -> None:
    """A job that began an hour ago proves nothing of the jobs now."""
    schedulers, age_s, text = AGES[name]
    start = datetime.fromtimestamp(at(1_000_000 - HOUR) / 1e9, UTC)
    own = replace(context(three_tiers(jobs=(Job("llm", "a-h0", start),))), schedulers=schedulers)
    decision = evaluate(proposal("a-h1", Action.REBOOT_HOST), own)
    assert result(decision) == (Verdict.NEEDS_APPROVAL, 13, "age of jobs", 300, age_s)
    assert decision.group == text


def test_guard_13_a_job_on_the_host() -> None:
    """A person decides under a job, and where hosts of jobs are unknown; not for a host without a job."""
    start = datetime.fromtimestamp(at(1_000_000 - HOUR) / 1e9, UTC)
    top = three_tiers(jobs=(Job("llm", "a-h0", start), Job("moe", "a-h0", start)))
    params = {"pod_cap_ratio": 1}
    decision = evaluate(proposal("a-h0", Action.CORDON_HOST), context(top, params=params))
    assert result(decision) == (Verdict.NEEDS_APPROVAL, 13, "job", 0, 2)
    assert decision.group == "llm, moe"
    assert evaluate(proposal("a-h1", Action.CORDON_HOST), context(top, params=params)).verdict is Verdict.APPROVED
    idle = evaluate(proposal("a-h1", Action.REBOOT_HOST), context(three_tiers(), params=params))
    assert idle.verdict is Verdict.APPROVED, "the scheduler has no jobs"
    stray = three_tiers(jobs=(*top.jobs, Job("moe", "slinky-0", start), Job("old", "slinky-1", start, start)))
    decision = evaluate(proposal("a-h1", Action.CORDON_HOST), context(stray, params=params))
    assert result(decision) == (Verdict.NEEDS_APPROVAL, 13, "job", 0, 1)
    assert decision.group == "on hosts that the inventory lacks: moe"
    reset = proposal("a-h0/e00", Action.RESET_NIC, top)
    assert evaluate(reset, context(top)).guard == 13
    assert evaluate(reset, context(top, approved_by="ops")).verdict is Verdict.APPROVED


@pytest.mark.parametrize("action", guards.UNGUARDED)
def test_recovery_is_never_denied(action: Action) -> None:
    """A restore passes the kill switch, exclusions, caps and stale data; only shadow mode applies."""
    target = replace(proposal("a-t0-0-0/u0", confidence=None), action=action)
    states = FakeLinkStates(at(0), unobserved={"a-t0-0-0"})
    worst = context(controls=FakeControls(loaded=False, excluded={target.target.id}), link_states=states)
    assert evaluate(target, worst).verdict is Verdict.APPROVED
    assert evaluate(target, replace(worst, params=DecideParams())).verdict is Verdict.SHADOW


def test_a_denial_outranks_a_request_for_approval() -> None:
    """One-sided evidence and a missing group: no person can approve it, so the denial is published."""
    top = topology()
    target = proposal("p1-l0/u0", top=top, confidence=0.6)
    lost = {link_at("p1-l0/u1", top).id}
    assert evaluate(target, context(top, lost=lost)).guard == 8
    assert evaluate(target, context(top)).guard == 5


def test_an_approval_is_evaluated_again_without_its_own_counts() -> None:
    """The own isolation exceeds no cap, rate, budget or cool-down; other guards apply, and ask for approval again."""
    target = proposal("a-t0-0-0/u0")
    limits = {"pod_cap": 1, "actions_per_hour": 1, "isolation_budget": 1}
    now = context(isolations=isolated(target.target.id, t=1_000_000), params=limits)
    assert evaluate(target, now).constraint == "cool-down"
    assert evaluate(target, now, is_counted=True).verdict is Verdict.APPROVED
    weaker = proposal("a-t0-0-0/u0", confidence=0.6)
    assert evaluate(weaker, now, is_counted=True).verdict is Verdict.NEEDS_APPROVAL
    stopped = replace(now, controls=FakeControls(is_stopped=True))
    assert evaluate(target, stopped, is_counted=True).constraint == "kill-switch"
    reset, history = proposal("a-h0/e00", Action.RESET_NIC), Isolations()
    history.reset(reset.target.id, at(1_000_000))
    counted = context(isolations=history, params={"actions_per_hour": 1, "reset_budget": 1}, approved_by="ops")
    assert evaluate(reset, counted).verdict is Verdict.DENIED
    assert evaluate(reset, counted, is_counted=True).verdict is Verdict.APPROVED


def in_a_cage(*ports: str) -> Topology:
    """Return the fabric with these ports (`device/port`) in one cage."""
    split = (port.split("/") for port in ports)
    return three_tiers(aggs=8, tops=8, hosts=8, parts=tuple(Part(device, "cage", "33", name) for device, name in split))


UPLINKS, HOST_PORTS = ("a-t0-0-0/u0", "a-t0-0-0/u1"), ("a-t0-0-0/d0", "a-t0-0-0/d1")


def test_guard_8_a_repair_counts_the_links_of_its_cage() -> None:
    """Two uplinks of 8 are lost then; if another one is lost, the leaf falls below its floor."""
    top, other = in_a_cage(*UPLINKS), link_at("a-t0-0-0/u5").id
    for lost, verdict in (((), Verdict.APPROVED), ((other,), Verdict.DENIED)):
        own: dict[str, Any] = {"link_states": FakeLinkStates(at(1_000_000), set(lost)), "approved_by": "ops"}
        decision = evaluate(proposal(UPLINKS[0], top=top), context(top, **own))
        assert (decision.verdict, decision.surviving) == (verdict, (6 - len(lost)) / 8)
        assert evaluate(proposal(UPLINKS[0]), context(**own)).verdict is Verdict.APPROVED
    assert (decision.guard, decision.group) == (8, "switch a-t0-0-0")


@pytest.mark.parametrize("is_out", [False, True])
def test_guard_8_a_repair_may_not_take_the_last_plane_of_another_host(is_out: bool) -> None:
    """The other host has lost its other plane; for a drained target only the links beside it count."""
    top, lost = in_a_cage(*HOST_PORTS), {link_at("a-h1/e01").id}
    target = proposal("a-h0/e00", Action.REPAIR_LINK, top, is_out=is_out)
    decision = evaluate(target, context(top, lost=lost))
    assert result(decision) == (Verdict.NEEDS_APPROVAL, 8, "surviving-capacity", 1, 0)
    assert decision.group == "rail 0 of host a-h1"
    own = proposal("a-h0/e00", Action.REPAIR_LINK, is_out=is_out)
    assert evaluate(own, context(lost=lost)).verdict is Verdict.APPROVED
    reset = proposal("a-h0/e00", Action.RESET_NIC, top)
    assert evaluate(reset, context(top, lost=lost)).guard == 0  # it touches no module
