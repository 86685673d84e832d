"""Tests what the demo prints of a remediation, and the command with which a person answers it."""

from dataclasses import replace

import pytest

from lab.demo.acting import answer_lines, headline, outcome, shown
from streams.wire.models import Action, Endpoint, Remediation, Subject, Verdict
from streams.wire.models import RemediationState as State

LINK = Subject("link:leaf1/e1--spine1/e1", Endpoint("leaf1", "e1"), Endpoint("spine1", "e1"))
WAITING = Remediation(
    "ab" * 16, 1, ("f1",), Action.DRAIN_LINK, Verdict.NEEDS_APPROVAL, LINK, "it flaps", "confidence", 0.8, 0.6,
    decided_at_ns=1, state=State.WAITING, guard=5,
)  # fmt: skip


def test_a_line_names_target_state_guard_and_values() -> None:
    """The reason follows; a remediation that is over names no guard."""
    assert headline(WAITING) == "abababababab DRAIN_LINK leaf1/e1 -- spine1/e1"
    assert outcome(WAITING) == "WAITING: guard 5 confidence (observed 0.6, limit 0.8); it flaps"
    assert outcome(replace(WAITING, state=State.CLOSED)) == "CLOSED: it flaps"


@pytest.mark.parametrize(
    ("state", "verdict", "answer"),
    [
        (State.WAITING, Verdict.NEEDS_APPROVAL, "approve"),
        (State.ESCALATED, Verdict.NEEDS_APPROVAL, "approve"),
        (State.ESCALATED, Verdict.APPROVED, "repaired"),
        (State.DRAINED, Verdict.APPROVED, None),
    ],
)
def test_what_waits_for_a_person_shows_the_command(state: State, verdict: Verdict, answer: str | None) -> None:
    """A third relapse waits for an approval; what may be out of service waits for its repair."""
    lines = answer_lines(replace(WAITING, state=state, verdict=verdict), "127.0.0.1:29092")
    assert (lines[-1].split()[1:] if lines else None) == (
        [answer, "ab" * 6, "--bootstrap", "127.0.0.1:29092"] if answer else None
    )


def test_what_a_person_can_answer_is_on_top() -> None:
    """Then what is denied, then the newest, closed ones last; observations are not shown."""
    observed = replace(WAITING, id="00", action=Action.OBSERVE, state=State.APPROVED)
    ones = [
        replace(WAITING, id=identity, state=state, decided_at_ns=at)
        for identity, state, at in (
            ("closed", State.CLOSED, 9), ("drained", State.DRAINED, 8), ("denied", State.DENIED, 2),
            ("escalated", State.ESCALATED, 1), ("waiting", State.WAITING, 1),
        )
    ]  # fmt: skip
    assert [one.id for one in shown([observed, *ones])] == ["waiting", "escalated", "denied", "drained", "closed"]
