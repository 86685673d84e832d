"""decide: which action a finding asks for, which guard forbids it, and what becomes of a decision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from streams.decide.guards import cool_down, surviving_capacity
from streams.decide.params import DecideParams
from streams.decide.policy import POLICY, rule_for
from streams.decide.stage import Decide
from streams.fabric.ids import remediation_id
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Endpoint,
    Finding,
    Outcome,
    Remediation,
    RemediationResult,
    Severity,
    Status,
    Subject,
    Verdict,
)
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, REMEDIATIONS_OPEN
from tests.unit.detect.seen import after, at
from tests.unit.fabric.made import topology

TOP = topology()


def _subject(port: str) -> Subject:
    device, _, name = port.partition("/")
    if not name:
        return Subject(f"device:{device}", Endpoint(device))
    cable = TOP.cable_at(next(iter(p for p in (TOP.port(device, name),))))
    assert cable is not None
    return Subject(cable.id, Endpoint(*cable.lower), Endpoint(*cable.upper), cable.role)


def finding(port: str, condition: Condition = Condition.LINK_FLAP, t: float = 0, **more: Any) -> Finding:
    """An open finding that is known for as long as it exists; a flap is its second."""
    identity, subject = f"{condition.name}/{port}/{t}", _subject(port)
    own = Finding(
        identity, 1, False, condition, Status.OPEN, Severity.WARNING, subject, at(t), at(t),
        detected_at_ns=at(t), occurrences=2, detector=condition.slug, summary="it broke",
    )  # fmt: skip
    return replace(own, **more)


def _stage(mode: str = "act", **more: Any) -> Decide:
    stage = Decide(DecideParams.model_validate({"mode": mode, **more}))
    stage.begin(1)
    stage.adopt(TOP)
    return stage


def _said(outputs: Sequence[Output]) -> list[Remediation]:
    return [o.message for o in outputs if o.topic is REMEDIATIONS and isinstance(o.message, Remediation)]


def _tombstones(outputs: Sequence[Output]) -> list[str | None]:
    return [o.key for o in outputs if o.topic is REMEDIATIONS_OPEN and o.message is None]


def _decided(stage: Decide, *findings: Finding, t: float = 10) -> list[Remediation]:
    return _said([*stage.process(findings), *stage.advance(at(t))])


def _result(own: Remediation, outcome: Outcome = Outcome.DONE, t: float | None = None) -> RemediationResult:
    return RemediationResult(own.id, outcome, at(t) if t is not None else None, "netbot")


def _over(own: Finding, *, revision: int = 2, final: bool = False) -> Finding:
    return replace(own, revision=revision, status=Status.RESOLVED, resolved_at_ns=at(500), final=final)


POLICY_CASES = [
    (Condition.LINK_FLAP, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.LINK_FLAP, 2, Severity.WARNING, Action.DRAIN_LINK),
    (Condition.LINK_FLAP, 9, Severity.WARNING, Action.DRAIN_LINK),
    (Condition.LINK_DOWN, 1, Severity.WARNING, Action.REPAIR_LINK),
    (Condition.LINK_DEGRADING, 1, Severity.INFO, Action.OBSERVE),
    (Condition.LINK_DEGRADING, 1, Severity.WARNING, Action.DRAIN_LINK),
    (Condition.LINK_DEGRADING, 3, Severity.CRITICAL, Action.DRAIN_LINK),
    (Condition.DEVICE_DOWN, 3, Severity.WARNING, Action.OBSERVE),
    (Condition.TELEMETRY_STALE, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.RAIL_DEGRADED, 5, Severity.WARNING, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, 1, Severity.CRITICAL, Action.CORDON_HOST),
    (Condition.HOST_PCIE_DEGRADED, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_INCAST, 2, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_IMBALANCE, 3, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_COLLAPSE, 2, Severity.CRITICAL, Action.OBSERVE),
    (Condition.LINK_MISCABLED, 5, Severity.WARNING, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, 1, Severity.INFO, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.CONDITION_UNSPECIFIED, 5, Severity.WARNING, None),
]


@pytest.mark.parametrize(("condition", "occurrences", "severity", "action"), POLICY_CASES)
def test_the_policy_goes_from_condition_count_and_severity_to_action(
    condition: Condition, occurrences: int, severity: Severity, action: Action | None
) -> None:
    """First observe; what comes back or loses frames is drained; what is down is repaired; a forecast moves nobody."""
    rule = rule_for(finding("p1-l0/u0", condition, occurrences=occurrences, severity=severity))
    assert (rule and rule.action) == action


CAUSE_CASES = [("nic", Action.DRAIN_LINK), ("pcie", Action.DRAIN_LINK), ("switch", Action.OBSERVE)]


@pytest.mark.parametrize(("cause", "action"), CAUSE_CASES)
def test_the_root_of_a_storm_is_drained_where_it_is_a_host(cause: str, action: Action) -> None:
    """A switch that pauses has all its hosts behind it: that is for people."""
    rule = rule_for(finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause))
    assert rule is not None
    assert rule.action == action


def test_every_rule_has_a_case() -> None:
    """A rule that no case reaches could never fire."""
    reached = {rule_for(finding("p1-l0/u0", c, occurrences=n, severity=s)) for c, n, s, _ in POLICY_CASES}
    reached |= {
        rule_for(finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause))
        for cause, _ in CAUSE_CASES
    }
    assert set(POLICY) == reached - {None}


NOTHING = {
    "too young": (finding("p1-l0/u0"), 9.9),
    "explained by another": (finding("p1-l0/u0", parent_id="p"), 60),
    "over by then": (finding("p1-l0/u0", status=Status.RESOLVED, resolved_at_ns=at(5)), 60),
    "only recorded": (finding("p1-l0/u0", shadow=True), 60),
    "only information": (finding("p1-l0/u0", severity=Severity.INFO), 60),
    "known later than it began": (finding("p1-l0/u0", detected_at_ns=at(200)), 209),
}


@pytest.mark.parametrize(("own", "t"), NOTHING.values(), ids=NOTHING)
def test_when_nothing_is_decided(own: Finding, t: float) -> None:
    """What is unsettled, explained, over, shadowed or harmless is left alone."""
    assert _decided(_stage(), own, t=t) == []


@pytest.mark.parametrize(("mode", "verdict"), [("act", Verdict.APPROVED), ("shadow", Verdict.SHADOW)])
def test_a_decision_is_published_with_its_reason_and_its_end(mode: str, verdict: Verdict) -> None:
    """Once settled: the action, the surviving capacity, when it expires; in shadow nobody is told to act."""
    own = finding("p1-l0/u0")
    stage = _stage(mode)
    outputs = [*stage.process([own]), *stage.advance(at(10))]
    (said,) = _said(outputs)
    assert (said.id, said.action, said.verdict) == (remediation_id(own.id, "DRAIN_LINK", 1), Action.DRAIN_LINK, verdict)
    assert (after(said.decided_at_ns), after(said.expires_at_ns)) == (10, 610)
    assert (said.surviving_capacity_ratio, said.constraint) == (0.75, "")
    assert said.reason == "it broke (2nd link/flap in 28 days)"
    assert said.finding_ids == (own.id,)
    assert [o.key for o in outputs if o.topic is REMEDIATIONS_OPEN] == [said.id]
    assert stage.process([own]) == stage.process([replace(own, revision=2)]) == stage.advance(at(100)) == []


def test_shadow_is_the_default() -> None:
    """Nobody who did not ask for it is acted upon."""
    assert DecideParams().mode == "shadow"


def test_capacity_of_a_switch_denies_with_its_numbers() -> None:
    """Of four paths one is down: without another, half would be left, and the floor is three quarters."""
    stage = _stage()
    stage.process([finding("p1-l0/u1", Condition.LINK_DOWN)])
    stage.advance(at(10))
    (said,) = _decided(stage, finding("p1-l0/u0", t=20), t=30)
    assert (said.verdict, said.constraint) == (Verdict.DENIED, "surviving-capacity")
    assert (said.constraint_limit, said.constraint_observed, said.surviving_capacity_ratio) == (0.75, 0.5, 0.5)


def test_capacity_counts_what_is_down_drained_and_decided() -> None:
    """Each of the three takes a path away; a shadow decision does not, nor what is over."""
    cable, other = TOP.uplinks_of["p1-l0"][:2]

    def verdict(stage: Decide) -> Verdict:
        own = finding(f"p1-l0/{cable.lower.port}", t=100)
        (said,) = [r for r in _decided(stage, own, t=110) if r.target == own.subject]
        return said.verdict

    port = f"p1-l0/{other.lower.port}"
    down = _stage()
    down.process([finding(port, Condition.LINK_DOWN)])
    assert verdict(down) is Verdict.DENIED
    decided = _stage()
    assert [r.verdict for r in _decided(decided, finding(port))] == [Verdict.APPROVED]
    assert verdict(decided) is Verdict.DENIED
    drained = _stage()
    (said,) = _decided(drained, finding(port))
    drained.process([_result(said)])
    drained.advance(at(90))
    assert verdict(drained) is Verdict.DENIED
    gone = _stage()
    gone.process([finding("s2", Condition.DEVICE_DOWN)])
    assert verdict(gone) is Verdict.DENIED
    over = _stage()
    over.process([finding(port, Condition.LINK_DOWN, status=Status.RESOLVED, resolved_at_ns=at(5))])
    assert verdict(over) is Verdict.APPROVED
    shadow = _stage("shadow")
    _decided(shadow, finding(port))
    assert verdict(shadow) is Verdict.SHADOW


def _planes() -> Topology:
    """Two leaves of one pod and plane, two uplinks each."""
    from streams.fabric.inventory import Device, Inventory
    from tests.unit.fabric.made import link

    devices = [Device(name=n, kind="switch", tier="T0", pod="p") for n in ("a", "b")]
    devices += [Device(name=n, kind="switch", tier="T1") for n in ("s", "t")]
    links = [link(f"{leaf}/{n}", f"{spine}/{leaf}{n}", plane=0) for leaf in "ab" for n, spine in enumerate("stst")]
    return Topology(Inventory(devices=tuple(devices), links=tuple(links)))


def test_capacity_of_a_plane_denies_what_a_switch_would_allow() -> None:
    """Leaf a keeps three of four, but its pod's plane would keep only five of eight."""
    top = _planes()
    a, b = top.uplinks_of["a"], top.uplinks_of["b"]
    assert surviving_capacity(top, a[0], {b[0].id}, 0.75).verdict is None
    ruling = surviving_capacity(top, a[0], {b[0].id, b[1].id}, 0.75)
    assert (ruling.verdict, ruling.limit, ruling.observed) == (Verdict.DENIED, 0.75, 0.625)


def test_a_host_link_without_another_plane_needs_a_person() -> None:
    """With the other plane up it may be drained; without it a person decides."""
    (fine,) = _decided(_stage(), finding("p1-h1/e0"))
    assert (fine.verdict, fine.surviving_capacity_ratio) == (Verdict.APPROVED, 0.5)
    stage = _stage()
    stage.process([finding("p1-h1/e1", Condition.LINK_DOWN)])
    (said,) = [r for r in _decided(stage, finding("p1-h1/e0")) if r.action is Action.DRAIN_LINK]
    assert (said.verdict, said.constraint, said.constraint_observed) == (
        Verdict.NEEDS_APPROVAL, "surviving-capacity", 0.0,
    )  # fmt: skip


def test_repairing_a_link_that_is_down_loses_nothing() -> None:
    """It carries nothing already: the floor does not forbid to mend it, even when all are down."""
    stage = _stage()
    said = _decided(stage, *(finding(f"p1-l0/u{n}", Condition.LINK_DOWN) for n in range(4)))
    assert [r.verdict for r in said] == [Verdict.APPROVED] * 4
    assert {r.action for r in said} == {Action.REPAIR_LINK}


def test_a_target_cools_down_between_two_actions() -> None:
    """A second action sooner than the cool-down is denied with both numbers; later it is approved."""
    stage = _stage(cool_down_s=1000)
    (first,) = _decided(stage, finding("p1-l0/u0"))
    (restore,) = _said(stage.process([_result(first, t=50), _over(finding("p1-l0/u0"), final=True)]))
    stage.process([_result(restore, t=60)])
    (said,) = [r for r in _decided(stage, finding("p1-l0/u0", t=500), t=520) if r.action is Action.DRAIN_LINK]
    assert (said.verdict, said.constraint, said.constraint_limit) == (Verdict.DENIED, "cool-down", 1000)
    assert said.constraint_observed == 460
    (later,) = _decided(stage, finding("p1-l0/u0", t=2000), t=2010)
    assert later.verdict is Verdict.APPROVED


def test_cool_down_says_how_long_it_was_left_alone() -> None:
    """Exactly the cool-down is enough; never acted on is fine."""
    assert cool_down(None, at(5), 60).verdict is None
    assert cool_down(at(0), at(60), 60).verdict is None
    ruling = cool_down(at(0), at(59), 60)
    assert (ruling.verdict, ruling.limit, ruling.observed) == (Verdict.DENIED, 60, 59)


@pytest.mark.parametrize("why", ["parent", "retracted", "over"])
def test_what_must_not_be_done_any_more_is_revoked_under_its_id(why: str) -> None:
    """A parent becomes known, it was not so, or it is over: REVOKED, and no longer open."""
    own = finding("p1-l0/u0")
    stage = _stage()
    (said,) = _decided(stage, own)
    changed = {
        "parent": replace(own, revision=2, parent_id="reboot"),
        "retracted": replace(own, revision=2, status=Status.RETRACTED),
        "over": _over(own),
    }[why]
    outputs = stage.process([changed])
    (revoked,) = _said(outputs)
    assert (revoked.id, revoked.verdict, revoked.revision > said.revision) == (said.id, Verdict.REVOKED, True)
    assert _tombstones(outputs) == [said.id]
    assert stage.advance(at(10_000)) == []


def test_a_revoked_action_leaves_no_cool_down() -> None:
    """Nobody touched the link: the next finding on it may be acted on at once."""
    own = finding("p1-l0/u0")
    stage = _stage()
    _decided(stage, own)
    stage.process([_over(own, final=True)])
    (said,) = _decided(stage, finding("p1-l0/u0", t=100), t=110)
    assert said.verdict is Verdict.APPROVED


def test_a_decision_that_nobody_carried_out_expires() -> None:
    """After its time only its key is taken out; the id is not decided anew."""
    stage = _stage()
    (said,) = _decided(stage, finding("p1-l0/u0"))
    assert stage.advance(at(609.9)) == []
    outputs = stage.advance(at(610))
    assert (_tombstones(outputs), _said(outputs)) == ([said.id], [])
    assert stage.advance(at(5000)) == []


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED])
def test_an_answer_closes_the_decision_once(outcome: Outcome) -> None:
    """The first answer takes it out of what is open; the same one again changes nothing; ACCEPTED is none yet."""
    stage = _stage()
    (said,) = _decided(stage, finding("p1-l0/u0"))
    assert stage.process([_result(said, Outcome.ACCEPTED)]) == []
    assert _tombstones(stage.process([_result(said, outcome)])) == [said.id]
    before = stage.snapshot()
    assert stage.process([_result(said, outcome), RemediationResult("unknown", Outcome.DONE)]) == []
    assert stage.snapshot() == before


def test_a_drained_link_is_restored_when_the_condition_is_over() -> None:
    """DONE, then over: RESTORE_LINK, approved whatever the guards would say, once."""
    own = finding("p1-l0/u0")
    stage = _stage()
    (drain,) = _decided(stage, own)
    stage.process([_result(drain), Control("stop", ControlKind.KILL_SWITCH)])
    stage.process([finding(f"p1-l0/u{n}", Condition.LINK_DOWN) for n in (1, 2, 3)])
    (restore,) = [r for r in _said(stage.process([_over(own)])) if r.action is Action.RESTORE_LINK]
    assert (restore.verdict, restore.target) == (Verdict.APPROVED, own.subject)
    assert drain.id in restore.reason
    assert _said(stage.process([_over(own, revision=3, final=True)])) == []


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("expired", [False, True])
def test_what_was_drained_too_late_is_restored_as_well(final: bool, expired: bool) -> None:
    """The tool drained the link before it read the revocation, or answered after the end: it must not stay drained."""
    own = finding("p1-l0/u0")
    stage = _stage()
    (drain,) = _decided(stage, own)
    if expired:
        stage.advance(at(700))
    stage.process([_over(own, final=final)])
    (restore,) = _said(stage.process([_result(drain)]))
    assert (restore.action, restore.verdict, restore.target.id) == (
        Action.RESTORE_LINK, Verdict.APPROVED, own.subject.id,
    )  # fmt: skip
    assert _said(stage.process([_result(drain)])) == []


def test_a_restore_that_nobody_carried_out_is_said_again() -> None:
    """What was drained must come back: the same id, a higher revision, until somebody answers."""
    own = finding("p1-l0/u0")
    stage = _stage()
    (drain,) = _decided(stage, own)
    stage.process([_result(drain)])
    (restore,) = _said(stage.process([_over(own, final=True)]))
    (again,) = _said(stage.advance(at(620)))
    assert (again.id, again.revision > restore.revision, after(again.expires_at_ns)) == (restore.id, True, 1220)
    assert _tombstones(stage.process([_result(restore)])) == [restore.id]
    assert stage.advance(at(10_000)) == []


def test_an_answer_after_the_expiry_still_counts_as_drained() -> None:
    """It is out of service, whenever that was told: the capacity guard knows, and it comes back in the end."""
    own = finding("p1-l0/u0")
    stage = _stage()
    (drain,) = _decided(stage, own)
    stage.advance(at(700))
    assert _said(stage.process([_result(drain)])) == []
    (other,) = _decided(stage, finding("p1-l0/u1", t=800), t=810)
    assert other.verdict is Verdict.DENIED
    assert [r.action for r in _said(stage.process([_over(own)]))] == [Action.RESTORE_LINK]


def test_the_kill_switch_denies_every_action_until_it_ends() -> None:
    """It has a name of its own as constraint; observing goes on; with an end it ends."""
    stage = _stage()
    stage.process([Control("stop", ControlKind.KILL_SWITCH, until_ns=at(100))])
    (said,) = _decided(stage, finding("p1-l0/u0"))
    assert (said.verdict, said.constraint) == (Verdict.DENIED, "kill-switch")
    (watch,) = _decided(stage, finding("p1-l1/u0", occurrences=1), t=20)
    assert (watch.action, watch.verdict) == (Action.OBSERVE, Verdict.APPROVED)
    (later,) = _decided(stage, finding("p2-l0/u0", t=100), t=110)
    assert later.verdict is Verdict.APPROVED


def test_a_kill_switch_for_good_is_ended_by_a_later_control() -> None:
    """The same id with an end in the past lifts it."""
    stage = _stage()
    stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    assert [r.verdict for r in _decided(stage, finding("p1-l0/u0"), t=1000)] == [Verdict.DENIED]
    stage.process([Control("stop", ControlKind.KILL_SWITCH, until_ns=at(0))])
    assert [r.verdict for r in _decided(stage, finding("p1-l1/u0"), t=1001)] == [Verdict.APPROVED]


def test_a_snapshot_keeps_everything_that_was_decided() -> None:
    """Whoever takes over decides nothing twice, and goes on where the other ended."""
    stage = _stage()
    (drain,) = _decided(stage, finding("p1-l0/u0"))
    stage.process([finding("p1-l1/u0", t=20), Control("stop", ControlKind.KILL_SWITCH, until_ns=at(5000))])
    other = _stage()
    other.restore(stage.snapshot())
    assert other.snapshot() == stage.snapshot()
    assert other.watermark_ns == at(10)
    other.begin(2)
    assert _tombstones(other.process([_result(drain)])) == [drain.id]
    assert [r.action for r in _said(other.process([_over(finding("p1-l0/u0"))]))] == [Action.RESTORE_LINK]
    assert [r.constraint for r in _said(other.advance(at(40)))] == ["kill-switch"]


@pytest.mark.parametrize("data", [b"", b"{", b'{"cases": 1}'])
def test_a_snapshot_that_cannot_be_read_is_refused(data: bytes) -> None:
    """Whatever stands in the snapshot topic, the answer is Reject."""
    with pytest.raises(Reject, match="not a snapshot of decide"):
        _stage().restore(data)


def test_state_does_not_grow_with_what_is_over() -> None:
    """After a thousand findings, decisions and answers, what is kept is what still matters: cool-downs."""
    stage = _stage(cool_down_s=100)
    sizes = []
    for n in range(1000):
        t = n * 1000
        own = finding("p1-l0/u0", t=t)
        for said in _decided(stage, own, t=t + 10):
            stage.process([_result(said, t=t + 11)])
        for restore in _said(stage.process([_over(own, final=True)])):
            stage.process([_result(restore, t=t + 20)])
        stage.advance(at(t + 900))
        sizes.append(len(stage.snapshot()))
    assert max(sizes[500:]) <= max(sizes[:500]) + 50
