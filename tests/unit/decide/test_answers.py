"""Tests the first half of the life cycle: revocation, expiry, acceptance, and the results of automation."""

from dataclasses import replace
from typing import Any

import pytest

from streams.decide.stage import Decide
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlKind,
    Outcome,
    Remediation,
    RemediationResult,
    Severity,
    Status,
    Verdict,
)
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import (
    NO_CAPS,
    TOP,
    accept,
    answer,
    carry_out,
    deciding,
    decisions,
    ended,
    finding,
    open_states,
    out_of_service,
    port_states,
    remediations,
    removed_keys,
    sound,
)
from tests.worlds.observations import at


def states_of(found: list[Remediation]) -> list[State]:
    return [remediation.state for remediation in found]


def drained(stage: Decide, port: str = "p1-l0/u0") -> Remediation:
    """Return the decision on a link, after automation drained it."""
    (decision,) = decisions(stage, finding(port))
    assert states_of(carry_out(stage, decision)) == [State.ACCEPTED, State.DRAINED]
    return decision


@pytest.mark.parametrize("why", ["parent", "retracted", "over"])
def test_an_obsolete_decision_is_revoked_under_its_id(why: str) -> None:
    """The decision of a finding that gets a parent, is retracted or ends is REVOKED and no longer open."""
    example = finding("p1-l0/u0")
    stage = deciding()
    (decision,) = decisions(stage, example)
    changed = {
        "parent": replace(example, revision=2, parent_id="reboot"),
        "retracted": replace(example, revision=2, status=Status.RETRACTED),
        "over": ended(example),
    }[why]
    outputs = stage.process([changed])
    (revoked,) = remediations(outputs)
    assert (revoked.id, revoked.verdict, revoked.revision > decision.revision) == (decision.id, Verdict.REVOKED, True)
    assert (revoked.state, removed_keys(outputs)) == (State.CLOSED, [decision.id])
    assert stage.advance_watermark(at(10_000)) == []


def test_an_approval_that_is_not_accepted_expires() -> None:
    """After 5 minutes it must not be carried out, and is not decided again while nothing changes."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert stage.advance_watermark(at(309.9)) == []
    (expired,) = remediations(stage.advance_watermark(at(310)))
    assert (expired.id, expired.state, expired.verdict) == (decision.id, State.EXPIRED, Verdict.REVOKED)
    assert stage.advance_watermark(at(5000)) == []
    (closed,) = remediations(stage.advance_watermark(at(310 + 86_400)))
    assert closed.state is State.CLOSED


def test_an_approval_that_every_automation_rejects_expires_with_the_reason() -> None:
    """A rejection without an acceptance decides nothing, as another automation may accept; a successor has it too."""
    stage, successor = deciding(), deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    refusal = RemediationResult(decision.id, Outcome.REJECTED, actor="netbot", detail="no target p1-l0 is configured")
    assert stage.process([refusal]) == []
    successor.restore(stage.snapshot())
    successor.recover([])
    for owner in (stage, successor):
        (expired,) = remediations(owner.advance_watermark(at(310)))
        assert expired.state is State.EXPIRED
        assert expired.reason.endswith("; netbot rejected it: no target p1-l0 is configured")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(Outcome.DONE, State.DRAINED), (Outcome.FAILED, State.FAILED), (Outcome.REJECTED, State.FAILED)],
)
def test_a_result_counts_once_and_only_from_the_actor_that_accepted(outcome: Outcome, state: State) -> None:
    """Another actor's result, one before the acceptance, one for an unknown id and a repetition change nothing."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    forged = RemediationResult(decision.id, outcome, actor="mallory")
    assert stage.process([answer(decision, outcome), forged, replace(forged, actor="")]) == []
    (accepted,) = accept(stage, decision)
    assert (accepted.state, accepted.actor, accepted.verdict) == (State.ACCEPTED, "netbot", Verdict.APPROVED)
    assert stage.process([forged, replace(forged, outcome=Outcome.ACCEPTED), replace(forged, actor="")]) == []
    assert states_of(remediations(stage.process([answer(decision, outcome)]))) == [state]
    before = stage.snapshot()
    assert stage.process([answer(decision, outcome), RemediationResult("unknown", Outcome.DONE, actor="x")]) == []
    assert stage.snapshot() == before


def test_shadow_ignores_results() -> None:
    """A result of a shadow decision, from anybody, leads to nothing."""
    stage = deciding("shadow")
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert decision.state is State.SHADOW
    assert carry_out(stage, decision) == []
    assert stage.process([ended(finding("p1-l0/u0"), final=True)]) != []
    assert stage.advance_watermark(at(10_000)) == []


def test_an_accepted_action_without_a_result_counts_as_drained() -> None:
    """NO_ANSWER after 10 minutes: capacity counts it; the late result drains it; after an hour a person must act."""
    stage = deciding(**NO_CAPS, cool_down_s=0)
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    accept(stage, decision)
    assert states_of(remediations(stage.advance_watermark(at(610)))) == [State.NO_ANSWER]
    assert out_of_service(stage) == [decision.target.id]
    other = deciding()
    other.restore(stage.snapshot())
    other.set_topology(TOP)
    other.recover([])
    assert states_of(remediations(other.advance_watermark(at(4210)))) == [State.ESCALATED]
    late = remediations(other.process([answer(decision)]))
    assert states_of(late) == [State.DRAINED]
    assert out_of_service(other) == [decision.target.id]


@pytest.mark.parametrize("after", ["withdrawn", "expired", "kill switch"])
def test_an_acceptance_of_what_is_revoked_is_not_confirmed_and_counts_as_drained(after: str) -> None:
    """The tool may have begun: NO_ANSWER, verdict REVOKED, until it reports that it failed or is done."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    if after == "withdrawn":
        stage.process([ended(finding("p1-l0/u0"), final=True)])
    elif after == "expired":
        stage.advance_watermark(at(400))
    else:
        stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    assert out_of_service(stage) == []
    (late,) = accept(stage, decision)
    assert (late.id, late.state, late.verdict) == (decision.id, State.NO_ANSWER, Verdict.REVOKED)
    assert out_of_service(stage) == [decision.target.id]
    assert states_of(remediations(stage.process([answer(decision, Outcome.FAILED)]))) == [State.FAILED]
    assert out_of_service(stage) == []


def test_a_denied_decision_is_evaluated_again_when_capacity_returns() -> None:
    """Another uplink of the switch was down; when it is observed up again, the drain is approved."""
    stage = deciding()
    stage.process([port_states("p1-l0", t=1, u1=2)])
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert (denied.state, denied.guard, denied.constraint) == (State.DENIED, 8, "surviving-capacity")
    assert stage.advance_watermark(at(60)) == []
    stage.process([port_states("p1-l0", t=61)])
    _, approved = remediations(stage.advance_watermark(at(71)))
    assert (approved.state, approved.attempt) == (State.APPROVED, 2)


def test_the_kill_switch_revokes_open_approvals_and_a_tombstone_lifts_it() -> None:
    """The approval is REVOKED by guard 1; without the control the link is decided again after the cool-down."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    (revoked,) = remediations(stage.process([Control("stop", ControlKind.KILL_SWITCH)]))
    assert (revoked.id, revoked.state, revoked.verdict, revoked.guard) == (
        decision.id, State.DENIED, Verdict.REVOKED, 1,
    )  # fmt: skip
    assert stage.advance_watermark(at(1000)) == []
    stage.process([Control("stop", ControlKind.KIND_UNSPECIFIED)])
    _, approved = remediations(stage.advance_watermark(at(1001)))
    assert (approved.state, approved.attempt) == (State.APPROVED, 2)


@pytest.mark.parametrize(
    ("kind", "guard", "constraint"),
    [(ControlKind.MAINTENANCE, 3, "maintenance"), (ControlKind.EXCLUDE, 4, "exclusion")],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_maintenance_or_an_exclusion_holds_until_its_end(
    kind: ControlKind, guard: int, constraint: str, before: bool
) -> None:
    """Of a device, for what is decided later and for an approval that is open; afterwards it is decided again."""
    stage = deciding()
    control = Control("c", kind, "p1-l0", until_ns=at(1800), actor="anna", reason="new optics")
    if before:
        assert remediations(stage.process([control])) == []
        (denied,) = decisions(stage, finding("p1-l0/u0"))
        assert (denied.state, denied.verdict) == (State.DENIED, Verdict.DENIED)
    else:
        (approved,) = decisions(stage, finding("p1-l0/u0"))
        (denied,) = remediations(stage.process([control]))
        assert (denied.id, denied.state, denied.verdict) == (approved.id, State.DENIED, Verdict.REVOKED)
    assert (denied.guard, denied.constraint) == (guard, constraint)
    assert decisions(stage, finding("p2-l0/u0"), t=20)[0].state is State.APPROVED, "another device is not affected"
    assert [one for one in remediations(stage.advance_watermark(at(1799))) if one.target.id == denied.target.id] == []
    again = remediations(stage.advance_watermark(at(1870)))
    assert [(one.state, one.attempt) for one in again if one.target.id == denied.target.id][-1] == (State.APPROVED, 2)


@pytest.mark.parametrize("way", ["approve", "reject", "nothing"])
def test_a_decision_that_needs_approval_waits_for_it(way: str) -> None:
    """Approved: the guards are evaluated again. Rejected: DENIED. No answer within an hour: EXPIRED."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    assert (decision.state, decision.verdict, decision.guard) == (State.WAITING, Verdict.NEEDS_APPROVAL, 5)
    assert accept(stage, decision) == []
    if way == "nothing":
        assert stage.advance_watermark(at(3609)) == []
        assert states_of(remediations(stage.advance_watermark(at(3610)))) == [State.EXPIRED]
        return
    kind = ControlKind.APPROVE if way == "approve" else ControlKind.REJECT
    (answered,) = remediations(stage.process([Control("c", kind, decision.id, actor="anna", endless=True)]))
    assert (answered.id, answered.actor) == (decision.id, "anna")
    if way == "approve":
        assert (answered.state, answered.verdict, answered.approved_by) == (State.APPROVED, Verdict.APPROVED, "anna")
        assert stage.process([Control("c", kind, decision.id, actor="anna", endless=True)]) == []
    else:
        assert (answered.state, answered.verdict) == (State.DENIED, Verdict.DENIED)
        assert stage.advance_watermark(at(3600)) == [], "a person's rejection is not decided again"


def test_one_target_has_one_isolation() -> None:
    """A second finding on a link that is drained joins its remediation."""
    stage = deciding()
    decision = drained(stage)
    second = finding("p1-l0/u0", Condition.LINK_DEGRADING, t=20)
    joined = [r for r in decisions(stage, second, t=30) if r.id == decision.id]
    assert [r.finding_ids for r in joined] == [(*decision.finding_ids, second.id)]
    assert stage.process([ended(second, final=True), ended(finding("p1-l0/u0"), final=True)]) == []


def test_a_denied_remediation_ends_when_its_finding_joins_another_one() -> None:
    """Otherwise it would be approved after the other one, for a finding that is over meanwhile."""
    stage = deciding()
    stage.process([Control("m", ControlKind.MAINTENANCE, "p1-l0", endless=True, actor="anna")])
    first = finding("p1-l0/u0", severity=Severity.CRITICAL)
    second = finding("p1-l0/u0", Condition.LINK_DOWN, t=1)
    denied = {r.finding_ids: r for r in decisions(stage, first, second, t=12)}
    assert [r.state for r in denied.values()] == [State.DENIED] * 2
    stage.process([Control("m", ControlKind.KIND_UNSPECIFIED)])
    decided = remediations(stage.advance_watermark(at(13)))
    assert [r.finding_ids for r in decided if r.state is State.APPROVED] == [(first.id,)]
    joins = decisions(stage, replace(second, revision=2, severity=Severity.CRITICAL), t=14)
    assert [(r.finding_ids, r.state) for r in joins] == [
        ((first.id, second.id), State.APPROVED), ((second.id,), State.CLOSED),
    ]  # fmt: skip
    assert stage.process([ended(second, revision=3, final=True)]) == []


def test_an_attempt_that_a_person_approves_ends_with_all_of_its_findings() -> None:
    """It takes over each finding of the expired one; the last that ends withdraws it."""
    stage = deciding()
    first, second = finding("p1-l0/u0"), finding("p1-l0/u0", Condition.LINK_DOWN, t=20)
    (expired,) = (r for r in decisions(stage, first) if r.state is State.APPROVED)
    decisions(stage, second, t=31)
    assert states_of(remediations(stage.advance_watermark(at(311)))) == [State.EXPIRED]
    stage.process([Control("m", ControlKind.MAINTENANCE, "p1-l0", endless=True, actor="anna")])
    approval = Control("a", ControlKind.APPROVE, expired.id, actor="anna", endless=True)
    closed, denied = remediations(stage.process([approval]))
    assert (closed.id, denied.finding_ids, denied.state) == (expired.id, (first.id, second.id), State.DENIED)
    stage.process([ended(first, final=True), ended(second, final=True)])
    stage.process([Control("m", ControlKind.KIND_UNSPECIFIED)])
    assert remediations(stage.advance_watermark(at(2000))) == []


def test_observing_ends_with_its_finding_or_by_itself() -> None:
    """It is approved, accepted by nothing, and closed after its expiry."""
    stage = deciding()
    (watch,) = decisions(stage, finding("p1-l0/u0", occurrences=1))
    assert (watch.action, watch.state) == (Action.OBSERVE, State.APPROVED)
    assert accept(stage, watch) == []
    assert states_of(remediations(stage.advance_watermark(at(310)))) == [State.CLOSED]


def test_state_does_not_grow_with_closed_findings() -> None:
    """After hundreds of findings, decisions and results only a day of them is retained, and a week of isolations."""
    stage = deciding(cool_down_s=0, isolation_budget=1000)
    sizes = []
    for n in range(200):
        t = n * 10_000
        example = finding("p1-l0/u0", t=t)
        decisions(stage, example, t=t + 10)
        stage.process([ended(example, final=True)])
        stage.advance_watermark(at(t + 900))
        sizes.append(len(stage.snapshot()))
    assert max(sizes[100:]) <= max(sizes[:100]) + 100


def test_an_acceptance_is_evaluated_with_the_states_before_it_in_the_same_batch() -> None:
    """Two other uplinks of the second leaf go down between two acceptances of one batch."""
    stage = deciding(**NO_CAPS, cool_down_s=0)
    first, second = decisions(stage, finding("p1-l0/u0"), finding("p1-l1/u0"))
    found = remediations(
        stage.process(
            [
                RemediationResult(first.id, Outcome.ACCEPTED, actor="netbot"),
                port_states("p1-l1", t=12, u1=2, u2=2),
                RemediationResult(second.id, Outcome.ACCEPTED, actor="netbot"),
            ]
        )
    )
    assert states_of(found) == [State.ACCEPTED, State.NO_ANSWER]


@pytest.mark.parametrize("what", ["time", "acceptance"])
def test_an_approval_without_its_finding_is_revoked(what: str) -> None:
    """The state was lost and the open findings are not read yet: the evidence is unknown, which is no permission."""
    (decision,) = decisions(deciding(), finding("p1-l0/u0"))
    successor = deciding(loaded=False)
    successor.start_epoch(2)
    successor.recover([decision])
    found = remediations(successor.advance_watermark(at(11))) if what == "time" else accept(successor, decision)
    assert (found[0].state, found[0].verdict) == (
        State.DENIED if what == "time" else State.NO_ANSWER, Verdict.REVOKED,
    )  # fmt: skip


def test_an_approval_of_a_person_is_for_one_attempt() -> None:
    """The kill switch revokes an approved cordon; the next attempt asks again, and names no person."""
    stage = deciding()
    fault = finding("p1-h1", Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL)
    (waiting,) = decisions(stage, fault)
    assert waiting.state is State.WAITING
    approval = Control("c1", ControlKind.APPROVE, waiting.id, at(11), actor="anna", endless=True)
    (approved,) = remediations(stage.process([approval]))
    assert (approved.state, approved.approved_by) == (State.APPROVED, "anna")
    stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    stage.process([Control("stop", ControlKind.KIND_UNSPECIFIED)])
    found = remediations(stage.advance_watermark(at(1000)))
    assert (found[-1].state, found[-1].attempt, found[-1].approved_by) == (State.WAITING, 2, "")


def test_the_failure_of_a_revoked_attempt_leaves_the_next_attempt_in_place() -> None:
    """A tool accepted the first one late, so both hold the target: it counts until the second gives it up."""
    stage = deciding(**{**NO_CAPS, "cool_down_s": 0})
    (first,) = decisions(stage, finding("p1-l0/u0"))
    stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    stage.process([Control("stop", ControlKind.KIND_UNSPECIFIED)])
    second = remediations(stage.advance_watermark(at(50)))[-1]
    assert (second.state, second.attempt) == (State.APPROVED, first.attempt + 1)
    carry_out(stage, second)
    accept(stage, first)
    failed = remediations(stage.process([answer(first, Outcome.FAILED)]))
    assert [one.id for one in failed] == [first.id]
    assert out_of_service(stage) == [first.target.id]


def test_a_second_isolation_of_a_target_cannot_be_approved() -> None:
    """A cordon and a reboot of one host wait; with the cordon approved, the reboot is denied with that reason."""
    stage = deciding(**NO_CAPS)
    fault = finding("p1-h1", Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL)
    (cordon,) = decisions(stage, replace(fault, cause=Cause.GPU_MEMORY))
    off_bus = finding("p1-h1", Condition.HOST_GPU_FAULT, 11, severity=Severity.CRITICAL, cause=Cause.GPU_OFF_BUS)
    (reboot,) = [r for r in decisions(stage, off_bus, t=2000) if r.action is Action.REBOOT_HOST]
    assert (cordon.state, reboot.state) == (State.WAITING, State.WAITING)
    answers = [Control(one.id[:8], ControlKind.APPROVE, one.id, actor="anna", endless=True) for one in (cordon, reboot)]
    approved, denied = remediations(stage.process(answers))
    assert (approved.id, approved.state) == (cordon.id, State.APPROVED)
    assert (denied.id, denied.state, denied.constraint) == (reboot.id, State.DENIED, "other-remediation")
    assert cordon.id in denied.reason


def test_a_target_that_two_attempts_took_out_is_restored_by_the_last() -> None:
    """A tool accepted the revoked one late: the first that qualifies leaves the restore to the other."""
    stage = deciding(**{**NO_CAPS, "cool_down_s": 0})
    (first,) = decisions(stage, finding("p1-l0/u0"))
    stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    stage.process([Control("stop", ControlKind.KIND_UNSPECIFIED)])
    second = remediations(stage.advance_watermark(at(50)))[-1]
    carry_out(stage, second)
    accept(stage, first)
    stage.process([Control("fixed", ControlKind.REPAIRED, second.id, actor="anna")])
    stage.process(sound(first.target.id, 40, 1000))
    found = remediations(stage.advance_watermark(at(1000)))
    assert [(r.id, r.state) for r in found if r.action is not Action.REPAIR_LINK] == [(second.id, State.CLOSED)]
    assert out_of_service(stage) == [first.target.id]
    stage.process([answer(first), Control("again", ControlKind.REPAIRED, first.id, actor="anna")])
    stage.process(sound(first.target.id, 1000, 2000))
    found = remediations(stage.advance_watermark(at(2000)))
    assert [(r.action, r.state) for r in found] == [
        (first.action, State.RESTORING), (Action.RESTORE_LINK, State.APPROVED),
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["denied", "waiting", "expired", "failed"])
@pytest.mark.parametrize("change", ["severity", "cause"])
def test_a_finding_that_changes_is_decided_again(first: str, change: str) -> None:
    """Whatever became of the first decision, the next attempt has another id."""
    example = finding("p1-l0/u0", confidence={"denied": None, "waiting": 0.6}.get(first, 0.95))
    stage = deciding(**NO_CAPS, cool_down_s=0, failed_s=100_000)
    (decision,) = decisions(stage, example)
    if first == "expired":
        stage.advance_watermark(at(310))
    if first == "failed":
        carry_out(stage, decision, Outcome.FAILED)
    assert open_states(stage)[decision.id] is State[first.upper()]
    changes: dict[str, Any] = {"severity": Severity.CRITICAL} if change == "severity" else {"cause": Cause.OPTIC}
    found = decisions(stage, replace(example, revision=2, confidence=0.95, **changes), t=320)
    assert [(one.id, one.state) for one in found if one.id == decision.id] == [(decision.id, State.CLOSED)]
    assert [(one.state, one.attempt) for one in found if one.id != decision.id] == [(State.APPROVED, 2)]


@pytest.mark.parametrize("restart", [False, True])
def test_an_open_finding_that_arrives_after_its_final_revision_is_not_approved(restart: bool) -> None:
    """Also by the successor that restored a snapshot, and after the settling time."""
    example = finding("p1-l0/u0")
    stage = deciding()
    decisions(stage, example)
    outputs = stage.process([ended(example, revision=5, final=True)])
    assert len(removed_keys(outputs)) == 1
    if restart:
        successor = deciding(states=False, loaded=False)
        successor.restore(stage.snapshot())
        successor.set_topology(TOP)
        successor.recover([])
        stage = successor
    assert remediations(stage.process([replace(example, revision=3), example])) == []
    for t in (11, 25, 1000, 80_000):
        assert remediations(stage.advance_watermark(at(t))) == []


def test_a_cold_start_approves_nothing_before_the_controls_are_read_and_then_decides() -> None:
    """A proposal is denied by guard 1; once the topic was read to its end without a kill switch, it is approved."""
    stage = deciding(loaded=False)
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert (denied.state, denied.guard) == (State.DENIED, 1)
    assert remediations(stage.advance_watermark(at(60))) == []
    stage.recover([])
    found = remediations(stage.advance_watermark(at(71)))
    assert [one.state for one in found] == [State.CLOSED, State.APPROVED]


def test_a_person_approves_what_expired_without_an_answer() -> None:
    """The next attempt has the approval; the same answer again, or one for the old id, changes nothing."""
    stage = deciding()
    (waiting,) = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    stage.advance_watermark(at(3610))
    assert open_states(stage)[waiting.id] is State.EXPIRED
    approval = Control("c", ControlKind.APPROVE, waiting.id, at(3620), at(9000), actor="anna")
    closed, approved = remediations(stage.process([approval]))
    assert (closed.id, closed.state) == (waiting.id, State.CLOSED)
    assert (approved.state, approved.attempt, approved.approved_by) == (State.APPROVED, 2, "anna")
    assert remediations(stage.process([approval, replace(approval, id="d")])) == []


def test_a_decision_is_confirmed_to_one_instance() -> None:
    """Two automations with one actor: the result of the other instance has no effect."""
    stage = deciding()
    (approved,) = decisions(stage, finding("p1-l0/u0"))
    first, second = (replace(answer(approved, Outcome.ACCEPTED), instance=name) for name in ("h1/0a", "h2/0b"))
    (accepted,) = remediations(stage.process([first, second]))
    assert (accepted.state, accepted.actor, accepted.instance) == (State.ACCEPTED, "netbot", "h1/0a")
    assert remediations(stage.process([replace(second, outcome=Outcome.DONE)])) == []
    drained = remediations(stage.process([replace(first, outcome=Outcome.DONE)]))[0]
    assert (drained.state, drained.instance) == (State.DRAINED, "h1/0a")
