"""Remediations as text: one line, and the guard that binds with the condition that would satisfy it."""

from dataclasses import replace

import pytest

from streams.decide.guards import GUARDS
from streams.decide.life_cycle import Event, next_state
from streams.report.render import (
    WAYS,
    explanation,
    is_rejectable,
    is_repairable,
    is_waiting,
    remediation_line,
)
from streams.wire.models import Action, Remediation, RemediationState, Subject, Verdict

AT = 1_790_000_000_000_000_000
DENIED = Remediation(
    "0123456789abcdef", 7, ("f1",), Action.DRAIN_LINK, Verdict.DENIED, Subject("link:a/1--b/1"),
    "it flaps (2nd link/flap in 28 days)", "surviving-capacity", 0.75, 0.5, AT, AT + 10**9, 0.5,
    state=RemediationState.DENIED, attempt=2, actor="decide", guard=8,
)  # fmt: skip


def test_one_line_has_the_state_the_target_and_the_guard() -> None:
    """It contains the words that an operator searches for, and the numbers of the guard."""
    line = remediation_line(DENIED)
    assert line.startswith("0123456789ab  ")
    assert "DENIED" in line and "DRAIN_LINK" in line
    assert line.endswith("link:a/1--b/1  surviving-capacity (guard 8, observed 0.5, limit 0.75)")


def test_an_explanation_has_the_guard_and_its_condition_and_the_history() -> None:
    """The last revision binds; the history has each revision with its actor."""
    first = replace(DENIED, revision=3, state=RemediationState.PROPOSED, decided_at_ns=AT - 60 * 10**9, actor="decide")
    lines = list(explanation([first, DENIED]))
    assert lines[0] == "DRAIN_LINK link:a/1--b/1: DENIED"
    assert "  guard        surviving-capacity (guard 8, observed 0.5, limit 0.75)" in lines
    assert f"  passes with  {WAYS['surviving-capacity']}" in lines
    assert "PROPOSED  by decide" in lines[-2] and "+1m00s  DENIED  by decide" in lines[-1]


def test_one_that_waits_names_the_command() -> None:
    """The id is short enough to type."""
    waiting = replace(DENIED, state=RemediationState.WAITING, verdict=Verdict.NEEDS_APPROVAL)
    assert "  approve      railsight approve 0123456789ab" in list(explanation([waiting]))


def test_every_constraint_of_the_guards_has_a_condition() -> None:
    """The constants in the code of the guards are all explained."""
    names = {
        constant
        for guard in GUARDS
        for constant in guard.__code__.co_consts
        if isinstance(constant, str) and constant in WAYS
    }
    assert {"kill-switch", "mode", "maintenance", "exclusion", "confidence", "freshness", "inventory"} <= names
    assert {"hourly rate", "cool-down", "job", "one-sided evidence", "cabling"} <= names


STATES = [
    (RemediationState.WAITING, True, True, False),
    (RemediationState.EXPIRED, True, True, False),
    (RemediationState.ESCALATED, True, True, True),
    (RemediationState.APPROVED, False, True, False),
    (RemediationState.DENIED, False, True, False),
    (RemediationState.FAILED, False, True, False),
    (RemediationState.SHADOW, False, True, False),
    (RemediationState.DRAINED, False, False, True),
    (RemediationState.NO_ANSWER, False, False, True),
    (RemediationState.PROBATION, False, False, False),
    (RemediationState.CLOSED, False, False, False),
]


@pytest.mark.parametrize(("state", "waiting", "rejectable", "repairable"), STATES)
def test_which_answers_a_state_accepts(
    state: RemediationState, waiting: bool, rejectable: bool, repairable: bool
) -> None:
    """An approval only where a person is awaited, a repair only where a target may be out of service.

    A rejection wherever `decide` takes one: a failed or denied attempt is not made again.
    """
    one = replace(DENIED, state=state)
    taken = next_state(state, Event.REJECT) or next_state(state, Event.TAKE_OVER)
    assert rejectable is bool(taken)
    assert (is_waiting(one), is_rejectable(one), is_repairable(one)) == (waiting, rejectable, repairable)
