"""Tests the second half of the life cycle: repair, qualification, restore, probation, relapse, and state loss."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from streams.decide.repair_steps import ORDER, TEXTS
from streams.decide.stage import Decide
from streams.wire.models import Action, Condition, Control, ControlKind, Message, Outcome, Remediation, Verdict
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import (
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
    readings,
    remediations,
    sound,
)
from tests.worlds.observations import at

HINTS = [TEXTS[step] for step in ORDER]
LIMITS: dict[str, Any] = {"isolation_budget": 100}


def by_action(found: list[Remediation], action: Action) -> list[Remediation]:
    return [remediation for remediation in found if remediation.action is action]


def drained(stage: Decide, t: float = 10, began: float = 0) -> tuple[Remediation, Remediation]:
    """Return the drain of a link that automation carried out, and the repair that was ordered for it."""
    (drain,) = decisions(stage, finding("p1-l0/u0", t=began), t=t)
    carry_out(stage, drain)
    (repair,) = remediations(stage.advance_watermark(at(t + 1)))
    assert (repair.action, repair.state, repair.finding_ids) == (Action.REPAIR_LINK, State.APPROVED, drain.finding_ids)
    return drain, repair


def restoring(stage: Decide, t: float = 10) -> tuple[Remediation, Remediation]:
    """Return the drain of a link that was repaired at `t` + 1, and the restore 1000 s later."""
    drain, repair = drained(stage, t)
    assert [r.state for r in carry_out(stage, repair)][-1] is State.VERIFYING
    stage.process(sound(drain.target.id, t - 10, t + 1000))
    moved, restore = remediations(stage.advance_watermark(at(t + 1001)))
    assert (moved.id, moved.state) == (drain.id, State.RESTORING)
    assert (restore.action, restore.state, restore.verdict) == (
        Action.RESTORE_LINK, State.APPROVED, Verdict.APPROVED,
    )  # fmt: skip
    return drain, restore


def on_probation(stage: Decide, t: float = 10) -> Remediation:
    """Return the drain of a link that is restored at `t` + 1001."""
    drain, restore = restoring(stage, t)
    assert [r.state for r in carry_out(stage, restore)] == [State.ACCEPTED, State.CLOSED, State.PROBATION]
    return drain


def test_a_drained_link_that_is_quiet_is_not_restored() -> None:
    """The finding resolves because the link is drained; without a repair nothing is restored, and a person is asked."""
    stage = deciding()
    drain, _ = drained(stage)
    stage.process([ended(finding("p1-l0/u0"), final=True)])
    stage.process(sound(drain.target.id, 0, 6000))
    assert by_action(remediations(stage.advance_watermark(at(6000))), Action.RESTORE_LINK) == []
    found = remediations(stage.advance_watermark(at(345_611)))
    assert [(r.id, r.state) for r in found if r.id == drain.id] == [(drain.id, State.ESCALATED)]
    (again,) = remediations(stage.advance_watermark(at(345_611 + 86_400)))
    assert (again.id, again.state) == (drain.id, State.ESCALATED)


def test_a_repaired_link_that_does_not_qualify_is_repaired_again_by_the_next_hint() -> None:
    """A fake repair: errors go on while drained. After an hour the next part is named; after the last a person."""
    stage = deciding()
    drain, repair = drained(stage)
    t = 11.0
    for hint in HINTS[1:]:
        carry_out(stage, repair)
        stage.process([readings("p1-l0", "u0", t, t + 60, errors=5)])
        moved, repair = remediations(stage.advance_watermark(at(t + 3600)))
        assert (moved.id, moved.state, moved.repair_hint) == (drain.id, State.DRAINED, hint)
        assert (repair.action, repair.repair_hint) == (Action.REPAIR_LINK, hint)
        t += 3600
    carry_out(stage, repair)
    (moved,) = remediations(stage.advance_watermark(at(t + 3600)))
    assert (moved.id, moved.state) == (drain.id, State.ESCALATED)
    assert out_of_service(stage) == [drain.target.id]


def test_a_qualification_from_before_the_repair_is_no_proof() -> None:
    """The link was quiet for long when the repair was reported: it must qualify for 900 s from then."""
    stage = deciding()
    drain, repair = drained(stage)
    stage.process(sound(drain.target.id, 0, 3000))
    stage.advance_watermark(at(2000))
    carry_out(stage, repair)
    assert stage.advance_watermark(at(2899)) == []
    assert [r.state for r in remediations(stage.advance_watermark(at(2900)))] == [State.RESTORING, State.APPROVED]


def test_a_person_may_report_the_repair() -> None:
    """A control REPAIRED counts as a repair, once; qualification is needed all the same."""
    stage = deciding()
    drain, repair = drained(stage)
    control = Control("fixed", ControlKind.REPAIRED, drain.id, actor="anna")
    closed, moved = remediations(stage.process([control]))
    assert (closed.id, closed.state) == (repair.id, State.CLOSED)
    assert (moved.id, moved.state, moved.actor) == (drain.id, State.VERIFYING, "anna")
    assert stage.process([control]) == []
    stage.advance_watermark(at(3700))
    assert stage.process([control]) == [], "the same report is no second repair"


def test_a_kill_switch_blocks_no_restore() -> None:
    """Recovery is never blocked, but no repair is ordered meanwhile."""
    stage = deciding()
    drain, repair = drained(stage)
    (revoked,) = [
        r
        for r in remediations(
            [*stage.process([Control("stop", ControlKind.KILL_SWITCH)]), *stage.advance_watermark(at(12))]
        )
        if r.id == repair.id
    ]
    assert (revoked.state, revoked.verdict) == (State.DENIED, Verdict.REVOKED)
    stage.process([Control("fixed", ControlKind.REPAIRED, drain.target.id, at(13), actor="anna")])
    stage.process(sound(drain.target.id, 0, 1000))
    found = remediations(stage.advance_watermark(at(1000)))
    assert [(r.action, r.verdict) for r in found if r.action is Action.RESTORE_LINK] == [
        (Action.RESTORE_LINK, Verdict.APPROVED)
    ]


def test_a_link_counts_as_drained_until_its_restore_is_done() -> None:
    """From APPROVED on; neither the published restore nor its acceptance ends it."""
    stage = deciding()
    drain, restore = restoring(stage)
    target = drain.target.id
    assert out_of_service(stage) == [target]
    accept(stage, restore)
    assert out_of_service(stage) == [target]
    (denied,) = decisions(stage, finding("p1-l0/u1", t=1020), t=1031)
    assert denied.verdict is Verdict.DENIED
    stage.process([answer(restore)])
    assert out_of_service(stage) == []


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REJECTED, None])
def test_a_failed_restore_is_retried_with_growing_pauses(outcome: Outcome | None) -> None:
    """Each retry has an id of its own; after three a person is asked, after ten only a person acts."""
    stage = deciding()
    drain, restore = restoring(stage)
    t, ids = 1011.0, {restore.id}
    while len(ids) < 10:
        begin = t
        if outcome is None:
            accept(stage, restore)
            t += 600
            stage.process(sound(drain.target.id, begin - 1, t - 1))
            stage.advance_watermark(at(t))
        else:
            carry_out(stage, restore, outcome)
        before, t = t, t + 60 * 2 ** (len(ids) - 1)
        stage.process(sound(drain.target.id, before - 1, t - 1))
        assert by_action(remediations(stage.advance_watermark(at(t - 1))), Action.RESTORE_LINK) == []
        (restore,) = by_action(remediations(stage.advance_watermark(at(t))), Action.RESTORE_LINK)
        assert restore.id not in ids
        ids.add(restore.id)
        assert open_states(stage)[drain.id] is (State.ESCALATED if len(ids) > 3 else State.RESTORING)
    assert [r.state for r in carry_out(stage, restore)][-1] is State.PROBATION


NO_PROOF: dict[str, Callable[[float], Message]] = {
    "port": lambda t: port_states("p1-l0", t=t - 5, u0=2),
    "readings": lambda t: readings("p1-l0", "u0", t, t + 10, errors=5),
}
"""By the end of the readings so far."""


@pytest.mark.parametrize("when", ["published", "accepted", "failed", "escalated"])
@pytest.mark.parametrize("loss", NO_PROOF)
def test_a_target_that_does_not_qualify_any_more_is_not_restored(loss: str, when: str) -> None:
    """Before automation accepts, in the batch of its acceptance, at a retry, and while retries go on after an hour."""
    stage = deciding(answer_s=10_000, expires_s=10_000)
    drain, restore = restoring(stage)
    t = 1020.0
    if when == "failed":
        carry_out(stage, restore, Outcome.FAILED)
    if when == "escalated":
        t = 1011 + 3600.0
        stage.process(sound(drain.target.id, 1010, t - 1))
        assert State.ESCALATED in [r.state for r in remediations(stage.advance_watermark(at(t)))]
    found = remediations(stage.process([NO_PROOF[loss](t - 1 if when == "escalated" else 1010)]))
    found += accept(stage, restore) if when == "accepted" else remediations(stage.advance_watermark(at(t + 100)))
    revoked = [] if when == "failed" else [(restore.id, State.CLOSED, Verdict.REVOKED)]
    after = [] if when == "escalated" else [(drain.id, State.VERIFYING, Verdict.APPROVED)]
    assert [(r.id, r.state, r.verdict) for r in found] == revoked + after
    assert accept(stage, restore) == [], "a revoked restore has no result"
    stage.process([port_states("p1-l0", t=t + 100), *sound(drain.target.id, t + 100, t + 1100)])
    again = by_action(remediations(stage.advance_watermark(at(t + 1101))), Action.RESTORE_LINK)
    assert [(r.state, r.id != restore.id) for r in again] == [(State.APPROVED, True)]
    assert [r.state for r in carry_out(stage, again[0])][-1] is State.PROBATION


def test_a_repair_of_a_link_that_may_carry_needs_capacity() -> None:
    """An accepted repair answers after the restore, while another uplink is drained: which came first is unknown."""
    stage = deciding(cool_down_s=0)
    drain, repair = drained(stage)
    accept(stage, repair)
    stage.process([Control("fixed", ControlKind.REPAIRED, drain.id, at(11), actor="anna")])
    stage.process(sound(drain.target.id, 0, 1011))
    _, restore = remediations(stage.advance_watermark(at(1011)))
    carry_out(stage, restore)
    (other,) = decisions(stage, finding("p1-l0/u1", t=1020), t=1031)
    carry_out(stage, other)
    (late,) = remediations(stage.process([answer(repair)]))
    assert (late.id, late.state) == (drain.id, State.VERIFYING)
    found = remediations(stage.advance_watermark(at(1031 + 3600)))
    (again,) = [r for r in found if r.action is Action.REPAIR_LINK and r.target == drain.target]
    assert (again.verdict, again.constraint) == (Verdict.DENIED, "surviving-capacity")


def test_a_restore_that_automation_began_is_not_withdrawn() -> None:
    """Its port may go down meanwhile; a repeated acceptance changes nothing, and the result counts."""
    stage = deciding()
    _, restore = restoring(stage)
    accept(stage, restore)
    stage.process([NO_PROOF["port"](1010)])
    assert accept(stage, restore) == []
    assert remediations(stage.advance_watermark(at(1100))) == []
    assert [r.state for r in remediations(stage.process([answer(restore)]))] == [State.CLOSED, State.PROBATION]


def test_a_restore_that_is_not_accepted_is_published_again_under_its_id() -> None:
    """No automation began it, so it is the same order with a later expiry."""
    stage = deciding()
    drain, restore = restoring(stage)
    stage.process(sound(drain.target.id, 1010, 1300))
    (repeated,) = remediations(stage.advance_watermark(at(1311)))
    assert (repeated.id, repeated.revision > restore.revision) == (restore.id, True)
    assert repeated.expires_at_ns == at(1611)


def test_probation_ends_after_an_hour_without_a_relapse() -> None:
    """The remediation is closed, with all of its orders."""
    stage = deciding()
    drain = on_probation(stage)
    stage.process([ended(finding("p1-l0/u0"), final=True)])
    (closed,) = remediations(stage.advance_watermark(at(1011 + 3600)))
    assert (closed.id, closed.state) == (drain.id, State.CLOSED)
    assert open_states(stage) == {}


@pytest.mark.parametrize("same", [True, False])
def test_a_relapse_drains_at_once_with_the_next_hint(same: bool) -> None:
    """The fault is back on probation, under its id or another: the cool-down is skipped and the hint is raised."""
    stage = deciding()
    drain = on_probation(stage)
    if same:
        back = replace(finding("p1-l0/u0"), revision=9, observed_at_ns=at(1100))
    else:
        back = finding("p1-l0/u0", Condition.LINK_DOWN, t=1100)
    found = decisions(stage, back, t=1111)
    (relapse,) = [r for r in found if r.state is State.APPROVED]
    assert (relapse.action, relapse.attempt, relapse.repair_hint) == (Action.DRAIN_LINK, 2, HINTS[1])
    assert [(r.id, r.state) for r in found if r.id == drain.id] == [(drain.id, State.CLOSED)]
    assert "did not help" in next(r.reason for r in found if r.id == drain.id)


def test_probes_that_a_link_on_probation_loses_are_a_relapse() -> None:
    """The policy only observes path/loss; on probation it proves that the repair did not help. An incast does not."""
    stage = deciding()
    drain = on_probation(stage)
    found = decisions(stage, finding("p1-l0/u0", Condition.CONGESTION_INCAST, t=1100), t=1111)
    assert [(r.action, r.state) for r in found] == [(Action.OBSERVE, State.APPROVED)]
    found = decisions(stage, finding("p1-l0/u0", Condition.PATH_LOSS, t=1120), t=1131)
    assert {(r.action, r.state, r.attempt) for r in found} == {
        (Action.DRAIN_LINK, State.CLOSED, drain.attempt), (Action.DRAIN_LINK, State.APPROVED, 2)
    }  # fmt: skip


def third_relapse(stage: Decide) -> list[Remediation]:
    """Return what follows the third relapse of a link; the two before it were drained, repaired and restored."""
    on_probation(stage)
    t = 1011.0
    for number in (1, 2, 3):
        found = decisions(stage, finding("p1-l0/u0", t=t + 20), t=t + 31)
        if number == 3:
            return found
        (drain,) = [r for r in found if r.state is State.APPROVED]
        assert drain.attempt == number + 1
        carry_out(stage, drain)
        (repair,) = remediations(stage.advance_watermark(at(t + 32)))
        carry_out(stage, repair)
        stage.process(sound(drain.target.id, t + 30, t + 1100))
        _, restore = remediations(stage.advance_watermark(at(t + 1100)))
        carry_out(stage, restore)
        t += 1100
    raise AssertionError


def test_the_third_relapse_waits_for_a_person() -> None:
    """Two relapses are drained at once, the third is ESCALATED; a person's approval drains it."""
    stage = deciding(**LIMITS)
    (escalated,) = third_relapse(stage)
    assert (escalated.state, escalated.verdict) == (State.ESCALATED, Verdict.NEEDS_APPROVAL)
    assert out_of_service(stage) == []
    approved = remediations(
        stage.process([Control("go", ControlKind.APPROVE, escalated.id, actor="anna", endless=True)])
    )
    assert [r.state for r in approved] == [State.CLOSED, State.APPROVED]


def test_the_third_relapse_waits_also_while_the_link_is_quiet_and_when_it_fails_again() -> None:
    """Neither the end of its finding nor a new finding takes the decision from the person."""
    stage = deciding(**LIMITS)
    (escalated,) = third_relapse(stage)
    last = finding("p1-l0/u0", t=3231.0)
    assert remediations(stage.process([ended(last, final=True)])) == []
    back = finding("p1-l0/u0", t=9000)
    (joined,) = decisions(stage, back, t=9011)
    assert (joined.id, joined.state, joined.finding_ids[-1]) == (escalated.id, State.ESCALATED, back.id)
    answers = remediations(
        stage.process([Control("no", ControlKind.REJECT, escalated.id, actor="anna", reason="replaced by hand")])
    )
    assert [(r.id, r.state) for r in answers] == [(escalated.id, State.CLOSED)]
    (again,) = decisions(stage, finding("p1-l0/u0", t=20_000), t=20_011)
    assert (again.action, again.state) == (Action.DRAIN_LINK, State.APPROVED)


@pytest.mark.parametrize("when", ["approved", "accepted", "drained", "verifying", "restoring", "denied"])
def test_own_remediations_are_read_again_when_the_state_is_lost(when: str) -> None:
    """Drained links are not forgotten, open orders go on, and no id is decided a second time."""
    example = finding("p1-l0/u0", confidence=None if when == "denied" else 0.95)
    stage = deciding()
    published = decisions(stage, example)
    drain = published[0]
    if when not in ("approved", "denied"):
        published += accept(stage, drain)
    if when in ("drained", "verifying", "restoring"):
        published += remediations([*stage.process([answer(drain)]), *stage.advance_watermark(at(11))])
    if when in ("verifying", "restoring"):
        published += carry_out(stage, published[-1])
    if when == "restoring":
        stage.process(sound(drain.target.id, 0, 1000))
        published += remediations(stage.advance_watermark(at(1000)))
    successor = deciding(loaded=False)
    successor.start_epoch(2)
    successor.recover(published)
    assert out_of_service(successor) == ([drain.target.id] if when != "denied" else [])
    assert open_states(successor) == open_states(stage)
    found = decisions(successor, replace(example, revision=3), t=1000.5)
    assert [r for r in found if r.id == drain.id and r.state is State.APPROVED] == []
    if when == "accepted":
        assert [r.state for r in remediations(successor.process([answer(drain)]))] == [State.DRAINED]
    if when == "drained":
        assert [r.state for r in carry_out(successor, published[-1])][-1] is State.VERIFYING
    if when == "restoring":
        assert [(r.id, r.state) for r in found] == [(published[-1].id, State.CLOSED), (drain.id, State.VERIFYING)]
        assert carry_out(successor, published[-1]) == [], "its readings are not known any more"
        successor.process(sound(drain.target.id, 1000, 2000))
        (_, restore) = remediations(successor.advance_watermark(at(2000)))
        assert [r.state for r in carry_out(successor, restore)][-1] is State.PROBATION


def reread(published: list[Remediation], *controls: Control) -> Decide:
    """Return a stage that lost its state, and read its own revisions and the controls again."""
    successor = deciding(loaded=False)
    successor.start_epoch(2)
    successor.recover([*published, *controls])
    return successor


def test_a_link_on_probation_that_is_drained_for_another_finding_is_no_longer_watched() -> None:
    """The finding began before the restore, so it is no relapse; the next one joins its drain."""
    stage = deciding(cool_down_s=0, **LIMITS)
    watched = on_probation(stage)
    found = decisions(stage, finding("p1-l0/u0", Condition.LINK_DEGRADING, t=1005), t=1020)
    handed, drain = found
    assert (handed.id, handed.state) == (watched.id, State.CLOSED)
    assert (drain.action, drain.state) == (Action.DRAIN_LINK, State.APPROVED)
    (joined,) = decisions(stage, finding("p1-l0/u0", t=1030), t=1041)
    assert (joined.id, joined.state) == (drain.id, State.APPROVED)


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_approval_that_expired_before_the_state_was_lost_is_accepted_late(is_closed: bool) -> None:
    """The tool may have drained the link: it counts as out of service, as it would without the loss."""
    stage = deciding()
    published = decisions(stage, finding("p1-l0/u0"))
    published += remediations(stage.advance_watermark(at(400)))
    if is_closed:
        published += remediations(stage.process([ended(finding("p1-l0/u0"))]))
    assert published[-1].state is (State.CLOSED if is_closed else State.EXPIRED)
    successor = reread(published)
    assert [r.state for r in accept(successor, published[0])] == [State.NO_ANSWER]
    assert out_of_service(successor) == [published[0].target.id]


def test_the_acceptor_is_known_after_a_timeout_and_a_lost_state() -> None:
    """The revision of the timeout names decide; the result still counts from the tool that accepted, and no other."""
    stage = deciding()
    (drain,) = published = decisions(stage, finding("p1-l0/u0"))
    published = [*published, *accept(stage, drain), *remediations(stage.advance_watermark(at(700)))]
    assert (published[-1].state, published[-1].actor) == (State.NO_ANSWER, "decide")
    successor = reread(published)
    assert remediations(successor.process([replace(answer(drain), actor="decide")])) == []
    assert [r.state for r in remediations(successor.process([answer(drain)]))] == [State.DRAINED]


def test_an_approval_is_not_processed_again_after_a_lost_state() -> None:
    """It was approved, and expired because no tool accepted it; the control is still in its topic."""
    stage = deciding()
    published = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    approval = Control("c", ControlKind.APPROVE, published[0].id, at(12), actor="anna", endless=True)
    published += remediations([*stage.process([approval]), *stage.advance_watermark(at(400))])
    assert [r.state for r in published] == [State.WAITING, State.APPROVED, State.EXPIRED]
    assert remediations(reread(published, approval).advance_watermark(at(401))) == []
    missed = replace(approval, id="d", kind=ControlKind.REJECT, at_ns=at(11))
    later = reread(published[:1], missed)
    assert list(open_states(later).values()) == [State.DENIED], "a later answer counts"


def test_a_repair_that_was_reported_before_the_drain_does_not_count_after_a_lost_state() -> None:
    """It had no effect when it came, at the time of the drain; its control is still in the topic."""
    stage = deciding()
    published = decisions(stage, finding("p1-l0/u0"))
    drain = published[0]
    early = Control("r", ControlKind.REPAIRED, drain.id, at(10), actor="anna", endless=True)
    assert remediations(stage.process([early])) == []
    published += carry_out(stage, drain)
    assert list(open_states(reread(published, early)).values()) == [State.DRAINED]


def test_both_attempts_that_took_a_target_out_are_known_after_a_lost_state() -> None:
    """A tool accepted the revoked one late; the failure of either leaves the target counted."""
    stage = deciding(cool_down_s=0)
    published = decisions(stage, finding("p1-l0/u0"))
    published += remediations(stage.process([Control("stop", ControlKind.KILL_SWITCH)]))
    stage.process([Control("stop", ControlKind.KIND_UNSPECIFIED)])
    published += remediations(stage.advance_watermark(at(50)))
    second = published[-1]
    published += [*carry_out(stage, second), *accept(stage, published[0])]
    successor = reread(published)
    successor.process([answer(published[0], Outcome.FAILED)])
    assert out_of_service(successor) == [second.target.id]


def test_a_host_is_restored_by_a_person_and_its_links() -> None:
    """CORDON_HOST needs a repair that a person reports, and all links of the host must qualify; then UNCORDON_HOST."""
    example = finding("p1-h1", Condition.HOST_GPU_FAULT, severity=3)
    stage = deciding()
    (waiting,) = decisions(stage, example)
    assert (waiting.action, waiting.state) == (Action.CORDON_HOST, State.WAITING)
    (cordon,) = remediations(stage.process([Control("c", ControlKind.APPROVE, waiting.id, actor="anna", endless=True)]))
    carry_out(stage, cordon)
    assert remediations(stage.advance_watermark(at(20))) == [], "no repair of a host is ordered"
    stage.process([Control("r", ControlKind.REPAIRED, cordon.id, actor="anna"), ended(example, final=True)])
    for link in TOP.uplinks_of["p1-h1"]:
        stage.process(sound(link.id, 0, 1000))
    found = remediations(stage.advance_watermark(at(1000)))
    assert [r.action for r in found] == [Action.CORDON_HOST, Action.UNCORDON_HOST]
    stage.process([replace(example, revision=4)])
    found = remediations(stage.advance_watermark(at(1001)))
    assert [(r.action, r.state) for r in found] == [
        (Action.UNCORDON_HOST, State.CLOSED), (Action.CORDON_HOST, State.VERIFYING),
    ]  # fmt: skip


def test_a_link_that_is_down_is_repaired_and_proven_before_it_counts_again() -> None:
    """REPAIR_LINK as the first action: the repair is done, the link qualifies, and the restore follows."""
    stage = deciding()
    stage.process([port_states("p1-l0", t=1, u0=2)])
    (repair,) = decisions(stage, finding("p1-l0/u0", Condition.LINK_DOWN))
    assert (repair.action, repair.state) == (Action.REPAIR_LINK, State.APPROVED)
    assert [r.state for r in carry_out(stage, repair)] == [State.ACCEPTED, State.VERIFYING]
    stage.process([port_states("p1-l0", t=12), *sound(repair.target.id, 12, 1000)])
    found = remediations(stage.advance_watermark(at(1000)))
    assert [(r.action, r.state) for r in found] == [
        (Action.REPAIR_LINK, State.RESTORING), (Action.RESTORE_LINK, State.APPROVED),
    ]  # fmt: skip


def test_a_remediation_without_a_state_is_not_continued() -> None:
    """Versions before 0.1.0 published none: it ended the stage at each start. Its id is not used again."""
    example = finding("p1-l0/u0")
    (drain,) = decisions(deciding(), example)
    successor = deciding(loaded=False)
    successor.start_epoch(2)
    successor.recover([replace(drain, state=State.STATE_UNSPECIFIED, memory="")])
    assert not open_states(successor)
    (found,) = decisions(successor, replace(example, revision=3), t=1000.5)
    assert (found.attempt, found.id != drain.id) == (drain.attempt + 1, True)
