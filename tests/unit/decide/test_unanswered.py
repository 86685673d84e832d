"""Tests what the ports of a link show of a drain that automation accepted and never answered."""

from dataclasses import replace
from typing import Any

import pytest

from streams.decide.fabric_view import LinkTraffic
from streams.decide.stage import Decide
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Message,
    Outcome,
    Remediation,
    Severity,
)
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
    state_of,
    traffic,
)
from tests.worlds.observations import at

BUSY, IDLE = 4e10, 1e6
LINK = "p1-l0/u0"


def accepted(stage: Decide, *before: Message) -> Remediation:
    """Return the drain of a link that automation accepted at 600 s, after the messages before it."""
    stage.process(before)
    (drain,) = decisions(stage, finding(LINK, t=590), t=600)
    assert [one.state for one in accept(stage, drain)] == [State.ACCEPTED]
    return drain


def link_id() -> str:
    return finding(LINK).subject.id


def states(stage: Decide, t: float, drain: Remediation) -> list[State]:
    """Return the states that the drain enters up to a time."""
    return [one.state for one in remediations(stage.advance_watermark(at(t))) if one.id == drain.id]


def is_counted(stage: Decide) -> bool:
    return link_id() in out_of_service(stage)


@pytest.mark.parametrize("device", ["p1-l0", "s1"])
def test_a_drain_with_an_end_that_is_administratively_down_counts_as_carried_out(device: str) -> None:
    """An end shows it: after the time for the answer it is DRAINED, and goes on to the repair and back to service."""
    stage = deciding()
    drain = accepted(stage)
    port = {"p1-l0": {"u0": 3}, "s1": {"p1_l0": 3}}[device]
    stage.process([port_states(device, 610, **port)])
    assert states(stage, 1199, drain) == [], "the answer may still come"
    found = remediations(stage.advance_watermark(at(1200)))
    assert [one.state for one in found if one.id == drain.id] == [State.NO_ANSWER, State.DRAINED]
    assert found[1].actor == "decide"
    assert found[1].reason.startswith(f"no answer, but {device}/{'u0' if device == 'p1-l0' else 'p1-l0'} is admin")
    (repair,) = [one for one in found if one.action is Action.REPAIR_LINK]
    assert stage.process([answer(drain, Outcome.FAILED)]) == [], "a late failure does not return it to service"
    assert [one.state for one in carry_out(stage, repair)][-1] is State.VERIFYING
    stage.process([port_states(device, 1210), *sound(drain.target.id, 1210, 2200)])
    _, restore = remediations(stage.advance_watermark(at(2200)))
    assert restore.action is Action.RESTORE_LINK
    assert [one.state for one in carry_out(stage, restore)][-1] is State.PROBATION


@pytest.mark.parametrize("minute", [560, 600])
def test_a_drain_after_which_the_traffic_stopped_counts_as_carried_out(minute: int) -> None:
    """By routing policy: the ports stay up, and two minutes without traffic follow the traffic before."""
    stage = deciding()
    drain = accepted(stage, *traffic(link_id(), minute - 300, minute, BUSY))
    stage.process(traffic(link_id(), minute, 780, IDLE))
    assert states(stage, 1200, drain) == [State.NO_ANSWER, State.DRAINED]
    assert is_counted(stage)


def test_a_link_that_carries_on_after_the_deadline_is_released_and_drained_by_the_next_attempt() -> None:
    """Both ends carried traffic for 900 s after the answer was due: FAILED, counted until then; then the cool-down."""
    stage = deciding()
    drain = accepted(stage, *traffic(link_id(), 300, 600, BUSY))
    stage.process(traffic(link_id(), 600, 2040, BUSY))
    assert states(stage, 2099, drain) == [State.NO_ANSWER]
    assert is_counted(stage), "840 s"
    stage.process(traffic(link_id(), 2040, 2100, BUSY))
    (failed,) = remediations(stage.advance_watermark(at(2100)))
    assert (failed.id, failed.state, failed.actor) == (drain.id, State.FAILED, "decide")
    assert failed.reason.startswith("not carried out: both ends are up and carried traffic for 900 s")
    assert not is_counted(stage)
    assert remediations(stage.advance_watermark(at(2699))) == [], "nothing shortens the cool-down"
    closed, again = remediations(stage.advance_watermark(at(2711)))
    assert (closed.id, closed.state) == (drain.id, State.CLOSED)
    assert (again.action, again.state, again.attempt) == (Action.DRAIN_LINK, State.APPROVED, 2)


def gone(stage: Decide) -> None:
    """The source of one end is silent: its last states are not those of now."""
    stage.process([replace(port_states("s1", 1150), silent_since_ns=at(1100))])


UNKNOWN: dict[str, Any] = {
    "no counter of frames is read": ((), (None, None), None),
    "one end only": ((300, BUSY, BUSY), (BUSY, None), None),
    "traffic stopped in one direction": ((300, BUSY, BUSY), (BUSY, IDLE), None),
    "no traffic before": ((300, IDLE, IDLE), (IDLE, IDLE), None),
    "not read before": ((), (IDLE, IDLE), None),
    "traffic stopped before": ((120, BUSY, BUSY, 300, IDLE, IDLE), (IDLE, IDLE), None),
    "an end is not observed": ((300, BUSY, BUSY), (BUSY, BUSY), gone),
    "an end is down": (
        (300, BUSY, BUSY), (IDLE, IDLE), lambda stage: stage.process([port_states("p1-l0", 1150, u0=2)])
    ),
}  # fmt: skip
"""The begin and the rates of both ends of each part before the acceptance at 600 s; the rates after it; an event."""


@pytest.mark.parametrize(("before", "after", "change"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_the_ports_do_not_prove_stays_counted(before: Any, after: Any, change: Any) -> None:
    """NO_ANSWER for an hour, then a person; capacity counts the link as lost all the time."""
    stage = deciding()
    parts = [before[n : n + 3] for n in range(0, len(before), 3)]
    ends = [*(part[0] for part in parts[1:]), 600]
    earlier = [
        one for part, end in zip(parts, ends, strict=False) for one in traffic(link_id(), part[0], end, *part[1:])
    ]
    drain = accepted(stage, *earlier)
    stage.process(traffic(link_id(), 600, 4000, *after))
    if change:
        change(stage)
    assert states(stage, 1200, drain) == [State.NO_ANSWER]
    assert states(stage, 4799, drain) == []
    assert is_counted(stage)
    assert states(stage, 4800, drain) == [State.ESCALATED]
    assert is_counted(stage)


def test_a_gap_in_the_readings_proves_nothing() -> None:
    """Traffic for 900 s in all, but not in one run."""
    stage = deciding()
    drain = accepted(stage, *traffic(link_id(), 300, 600, BUSY))
    stage.process([*traffic(link_id(), 600, 1800, BUSY), *traffic(link_id(), 1860, 2460, BUSY)])
    assert states(stage, 2460, drain) == [State.NO_ANSWER]
    stage.process(traffic(link_id(), 2460, 2760, BUSY))
    assert states(stage, 2760, drain) == [State.FAILED]


def test_the_ports_decide_also_after_the_escalation_and_a_restart() -> None:
    """A person is asked after an hour; the state of the ports counts all the same when it is read."""
    stage = deciding()
    drain = accepted(stage, *traffic(link_id(), 300, 600, BUSY))
    assert states(stage, 1200, drain) == [State.NO_ANSWER]
    assert states(stage, 4800, drain) == [State.ESCALATED]
    stage.process(traffic(link_id(), 4800, 5400, BUSY))
    successor = deciding(states=False, loaded=False)
    successor.restore(stage.snapshot())
    assert successor.snapshot() == stage.snapshot()
    successor.set_topology(TOP)
    successor.recover([])
    successor.process(traffic(link_id(), 5400, 5700, BUSY))
    assert states(successor, 5700, drain) == [State.FAILED]
    with pytest.raises(Reject, match="not the traffic of links"):
        LinkTraffic(1).load([["p1-l0", 0]])


@pytest.mark.parametrize("when", ["failed", "escalated", "closed"])
def test_a_late_result_of_a_released_drain_counts_all_the_same(when: str) -> None:
    """The tool was only slow: DONE takes the link out of service again, whatever the state meanwhile."""
    stage = deciding(failed_s=60)
    drain = accepted(stage, *traffic(link_id(), 300, 600, BUSY))
    stage.process(traffic(link_id(), 600, 2100, BUSY))
    assert states(stage, 2100, drain) == [State.NO_ANSWER, State.FAILED]
    if when == "escalated":
        assert states(stage, 2160, drain) == [State.ESCALATED]
    if when == "closed":
        stage.process([ended(finding(LINK, t=590), final=True)])
        assert drain.id not in open_states(stage)
    assert stage.process([replace(answer(drain), actor="mallory")]) == []
    (late,) = remediations(stage.process([answer(drain)]))
    assert (late.id, late.state) == (drain.id, State.DRAINED)
    assert is_counted(stage)
    assert remediations(stage.process([answer(drain)])) == []
    (repair,) = remediations(stage.advance_watermark(at(2200)))
    assert repair.action is Action.REPAIR_LINK


@pytest.mark.parametrize("shown", ["out of service", "in service"])
def test_what_the_ports_showed_is_read_again_when_the_state_is_lost(shown: str) -> None:
    """After a release a late DONE counts; after the ports showed the drain a late FAILED does not."""
    rate, outcome = (BUSY, Outcome.DONE) if shown == "in service" else (IDLE, Outcome.FAILED)
    stage = deciding()
    stage.process(traffic(link_id(), 300, 600, BUSY))
    published = decisions(stage, finding(LINK, t=590), t=600)
    drain = published[0]
    published += accept(stage, drain)
    stage.process(traffic(link_id(), 600, 2100, rate))
    published += remediations(stage.advance_watermark(at(2100)))
    successor = deciding(loaded=False)
    successor.start_epoch(2)
    successor.recover(published)
    assert open_states(successor)[drain.id] is (State.FAILED if rate == BUSY else State.DRAINED)
    found = remediations(successor.process([answer(drain, outcome)]))
    assert [one.state for one in found] == ([State.DRAINED] if rate == BUSY else [])
    assert is_counted(successor)


def test_the_time_of_the_acceptance_is_read_again_when_the_state_is_lost() -> None:
    """An unanswered drain is concluded by the successor, also after its escalation."""
    stage = deciding()
    published = decisions(stage, finding(LINK, t=590), t=600)
    drain = published[0]
    published += accept(stage, drain)
    for t in (1200, 4800):
        published += remediations(stage.advance_watermark(at(t)))
    assert published[-1].state is State.ESCALATED
    successor = deciding(loaded=False)
    successor.start_epoch(2)
    successor.recover(published)
    successor.process([port_states("p1-l0", 4801, u0=3)])
    assert states(successor, 4801, drain) == [State.DRAINED]


def test_a_released_drain_ends_with_a_finding_that_is_over() -> None:
    """The link recovered meanwhile: nothing is drained for it again."""
    stage = deciding()
    drain = accepted(stage, *traffic(link_id(), 300, 600, BUSY))
    stage.process([ended(finding(LINK, t=590)), *traffic(link_id(), 600, 2100, BUSY)])
    assert states(stage, 2100, drain) == [State.NO_ANSWER, State.FAILED, State.CLOSED]
    assert remediations(stage.advance_watermark(at(9000))) == []


def test_a_failed_drain_is_not_tried_again_for_a_finding_that_is_over() -> None:
    """It resolved while automation tried; when it opens again under its id, it is decided again."""
    example = finding(LINK)
    stage = deciding()
    (drain,) = decisions(stage, example)
    accept(stage, drain)
    stage.process([ended(example)])
    stage.process([answer(drain, Outcome.FAILED)])
    found = remediations(stage.advance_watermark(at(700)))
    assert [(one.id, one.state) for one in found] == [(drain.id, State.CLOSED)]
    (again,) = decisions(stage, replace(example, revision=3), t=720)
    assert (again.state, again.attempt) == (State.APPROVED, 2)


def test_a_cordon_without_an_answer_stays_unknown() -> None:
    """No port shows a cordon: also with traffic it counts as out of service."""
    stage = deciding()
    (waiting,) = decisions(stage, finding("p1-h1", Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL))
    approval = Control("c", ControlKind.APPROVE, waiting.id, actor="anna", endless=True)
    (cordon,) = remediations(stage.process([approval]))
    accept(stage, cordon)
    for link in TOP.uplinks_of["p1-h1"]:
        stage.process(traffic(link.id, 0, 3600, BUSY))
    assert states(stage, 700, cordon) == [State.NO_ANSWER]
    assert states(stage, 4300, cordon) == [State.ESCALATED]
    assert "device:p1-h1" in out_of_service(stage)


def test_the_traffic_of_a_port_that_is_not_read_any_more_is_dropped() -> None:
    """After a day, and of a device that the inventory does not have."""
    stage = deciding()
    stage.process([readings("p1-l0", "u0", 0, 60, bps=BUSY), readings("other", "u0", 80_000, 80_060, bps=BUSY)])
    stage.advance_watermark(at(3700))
    assert [row[0] for row in state_of(stage)["traffic"]] == ["p1-l0"]
    stage.advance_watermark(at(90_000))
    assert state_of(stage)["traffic"] == []
