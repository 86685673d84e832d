"""Tests that every action passes the same guards, and that its attempts, answers and states have an end."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from streams.decide.params import DecideParams
from streams.decide.policy import load_policy
from streams.decide.stage import Decide
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlKind,
    Coverage,
    Event,
    EventKind,
    Message,
    Outcome,
    Remediation,
    RemediationResult,
    Severity,
    Verdict,
)
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
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
    sound,
)
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory, job, topology

PORT = "p1-l0/u0"
LINK = next(link.id for link in TOP.links.values() if ("p1-l0", "u0") in (link.lower, link.upper))
DAY = 86_400.0


def control(kind: ControlKind, subject: str, t: float = 12) -> Control:
    return Control(f"{kind.name}/{subject}/{t}", kind, subject, at(t), actor="anna", endless=True, arrived_at_ns=at(t))


def drained(stage: Decide, t: float = 10) -> Remediation:
    """Return the drain of a link that automation carried out."""
    (drain,) = decisions(stage, finding(PORT, t=t - 10), t=t)
    assert [one.state for one in carry_out(stage, drain)][-1] is State.DRAINED
    return drain


def orders(outputs: Sequence[Remediation], action: Action = Action.REPAIR_LINK) -> list[Remediation]:
    return [one for one in outputs if one.action is action]


def advance(stage: Decide, t: float) -> list[Remediation]:
    return remediations(stage.advance_watermark(at(t)))


MISCABLED = finding(PORT, Condition.LINK_MISCABLED, t=11)
WEAK = replace(finding(PORT), revision=2, confidence=0.6)
LIMITS: dict[str, tuple[Message, State]] = {
    "maintenance": (control(ControlKind.MAINTENANCE, "p1-l0"), State.DENIED),
    "exclusion": (control(ControlKind.EXCLUDE, LINK), State.DENIED),
    "kill switch": (control(ControlKind.KILL_SWITCH, ""), State.DENIED),
    "miscabling": (MISCABLED, State.DENIED),
    "unknown evidence": (replace(WEAK, confidence=None), State.DENIED),
    "weak evidence": (WEAK, State.WAITING),
    "one-sided evidence": (replace(finding(PORT), revision=2, coverage=Coverage(1, 2)), State.WAITING),
}
"""Limit -> the message that sets it, and the state of the repair's order then."""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_repair_passes_the_guards_of_every_action(limit: str) -> None:
    """They apply when it is ordered, and when automation accepts it in the same batch."""
    message, state = LIMITS[limit]
    stage = deciding()
    drained(stage)
    stage.process([message])
    (order,) = orders(advance(stage, 13))
    assert order.state is state
    assert orders(carry_out(stage, order)) == [], "an order that is not approved has no result"

    stage = deciding()
    drained(stage)
    (order,) = orders(advance(stage, 11))
    assert order.state is State.APPROVED
    accepted = RemediationResult(order.id, Outcome.ACCEPTED, actor="netbot")
    found = orders(remediations([*stage.process([message, accepted]), *stage.advance_watermark(at(12))]))
    assert [one.state for one in found if one.id == order.id] == [State.DENIED]


@pytest.mark.parametrize("is_ordered", [False, True], ids=["before the order", "before its acceptance"])
@pytest.mark.parametrize("limit", ["mode", "freshness"])
def test_a_repair_needs_the_mode_and_fresh_evidence(limit: str, is_ordered: bool) -> None:
    """The mode was changed while the link was drained, or the ends of the link were not read for a day."""
    stage = deciding(freshness_s=30)
    drained(stage)
    order = orders(advance(stage, 11))[0] if is_ordered else None
    following = deciding("shadow" if limit == "mode" else "act", loaded=False, states=False, freshness_s=30)
    following.restore(stage.snapshot())
    following.recover([])
    found = orders(advance(following, 12 if limit == "mode" else DAY))
    if order is not None:
        assert [(one.id, one.state, one.reason) for one in found] == [(order.id, State.DENIED, f"revoked by {limit}")]
        assert carry_out(following, order) == []
    else:
        denied = [] if limit == "mode" else [(State.DENIED, limit)]
        assert [(one.state, one.constraint) for one in found] == denied


def test_a_person_approves_the_repair_that_waits() -> None:
    """The approval of the drain does not include it."""
    stage = deciding()
    (waiting,) = decisions(stage, finding(PORT, confidence=0.6))
    (drain,) = remediations(stage.process([control(ControlKind.APPROVE, waiting.id)]))
    carry_out(stage, drain)
    (order,) = orders(advance(stage, 13))
    assert order.state is State.WAITING
    (approved,) = remediations(stage.process([control(ControlKind.APPROVE, order.id, 13)]))
    assert (approved.state, approved.approved_by) == (State.APPROVED, "anna")
    assert [one.state for one in carry_out(stage, approved)][-1] is State.VERIFYING


def test_a_rejected_repair_ends_and_is_not_ordered_again() -> None:
    """`reject` of an order printed success and did nothing."""
    stage = deciding()
    drain = drained(stage)
    (order,) = orders(advance(stage, 11))
    (rejected,) = remediations(stage.process([control(ControlKind.REJECT, order.id)]))
    assert (rejected.id, rejected.state, rejected.constraint) == (order.id, State.DENIED, "rejected")
    assert carry_out(stage, order) == []
    assert advance(stage, 3 * DAY) == []
    assert open_states(stage) == {drain.id: State.DRAINED}


def restoring(stage: Decide) -> tuple[Remediation, Remediation]:
    """Return the drain of a repaired link that qualified, and its restore at 1011 s."""
    drain = drained(stage)
    (order,) = orders(advance(stage, 11))
    carry_out(stage, order)
    stage.process(sound(LINK, 0, 1010))
    (restore,) = orders(advance(stage, 1011), Action.RESTORE_LINK)
    return drain, restore


def test_a_rejected_restore_escalates_and_is_not_ordered_again() -> None:
    """A person who reports the repair once more lets the link qualify again."""
    stage = deciding()
    drain, restore = restoring(stage)
    found = remediations(stage.process([control(ControlKind.REJECT, restore.id, 1012)]))
    assert [(one.id, one.state) for one in found] == [(restore.id, State.DENIED), (drain.id, State.ESCALATED)]
    stage.process(sound(LINK, 1010, 9000))
    assert orders(advance(stage, 9000), Action.RESTORE_LINK) == []
    stage.process([control(ControlKind.REPAIRED, drain.id, 9001), *sound(LINK, 9000, 10_000)])
    assert [one.state for one in orders(advance(stage, 10_001), Action.RESTORE_LINK)] == [State.APPROVED]


NOT_ACCEPTED: dict[str, Callable[[Decide], Remediation]] = {
    "waiting": lambda stage: decisions(stage, finding(PORT, confidence=0.6))[0],
    "approved": lambda stage: decisions(stage, finding(PORT))[0],
    "denied": lambda stage: decisions(stage, MISCABLED, finding(PORT))[-1],
    "expired": lambda stage: (decisions(stage, finding(PORT)), advance(stage, 400))[1][0],
    "failed": lambda stage: carry_out(stage, decisions(stage, finding(PORT))[0], Outcome.FAILED)[-1],
}


@pytest.mark.parametrize("name", NOT_ACCEPTED)
def test_a_rejection_holds_for_all_that_no_automation_accepted(name: str) -> None:
    """Also when its guard permits it, its severity changes and returns, and its retention ends."""
    stage = deciding(**NO_CAPS)
    known = NOT_ACCEPTED[name](stage)
    assert known.state.name.lower() == name
    stage.process([control(ControlKind.REJECT, known.id, 401)])
    assert open_states(stage)[known.id] is State.DENIED
    if name == "denied":
        stage.process([ended(MISCABLED, final=True)])
    for t in (2000, 4000, DAY, 2 * DAY):
        assert [one for one in advance(stage, t) if one.state in (State.APPROVED, State.WAITING)] == []


def failing(stage: Decide, t: float, until: float, step: float, fail: bool = True) -> list[float]:
    """Return the times at which repairs of the drained link are ordered, each of which fails at once."""
    times = []
    while t < until:
        for order in [one for one in orders(advance(stage, t)) if one.state is State.APPROVED]:
            times.append(t)
            if fail:
                carry_out(stage, order, Outcome.FAILED)
        t += step
    return times


def test_a_failing_repair_has_an_end() -> None:
    """It was ordered 120 times an hour for four days; now three times with growing pauses."""
    stage = deciding()
    drain = drained(stage)
    times = failing(stage, 11, 4 * 3600, 30)
    pauses = [after - before for before, after in pairwise(times)]
    assert len(times) == 3 and pauses == sorted(pauses) and pauses[0] >= 60 and pauses[1] >= 120
    assert open_states(stage) == {drain.id: State.ESCALATED}
    stage.process([control(ControlKind.REPAIRED, drain.id, 4 * 3600)])
    assert open_states(stage) == {drain.id: State.VERIFYING}


@pytest.mark.parametrize("condition", [Condition.LINK_FLAP, Condition.LINK_DOWN])
def test_a_failing_isolation_has_an_end(condition: Condition) -> None:
    """Three attempts with growing pauses, also without a cool-down; then ESCALATED."""
    stage = deciding(cool_down_s=0, **NO_CAPS)
    times, t = [], 10.0
    found = decisions(stage, finding(PORT, condition), t=t)
    while t < 4 * 3600:
        for one in [one for one in found if one.state is State.APPROVED]:
            times.append(t)
            carry_out(stage, one, Outcome.FAILED)
        t += 10
        found = advance(stage, t)
    assert len(times) == 3 and times[1] - times[0] >= 60 and times[2] - times[1] >= 120
    assert list(open_states(stage).values()) == [State.ESCALATED]


@pytest.mark.parametrize("closed_by", ["no answer", "person", "not qualified"])
def test_a_late_result_of_a_restore_counts(closed_by: str) -> None:
    """The link carries traffic; it was DRAINED for ever, and counted as lost."""
    stage = deciding()
    drain, restore = restoring(stage)
    accept(stage, restore)
    stage.process(sound(LINK, 1010, 1700))
    if closed_by == "person":
        stage.process([control(ControlKind.CLOSE, drain.id, 1012)])
        assert out_of_service(stage) == [LINK], "left out of service"
    else:
        advance(stage, 1701)
        if closed_by == "not qualified":
            stage.process([port_states("p1-l0", t=1701, u0=2)])
            advance(stage, 1800)
            assert open_states(stage)[drain.id] is State.VERIFYING
    found = remediations(stage.process([answer(restore)]))
    assert [(one.id, one.state) for one in found if one.id == drain.id] == [(drain.id, State.PROBATION)]
    assert out_of_service(stage) == []
    assert remediations(stage.process([answer(restore)])) == [], "once"


def repaired_again(stage: Decide) -> tuple[Remediation, Remediation, Remediation]:
    """Return a drain, its restore, which has no answer, and the repair that automation accepted after that."""
    drain, restore = restoring(stage)
    accept(stage, restore)
    stage.process([*sound(LINK, 1010, 1700), port_states("p1-l0", t=1701, u0=2)])
    t, found = 1701.0, advance(stage, 1701)
    while not (repair := [one for one in orders(found) if one.state is State.APPROVED]):
        t += 600
        found = advance(stage, t)
    accept(stage, repair[0])
    return drain, restore, repair[0]


@pytest.mark.parametrize("is_first", [True, False], ids=["before the repair's", "after the repair's"])
@pytest.mark.parametrize(
    ("outcome", "state"), [(Outcome.FAILED, State.PROBATION), (Outcome.DONE, State.VERIFYING)], ids=["failed", "done"]
)
def test_the_late_result_of_a_restore_counts_after_a_newer_repair(
    is_first: bool, outcome: Outcome, state: State
) -> None:
    """A failed repair changed nothing, so that the link is in service; after a repair that was done it must qualify."""
    stage = deciding()
    drain, restore, repair = repaired_again(stage)
    for one in (answer(restore), answer(repair, outcome))[:: 1 if is_first else -1]:
        assert remediations(stage.process([one])), "published"
    assert (open_states(stage)[drain.id], out_of_service(stage)) == (state, [LINK] if outcome is Outcome.DONE else [])
    assert remediations(stage.process([answer(restore), answer(repair, outcome)])) == [], "once"


def test_the_late_result_of_a_repair_counts_while_its_target_is_verified() -> None:
    """A person reported the repair meanwhile: only readings after the last repair prove anything."""
    stage = deciding()
    drain = drained(stage)
    (repair,) = orders(advance(stage, 11))
    accept(stage, repair)
    stage.process([control(ControlKind.REPAIRED, drain.id, 12)])
    advance(stage, 500)
    found = remediations(stage.process([answer(repair)]))
    assert [(one.id, one.state) for one in found] == [(drain.id, State.VERIFYING)]
    stage.process(sound(LINK, 12, 1300))
    assert advance(stage, 1300) == [], "it qualifies 900 s after the second repair"
    stage.process(sound(LINK, 1300, 1500))
    assert State.RESTORING in [one.state for one in advance(stage, 1500)]


@pytest.mark.parametrize("end", [ControlKind.CLOSE, ControlKind.RETURNED])
def test_a_late_result_of_a_drain_counts_after_a_person_ended_it(end: ControlKind) -> None:
    """Automation does not read the end, so it goes on."""
    stage = deciding()
    (drain,) = decisions(stage, finding(PORT))
    accept(stage, drain)
    stage.process([control(end, drain.id)])
    found = remediations(stage.process([answer(drain)]))
    assert [(one.id, one.state) for one in found] == [(drain.id, State.DRAINED)]
    assert out_of_service(stage) == [LINK]


def test_a_failure_after_a_person_closed_it_returns_the_target() -> None:
    """The drain changed nothing."""
    stage = deciding()
    (drain,) = decisions(stage, finding(PORT))
    accept(stage, drain)
    stage.process([control(ControlKind.CLOSE, drain.id)])
    assert out_of_service(stage) == [LINK]
    stage.process([answer(drain, Outcome.FAILED)])
    assert (out_of_service(stage), open_states(stage)) == ([], {})


@pytest.mark.parametrize("by", ["id", "target"])
def test_a_closed_target_counts_as_out_of_service_until_it_is_returned(by: str) -> None:
    """Across a restart and a lost state; the link is on probation then."""
    stage = deciding()
    (drain,) = decisions(stage, finding(PORT))
    published = [drain, *carry_out(stage, drain)]
    published += remediations(stage.process([control(ControlKind.CLOSE, drain.id)]))
    assert (published[-1].state, published[-1].constraint) == (State.CLOSED, "left-out")
    advance(stage, 3 * DAY)
    following, lost = deciding(states=False, loaded=False), deciding(loaded=False)
    following.restore(stage.snapshot())
    following.recover([])
    lost.recover(published)
    for own in (following, lost):
        assert out_of_service(own) == [LINK]
        own.process([control(ControlKind.RETURNED, drain.id if by == "id" else LINK, 3 * DAY)])
        assert (out_of_service(own), open_states(own)) == ([], {drain.id: State.PROBATION})


def test_a_host_on_which_a_job_starts_is_in_service() -> None:
    """A person resumed it in the scheduler; a job that ran before the cordon and still ends proves nothing."""
    fault = finding("p1-h1", Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL, cause=Cause.GPU_OFF_BUS)
    before = job("old", "p1-h1", "1970-01-02T00:00:00Z")
    stage = deciding(**NO_CAPS)
    stage.set_topology(topology(inventory(jobs=(before,))))
    (waiting,) = decisions(stage, fault)
    (cordon,) = remediations(stage.process([control(ControlKind.APPROVE, waiting.id)]))
    carry_out(stage, cordon)
    advance(stage, 60)
    assert open_states(stage)[cordon.id] is State.DRAINED
    after = job("new", "p1-h1", datetime.fromtimestamp(at(100) / 1e9, UTC).isoformat())
    stage.set_topology(topology(inventory(jobs=(before, after))))
    (returned,) = [one for one in advance(stage, 101) if one.id == cordon.id]
    assert (returned.state, "job new" in returned.reason) == (State.PROBATION, True)


def test_a_change_by_others_returns_the_target() -> None:
    """The automation reads the real state back; only its own report after its result counts."""
    stage = deciding()
    drain = drained(stage)
    changed = RemediationResult(drain.id, Outcome.EXTERNAL, actor="mallory", detail="the port is enabled")
    assert remediations(stage.process([changed])) == []
    (returned,) = remediations(stage.process([replace(changed, actor="netbot")]))
    assert (returned.state, returned.verdict) == (State.PROBATION, Verdict.APPROVED)
    assert out_of_service(stage) == []


def with_external(way: str) -> type[Decide]:
    """Return the stage with a policy for drains that others undo."""

    class Acting(Decide):
        def __init__(self, params: DecideParams) -> None:
            super().__init__(params, load_policy().model_copy(update={"external": {Action.DRAIN_LINK: way}}))

    return Acting


@pytest.mark.parametrize("way", ["end", "escalate", "repeat"])
def test_the_policy_decides_what_follows_a_change_by_others(way: str) -> None:
    """It ends on probation, waits for a person also when the link fails again, or is repeated after the cool-down."""
    stage = deciding(stage=with_external(way), **NO_CAPS)
    drain = drained(stage)
    for repetition in range(3):
        changed = RemediationResult(drain.id, Outcome.EXTERNAL, actor="netbot", detail="the port is enabled")
        found = remediations(stage.process([changed]))
        assert out_of_service(stage) == [] and found[0].id == drain.id
        if way == "end":
            assert open_states(stage) == {drain.id: State.PROBATION}
            return
        if way == "escalate" or repetition == 2:
            break
        assert [one.state for one in found] == [State.PROBATION, State.CLOSED, State.DENIED]
        assert found[-1].constraint == "cool-down"
        again = advance(stage, 10 + 601 * (repetition + 1))
        (drain,) = [one for one in again if one.state is State.APPROVED]
        carry_out(stage, drain)
    assert (found[-1].state, found[-1].verdict) == (State.ESCALATED, Verdict.NEEDS_APPROVAL)
    assert advance(stage, 2000) == [] and open_states(stage) == {drain.id: State.ESCALATED}
    approved = remediations(stage.process([control(ControlKind.APPROVE, drain.id, 2001)]))
    assert approved[-1].state is State.APPROVED


def test_readings_that_end_before_now_are_no_proof() -> None:
    """Readings ended while the link was repaired; the link was restored without one since then."""
    stage = deciding()
    drain = drained(stage)
    stage.process(sound(LINK, 0, 1000))
    (order,) = orders(advance(stage, 1001))
    carry_out(stage, order)
    assert orders(advance(stage, 2000), Action.RESTORE_LINK) == []
    stage.process(sound(LINK, 1000, 1950))
    assert [one.state for one in orders(advance(stage, 2001), Action.RESTORE_LINK)] == [State.APPROVED]
    assert open_states(stage)[drain.id] is State.RESTORING


@pytest.mark.parametrize("port", [PORT, "p1-h1"])
def test_the_readings_of_a_target_are_requested_while_it_is_out_of_service(port: str) -> None:
    """Both ends of a link, and of every link of a cordoned host; every hour, until it is in service again."""
    fault = Condition.LINK_FLAP if port == PORT else Condition.HOST_GPU_FAULT
    stage = deciding()
    (known,) = decisions(stage, finding(port, fault, severity=Severity.CRITICAL, cause=Cause.GPU_OFF_BUS))
    approval = remediations(stage.process([control(ControlKind.APPROVE, known.id)]))
    assert requests(stage.advance_watermark(at(13))) == set(), "not before it is carried out"
    carry_out(stage, (*approval, known)[0])
    links = [TOP.links[LINK]] if port == PORT else TOP.uplinks_of["p1-h1"]
    ends = {end for link in links for end in (link.lower, link.upper)}
    assert [requests(stage.advance_watermark(at(t))) for t in (14, 15, 3613, 3614)] == [ends, set(), set(), ends]
    stage.process([control(ControlKind.RETURNED, known.id, 3615)])
    assert requests(stage.advance_watermark(at(9000))) == set()


def requests(outputs: Sequence[Output]) -> set[tuple[str, str]]:
    events = [one.message for one in outputs if isinstance(one.message, Event) and one.message.kind is EventKind.WATCH]
    return {(one.device, one.port) for one in events}
