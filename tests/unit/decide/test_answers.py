"""Tests the life cycle of a decision: revocation, expiry, results, and restoring of drained links."""

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
from tests.fixtures.decide_stage import answer, deciding, decisions, ended, finding, remediations, removed_keys
from tests.worlds.observations import after, at


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
    assert removed_keys(outputs) == [decision.id]
    assert stage.advance_watermark(at(10_000)) == []


def test_a_decision_without_a_result_expires() -> None:
    """After its expiry only its key is removed; the id is not decided again."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert stage.advance_watermark(at(609.9)) == []
    outputs = stage.advance_watermark(at(610))
    assert (removed_keys(outputs), remediations(outputs)) == ([decision.id], [])
    assert stage.advance_watermark(at(5000)) == []


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED])
def test_a_result_closes_the_decision_once(outcome: Outcome) -> None:
    """The first result closes it; a repetition changes nothing; ACCEPTED is not a final result."""
    stage = deciding()
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert stage.process([answer(decision, Outcome.ACCEPTED)]) == []
    assert removed_keys(stage.process([answer(decision, outcome)])) == [decision.id]
    before = stage.snapshot()
    assert stage.process([answer(decision, outcome), RemediationResult("unknown", Outcome.DONE)]) == []
    assert stage.snapshot() == before


def test_a_drained_link_is_restored_when_the_condition_is_over() -> None:
    """After DONE and the end of the condition: one RESTORE_LINK, approved whatever the guards allow."""
    example = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, example)
    stage.process([answer(drain), Control("stop", ControlKind.KILL_SWITCH)])
    stage.process([finding(f"p1-l0/u{n}", Condition.LINK_DOWN) for n in (1, 2, 3)])
    (restore,) = [r for r in remediations(stage.process([ended(example)])) if r.action is Action.RESTORE_LINK]
    assert (restore.verdict, restore.target) == (Verdict.APPROVED, example.subject)
    assert drain.id in restore.reason
    assert remediations(stage.process([ended(example, revision=3, final=True)])) == []


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("expired", [False, True])
def test_a_link_that_was_drained_too_late_is_restored(final: bool, expired: bool) -> None:
    """A tool that drains before it reads the revocation, or reports after the end, must not leave the link drained."""
    example = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, example)
    if expired:
        stage.advance_watermark(at(700))
    stage.process([ended(example, final=final)])
    (restore,) = remediations(stage.process([answer(drain)]))
    assert (restore.action, restore.verdict, restore.target.id) == (
        Action.RESTORE_LINK, Verdict.APPROVED, example.subject.id,
    )  # fmt: skip
    assert remediations(stage.process([answer(drain)])) == []


def test_a_restore_without_a_result_is_repeated() -> None:
    """A drained link must be restored: same id, higher revision, until there is a result."""
    example = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, example)
    stage.process([answer(drain)])
    (restore,) = remediations(stage.process([ended(example, final=True)]))
    (repeated,) = remediations(stage.advance_watermark(at(620)))
    assert (repeated.id, repeated.revision > restore.revision, after(repeated.expires_at_ns)) == (
        restore.id,
        True,
        1220,
    )
    assert removed_keys(stage.process([answer(restore)])) == [restore.id]
    assert stage.advance_watermark(at(10_000)) == []


def test_a_result_after_the_expiry_counts_as_drained() -> None:
    """The link is out of service: the capacity guard counts it, and it is restored in the end."""
    example = finding("p1-l0/u0")
    stage = deciding()
    (drain,) = decisions(stage, example)
    stage.advance_watermark(at(700))
    assert remediations(stage.process([answer(drain)])) == []
    (other,) = decisions(stage, finding("p1-l0/u1", t=800), t=810)
    assert other.verdict is Verdict.DENIED
    assert [r.action for r in remediations(stage.process([ended(example)]))] == [Action.RESTORE_LINK]


def test_a_snapshot_has_all_decisions() -> None:
    """The next owner decides nothing twice, and continues from the snapshot."""
    stage = deciding()
    (drain,) = decisions(stage, finding("p1-l0/u0"))
    stage.process([finding("p1-l1/u0", t=20), Control("stop", ControlKind.KILL_SWITCH, until_ns=at(5000))])
    other = deciding()
    other.restore(stage.snapshot())
    assert other.snapshot() == stage.snapshot()
    assert other.watermark_ns == at(10)
    other.start_epoch(2)
    assert removed_keys(other.process([answer(drain)])) == [drain.id]
    assert [r.action for r in remediations(other.process([ended(finding("p1-l0/u0"))]))] == [Action.RESTORE_LINK]
    assert [r.constraint for r in remediations(other.advance_watermark(at(40)))] == ["kill-switch"]


@pytest.mark.parametrize("data", [b"", b"{", b'{"cases": 1}'])
def test_a_snapshot_that_cannot_be_read_is_refused(data: bytes) -> None:
    """Any other content of the snapshot topic raises Reject."""
    with pytest.raises(Reject, match="not a snapshot of decide"):
        deciding().restore(data)


def test_state_does_not_grow_with_closed_findings() -> None:
    """After a thousand findings, decisions and results, only the cool-downs are retained."""
    stage = deciding(cool_down_s=100)
    sizes = []
    for n in range(1000):
        t = n * 1000
        example = finding("p1-l0/u0", t=t)
        for decision in decisions(stage, example, t=t + 10):
            stage.process([answer(decision, t=t + 11)])
        for restore in remediations(stage.process([ended(example, final=True)])):
            stage.process([answer(restore, t=t + 20)])
        stage.advance_watermark(at(t + 900))
        sizes.append(len(stage.snapshot()))
    assert max(sizes[500:]) <= max(sizes[:500]) + 50
