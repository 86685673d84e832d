"""decide: what becomes of a decision: it is revoked, expires or is answered, and what was drained comes back."""

from dataclasses import replace

import pytest

from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Outcome,
    RemediationResult,
    Status,
    Verdict,
)
from tests.fixtures.decide_stage import answer, deciding, decisions, ended, finding, remediations, taken_out
from tests.worlds.observations import after, at


@pytest.mark.parametrize("why", ["parent", "retracted", "over"])
def test_what_must_not_be_done_any_more_is_revoked_under_its_id(why: str) -> None:
    """A parent becomes known, it was not so, or it is over: REVOKED, and no longer open."""
    own = finding("p1-l0/u0")
    stage = deciding()
    (said,) = decisions(stage, own)
    changed = {
        "parent": replace(own, revision=2, parent_id="reboot"),
        "retracted": replace(own, revision=2, status=Status.RETRACTED),
        "over": ended(own),
    }[why]
    outputs = stage.process([changed])
    (revoked,) = remediations(outputs)
    assert (revoked.id, revoked.verdict, revoked.revision > said.revision) == (said.id, Verdict.REVOKED, True)
    assert taken_out(outputs) == [said.id]
    assert stage.advance_watermark(at(10_000)) == []


def test_a_decision_that_nobody_carried_out_expires() -> None:
    """After its time only its key is taken out; the id is not decided anew."""
    stage = deciding()
    (said,) = decisions(stage, finding("p1-l0/u0"))
    assert stage.advance_watermark(at(609.9)) == []
    outputs = stage.advance_watermark(at(610))
    assert (taken_out(outputs), remediations(outputs)) == ([said.id], [])
    assert stage.advance_watermark(at(5000)) == []


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED])
def test_an_answer_closes_the_decision_once(outcome: Outcome) -> None:
    """The first answer takes it out of what is open; the same one again changes nothing; ACCEPTED is none yet."""
    stage = deciding()
    (said,) = decisions(stage, finding("p1-l0/u0"))
    assert stage.process([answer(said, Outcome.ACCEPTED)]) == []
    assert taken_out(stage.process([answer(said, outcome)])) == [said.id]
    before = stage.snapshot()
    assert stage.process([answer(said, outcome), RemediationResult("unknown", Outcome.DONE)]) == []
    assert stage.snapshot() == before


def test_a_drained_link_is_restored_when_the_condition_is_over() -> None:
    """DONE, then over: RESTORE_LINK, approved whatever the guards would say, once."""
    own = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, own)
    stage.process([answer(drain), Control("stop", ControlKind.KILL_SWITCH)])
    stage.process([finding(f"p1-l0/u{n}", Condition.LINK_DOWN) for n in (1, 2, 3)])
    (restore,) = [r for r in remediations(stage.process([ended(own)])) if r.action is Action.RESTORE_LINK]
    assert (restore.verdict, restore.target) == (Verdict.APPROVED, own.subject)
    assert drain.id in restore.reason
    assert remediations(stage.process([ended(own, revision=3, final=True)])) == []


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("expired", [False, True])
def test_what_was_drained_too_late_is_restored_as_well(final: bool, expired: bool) -> None:
    """The tool drained the link before it read the revocation, or answered after the end: it must not stay drained."""
    own = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, own)
    if expired:
        stage.advance_watermark(at(700))
    stage.process([ended(own, final=final)])
    (restore,) = remediations(stage.process([answer(drain)]))
    assert (restore.action, restore.verdict, restore.target.id) == (
        Action.RESTORE_LINK, Verdict.APPROVED, own.subject.id,
    )  # fmt: skip
    assert remediations(stage.process([answer(drain)])) == []


def test_a_restore_that_nobody_carried_out_is_said_again() -> None:
    """What was drained must come back: the same id, a higher revision, until somebody answers."""
    own = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, own)
    stage.process([answer(drain)])
    (restore,) = remediations(stage.process([ended(own, final=True)]))
    (again,) = remediations(stage.advance_watermark(at(620)))
    assert (again.id, again.revision > restore.revision, after(again.expires_at_ns)) == (restore.id, True, 1220)
    assert taken_out(stage.process([answer(restore)])) == [restore.id]
    assert stage.advance_watermark(at(10_000)) == []


def test_an_answer_after_the_expiry_still_counts_as_drained() -> None:
    """It is out of service, whenever that was told: the capacity guard knows, and it comes back in the end."""
    own = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, own)
    stage.advance_watermark(at(700))
    assert remediations(stage.process([answer(drain)])) == []
    (other,) = decisions(stage, finding("p1-l0/u1", t=800), t=810)
    assert other.verdict is Verdict.DENIED
    assert [r.action for r in remediations(stage.process([ended(own)]))] == [Action.RESTORE_LINK]


def test_a_snapshot_keeps_everything_that_was_decided() -> None:
    """Whoever takes over decides nothing twice, and goes on where the other ended."""
    stage = deciding()
    (drain,) = decisions(stage, finding("p1-l0/u0"))
    stage.process([finding("p1-l1/u0", t=20), Control("stop", ControlKind.KILL_SWITCH, until_ns=at(5000))])
    other = deciding()
    other.restore(stage.snapshot())
    assert other.snapshot() == stage.snapshot()
    assert other.watermark_ns == at(10)
    other.start_epoch(2)
    assert taken_out(other.process([answer(drain)])) == [drain.id]
    assert [r.action for r in remediations(other.process([ended(finding("p1-l0/u0"))]))] == [Action.RESTORE_LINK]
    assert [r.constraint for r in remediations(other.advance_watermark(at(40)))] == ["kill-switch"]


@pytest.mark.parametrize("data", [b"", b"{", b'{"cases": 1}'])
def test_a_snapshot_that_cannot_be_read_is_refused(data: bytes) -> None:
    """Whatever stands in the snapshot topic, the answer is Reject."""
    with pytest.raises(Reject, match="not a snapshot of decide"):
        deciding().restore(data)


def test_state_does_not_grow_with_what_is_over() -> None:
    """After a thousand findings, decisions and answers, what is kept is what still matters: cool-downs."""
    stage = deciding(cool_down_s=100)
    sizes = []
    for n in range(1000):
        t = n * 1000
        own = finding("p1-l0/u0", t=t)
        for said in decisions(stage, own, t=t + 10):
            stage.process([answer(said, t=t + 11)])
        for restore in remediations(stage.process([ended(own, final=True)])):
            stage.process([answer(restore, t=t + 20)])
        stage.advance_watermark(at(t + 900))
        sizes.append(len(stage.snapshot()))
    assert max(sizes[500:]) <= max(sizes[:500]) + 50
