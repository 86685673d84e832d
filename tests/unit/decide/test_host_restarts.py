"""Tests the restart of a cordoned host: ordered by the shipped policy, limited by the guards, and verified."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from streams.decide.stage import Decide
from streams.fabric.topology import Topology
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlKind,
    Finding,
    Outcome,
    Remediation,
    Severity,
    Verdict,
)
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import (
    TOP,
    Scheduled,
    accept,
    answer,
    carry_out,
    deciding,
    decisions,
    ended,
    finding,
    open_states,
    out_of_service,
    remediations,
    sound,
)
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory, job, topology

FAULT = finding("p1-h1", Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL, cause=Cause.GPU_OFF_BUS)


def jobs_on(*hosts: str) -> Topology:
    """Return the fabric with a job on each of these hosts, so that jobs are known."""
    start = datetime.fromtimestamp(at(0) / 1e9, UTC).isoformat()
    return topology(inventory(jobs=[job("llm", host, start) for host in hosts]))


def with_jobs(*hosts: str, **changes: Any) -> Decide:
    """Return the stage of such a fabric."""
    stage = deciding(stage=Scheduled, **changes)
    stage.set_topology(jobs_on(*hosts))
    return stage


def following(stage: Decide, host: str, *, has_snapshot: bool) -> Decide:
    """Return the next owner of the stage, with its snapshot or without any state."""
    successor = with_jobs(host, loaded=False)
    successor.start_epoch(2)
    if has_snapshot:
        successor.restore(stage.snapshot())
        successor.set_topology(jobs_on(host))
    return successor


def of(found: Sequence[Remediation], action: Action) -> list[Remediation]:
    return [one for one in found if one.action is action]


def cordoned(stage: Decide, fault: Finding = FAULT) -> Remediation:
    """Return the cordon of a host that automation carried out at 10 s; a person approves it where that is needed."""
    (cordon,) = decisions(stage, fault)
    assert cordon.action is Action.CORDON_HOST
    if cordon.state is State.WAITING:
        (cordon,) = person(stage, ControlKind.APPROVE, cordon)
    assert [one.state for one in carry_out(stage, cordon)] == [State.ACCEPTED, State.DRAINED]
    assert remediations(stage.advance_watermark(at(1799))) == []
    return cordon


def person(stage: Decide, kind: ControlKind, record: Remediation) -> list[Remediation]:
    control = Control(f"{kind.name}/{record.id}", kind, record.id, actor="anna", endless=True)
    return remediations(stage.process([control]))


def restart(stage: Decide) -> Remediation:
    """Return the restart that the policy begins after half an hour."""
    (order,) = remediations(stage.advance_watermark(at(1800)))
    assert order.action is Action.REBOOT_HOST
    return order


def sound_links(stage: Decide, begin: float, end: float) -> None:
    for link in TOP.uplinks_of["p1-h1"]:
        stage.process(sound(link.id, begin, end))


def test_a_cordoned_host_is_restarted_verified_and_uncordoned() -> None:
    """The whole way: cordon, restart, proof, uncordon, probation, closed; the host counts as isolated until then."""
    stage = with_jobs("p2-h2")
    cordon = cordoned(stage)
    order = restart(stage)
    assert (order.state, order.verdict, order.target.id) == (State.APPROVED, Verdict.APPROVED, "device:p1-h1")
    assert order.finding_ids == cordon.finding_ids
    done = carry_out(stage, order)
    assert [(one.id == cordon.id, one.state) for one in done] == [
        (False, State.ACCEPTED), (False, State.CLOSED), (True, State.VERIFYING),
    ]  # fmt: skip
    stage.process([ended(FAULT, final=True)])
    assert remediations(stage.advance_watermark(at(2600))) == [], "no proof yet"
    sound_links(stage, 1800, 2700)
    found = remediations(stage.advance_watermark(at(2700)))
    assert [(one.action, one.state) for one in found] == [
        (Action.CORDON_HOST, State.RESTORING), (Action.UNCORDON_HOST, State.APPROVED),
    ]  # fmt: skip
    assert out_of_service(stage) == ["device:p1-h1"]
    assert [one.state for one in carry_out(stage, found[1])][-1] is State.PROBATION
    assert out_of_service(stage) == []
    (closed,) = remediations(stage.advance_watermark(at(6300)))
    assert (closed.id, closed.state) == (cordon.id, State.CLOSED)


def test_a_restart_of_a_host_with_a_job_waits_for_a_person() -> None:
    """The approval of the cordon is none of the restart; guard 13 names the job, and a person approves."""
    stage = with_jobs("p1-h1")
    cordon = cordoned(stage)
    assert cordon.approved_by == "anna"
    order = restart(stage)
    assert (order.state, order.verdict, order.guard, order.constraint, order.approved_by) == (
        State.WAITING, Verdict.NEEDS_APPROVAL, 13, "job", "",
    )  # fmt: skip
    assert order.reason.endswith("; llm")
    assert accept(stage, order) == [], "automation cannot accept what waits"
    assert remediations(stage.advance_watermark(at(80_000))) == []
    (approved,) = person(stage, ControlKind.APPROVE, order)
    assert (approved.id, approved.state, approved.approved_by) == (order.id, State.APPROVED, "anna")
    assert person(stage, ControlKind.APPROVE, order) == []
    assert [one.state for one in carry_out(stage, order)][-1] is State.VERIFYING


def test_a_restart_that_waits_is_approved_when_the_job_ends() -> None:
    """Running jobs end on a cordoned host; a job that begins revokes the approval again."""
    stage = with_jobs("p1-h1")
    cordoned(stage)
    order = restart(stage)
    stage.set_topology(jobs_on("p2-h2"))
    (approved,) = remediations(stage.advance_watermark(at(1900)))
    assert (approved.id, approved.state, approved.constraint) == (order.id, State.APPROVED, "")
    stage.set_topology(jobs_on("p1-h1"))
    (revoked,) = accept(stage, order)
    assert (revoked.id, revoked.state, revoked.verdict) == (order.id, State.DENIED, Verdict.REVOKED)
    (again,) = remediations(stage.advance_watermark(at(1901)))
    assert (again.state, again.attempt, again.id != order.id) == (State.WAITING, 2, True)


def test_a_person_rejects_a_restart() -> None:
    """No other is ordered; the cordon stays until a person reports the repair."""
    stage = with_jobs("p1-h1")
    cordon = cordoned(stage)
    order = restart(stage)
    assert [(one.id, one.state, one.actor) for one in person(stage, ControlKind.REJECT, order)] == [
        (order.id, State.DENIED, "anna")
    ]
    assert remediations(stage.advance_watermark(at(9000))) == []
    assert open_states(stage)[cordon.id] is State.DRAINED
    assert [one.state for one in person(stage, ControlKind.REPAIRED, cordon)] == [State.VERIFYING]


@pytest.mark.parametrize(
    ("control", "guard"),
    [
        (Control("stop", ControlKind.KILL_SWITCH), 1),
        (Control("m", ControlKind.MAINTENANCE, "p1-h1", endless=True, actor="anna"), 3),
        (Control("x", ControlKind.EXCLUDE, "p1-h1", endless=True, actor="anna"), 4),
    ],
)
@pytest.mark.parametrize("when", ["before", "ordered"])
def test_controls_stop_a_restart(control: Control, guard: int, when: str) -> None:
    """Before it is ordered, and before automation accepts; without the control it is ordered."""
    stage = with_jobs("p2-h2")
    cordoned(stage)
    if when == "before":
        stage.process([control])
        (denied,) = remediations(stage.advance_watermark(at(1800)))
        assert (denied.action, denied.state, denied.verdict, denied.guard) == (
            Action.REBOOT_HOST, State.DENIED, Verdict.DENIED, guard,
        )  # fmt: skip
        assert remediations(stage.advance_watermark(at(1900))) == [], "published once"
        assert carry_out(stage, denied) == [], "a denied restart has no result"
    else:
        order = restart(stage)
        found = remediations(stage.process([control]))
        assert [(one.id, one.state, one.verdict) for one in found] == [(order.id, State.DENIED, Verdict.REVOKED)]
        assert carry_out(stage, order) == [], "a revoked restart has no result"
        assert remediations(stage.advance_watermark(at(2000))) == []
    stage.process([Control(control.id, ControlKind.KIND_UNSPECIFIED)])
    (order,) = remediations(stage.advance_watermark(at(3000)))
    assert (order.action, order.state) == (Action.REBOOT_HOST, State.APPROVED)


def test_a_finding_that_ends_withdraws_the_restart() -> None:
    """The GPU is back: a person verifies the host."""
    stage = with_jobs("p2-h2")
    cordoned(stage)
    order = restart(stage)
    stage.process([ended(FAULT)])
    (closed,) = remediations(stage.advance_watermark(at(1801)))
    assert (closed.id, closed.state, closed.reason) == (order.id, State.DENIED, "not due any more")


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DONE])
def test_after_the_last_restart_without_effect_a_person_decides(outcome: Outcome) -> None:
    """The shipped ladder has one: it failed, or the fault is still there after the time of the proof."""
    stage = with_jobs("p2-h2")
    cordon = cordoned(stage)
    carry_out(stage, restart(stage), outcome)
    found = remediations(stage.advance_watermark(at(1801 if outcome is Outcome.FAILED else 5400)))
    assert found[-1].id == cordon.id
    assert (found[-1].state, found[-1].reason) == (
        State.ESCALATED, "the restart did not help; no other step is known",
    )  # fmt: skip
    assert of(remediations(stage.advance_watermark(at(9000))), Action.REBOOT_HOST) == []
    assert out_of_service(stage) == ["device:p1-h1"]
    assert [one.state for one in person(stage, ControlKind.REPAIRED, cordon)] == [State.VERIFYING]


def test_a_restart_that_is_not_accepted_is_published_again_and_one_without_an_answer_is_not() -> None:
    """The same id with a later expiry; a restart that automation began is never ordered twice."""
    stage = with_jobs("p2-h2")
    cordoned(stage)
    order = restart(stage)
    (repeated,) = remediations(stage.advance_watermark(at(2100)))
    assert (repeated.id, repeated.expires_at_ns) == (order.id, at(2400))
    accept(stage, order)
    assert remediations(stage.advance_watermark(at(100_000))) == []
    assert [one.state for one in remediations(stage.process([replace(answer(order), actor="mallory")]))] == []
    assert [one.state for one in remediations(stage.process([answer(order)]))][-1] is State.VERIFYING


def test_another_fault_of_a_gpu_is_not_restarted_for() -> None:
    """The shipped policy restarts only for a GPU that is off the bus."""
    stage = with_jobs("p2-h2")
    cordoned(stage, replace(FAULT, cause=Cause.GPU_MEMORY))
    assert remediations(stage.advance_watermark(at(80_000))) == []


@pytest.mark.parametrize("has_snapshot", [True, False])
@pytest.mark.parametrize("by_person", [True, False])
def test_a_successor_knows_what_was_denied(has_snapshot: bool, by_person: bool) -> None:
    """A person is not asked again for a restart that was rejected, and a denial is not published again."""
    stage = with_jobs("p1-h1" if by_person else "p2-h2")
    published = decisions(stage, FAULT)
    if by_person:
        published += person(stage, ControlKind.APPROVE, published[-1])
    published += carry_out(stage, published[-1])
    stage.advance_watermark(at(1799))
    stop = Control("stop", ControlKind.KILL_SWITCH)
    if by_person:
        published.append(restart(stage))
        published += person(stage, ControlKind.REJECT, published[-1])
    else:
        stage.process([stop])
        published.append(restart(stage))
    assert published[-1].state is State.DENIED
    successor = following(stage, "p1-h1" if by_person else "p2-h2", has_snapshot=has_snapshot)
    successor.recover([*published, *([] if by_person else [stop])])
    successor.process([replace(FAULT, revision=2)])
    assert of(remediations(successor.advance_watermark(at(2000))), Action.REBOOT_HOST) == []


@pytest.mark.parametrize("when", ["waiting", "approved", "accepted", "failed"])
@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_successor_goes_on_with_the_restart(when: str, has_snapshot: bool) -> None:
    """From the snapshot, or from the published revisions where it is lost; an effect is counted once."""
    host = "p1-h1" if when == "waiting" else "p2-h2"
    stage = with_jobs(host)
    published = decisions(stage, FAULT)
    cordon = published[-1]
    if cordon.state is State.WAITING:
        published += person(stage, ControlKind.APPROVE, cordon)
    published += carry_out(stage, cordon)
    stage.advance_watermark(at(1799))
    order = restart(stage)
    published.append(order)
    if when == "accepted":
        published += accept(stage, order)
    if when == "failed":
        published += carry_out(stage, order, Outcome.FAILED)
    successor = following(stage, host, has_snapshot=has_snapshot)
    successor.recover(published)
    successor.process([replace(FAULT, revision=2)])
    found = remediations(successor.advance_watermark(at(1801)))
    assert of(found, Action.REBOOT_HOST) == [], "nothing is ordered again"
    if when == "failed":
        assert [(one.id, one.state) for one in found] == [(cordon.id, State.ESCALATED)]
        return
    if when == "waiting":
        (order,) = person(successor, ControlKind.APPROVE, order)
        assert order.state is State.APPROVED
    found = remediations(successor.process([answer(order)])) if when == "accepted" else carry_out(successor, order)
    assert (found[-1].id, found[-1].state) == (cordon.id, State.VERIFYING)
