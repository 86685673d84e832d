"""Tests the table of the life cycle."""

import pytest

from streams.decide.life_cycle import TIMEOUTS, TRANSITIONS, Event, next_state
from streams.decide.params import DecideParams
from streams.wire.models import RemediationState as State

STATES = [state for state in State if state is not State.STATE_UNSPECIFIED]


@pytest.mark.parametrize("state", [state for state in STATES if state is not State.CLOSED], ids=lambda s: s.name)
def test_every_state_has_a_timeout_of_the_settings(state: State) -> None:
    """No state is without an end."""
    assert getattr(DecideParams(), TIMEOUTS[state]) > 0
    assert next_state(state, Event.TIMEOUT) is not None


def test_every_state_reaches_its_end_by_timeouts_alone() -> None:
    """Without any answer a remediation ends CLOSED, or waits for a person."""
    for first in STATES:
        seen: list[State] = [first]
        while seen[-1] not in (State.CLOSED, State.ESCALATED):
            after = next_state(seen[-1], Event.TIMEOUT)
            assert after is not None
            assert after not in seen, seen
            seen.append(after)


def test_only_a_qualification_leads_to_a_restore_and_only_a_repair_to_a_qualification() -> None:
    """No other event leads to RESTORING or to VERIFYING."""
    assert {event for (_, event), after in TRANSITIONS.items() if after is State.RESTORING} == {Event.QUALIFY}
    assert {before for (before, _), after in TRANSITIONS.items() if after is State.RESTORING} == {State.VERIFYING}
    assert {(before, event) for (before, event), after in TRANSITIONS.items() if after is State.VERIFYING} == {
        *((before, Event.REPAIRED) for before, event in TRANSITIONS if event is Event.REPAIRED),
        (State.RESTORING, Event.DISQUALIFY),
    }


def test_an_event_that_is_not_in_the_table_has_no_effect() -> None:
    """For example an acceptance of a shadow decision."""
    assert next_state(State.SHADOW, Event.ACCEPT) is None
    assert next_state(State.CLOSED, Event.APPROVE) is None
    assert {state for state, _ in TRANSITIONS} == set(STATES)


def test_a_person_can_end_every_state() -> None:
    """By `railsight remediations close`; a target that is out of service also by `returned`."""
    assert {state for state in STATES if next_state(state, Event.CLOSE) is State.CLOSED} == {*STATES} - {State.CLOSED}
    out = (State.ACCEPTED, State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING, State.ESCALATED)
    assert {next_state(state, Event.RETURNED) for state in out} == {State.PROBATION}


def test_a_person_can_reject_what_no_automation_has_accepted() -> None:
    """Every such state ends DENIED; ACCEPTED and what follows needs `close` or `returned`."""
    before = {state for (state, event), after in TRANSITIONS.items() if event is Event.REJECT and after is State.DENIED}
    begun = {State.ACCEPTED, State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING, State.PROBATION}
    assert before == {*STATES} - begun - {State.CLOSED, State.ESCALATED}
