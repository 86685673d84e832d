"""Tests the table of the life cycle, and that docs/remediation.md shows it."""

from pathlib import Path

import pytest

from streams.decide.life_cycle import TIMEOUTS, TRANSITIONS, Event, next_state, table
from streams.decide.params import DecideParams
from streams.wire.models import RemediationState as State

DOCS = Path(__file__).parents[3] / "docs/remediation.md"
STATES = [state for state in State if state is not State.STATE_UNSPECIFIED]


def test_the_page_shows_the_table() -> None:
    """A transition that is added or removed changes docs/remediation.md as well."""
    shown = DOCS.read_text().split("<!-- life-cycle:begin -->\n")[1].split("\n<!-- life-cycle:end -->")[0]
    assert shown == table()


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
