"""Tests which remediations have an alert, under which name, and for how long."""

import pytest

from streams.notify.alert import Alert
from streams.notify.notifier import Notifier
from streams.wire.models import Outcome, Remediation, RemediationResult, RemediationState, Verdict
from tests.fixtures.notify_examples import LINK, T0, S, params, remediation

State = RemediationState
DAY = 86_400 * S


def make_notifier(*messages: Remediation | RemediationResult) -> Notifier:
    notifier = Notifier(params())
    for message in messages:
        notifier.process(message, T0)
    return notifier


def post_due(notifier: Notifier, now_ns: int) -> list[Alert]:
    due = notifier.due(now_ns)
    notifier.posted(due, now_ns)
    return due


def names(notifier: Notifier) -> list[str]:
    return [alert.labels["alertname"] for alert in notifier.desired_alerts.values()]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.PROPOSED, []),
        (State.WAITING, ["RemediationWaiting"]),
        (State.DENIED, ["RemediationDenied"]),
        (State.EXPIRED, ["RemediationUnanswered"]),
        (State.SHADOW, []),
        (State.APPROVED, []),
        (State.ACCEPTED, []),
        (State.NO_ANSWER, ["RemediationUnanswered"]),
        (State.FAILED, ["RemediationFailed"]),
        (State.DRAINED, []),
        (State.VERIFYING, []),
        (State.RESTORING, []),
        (State.PROBATION, []),
        (State.CLOSED, []),
        (State.ESCALATED, ["RemediationEscalated"]),
    ],
)
def test_a_state_has_its_alert(state: State, expected: list[str]) -> None:
    """Each state that needs a person has one; the next state ends it."""
    notifier = make_notifier(remediation(state=state))
    post_due(notifier, T0 + S)
    assert names(notifier) == expected
    notifier.process(remediation(revision=2, state=State.CLOSED), T0 + 2 * S)
    post_due(notifier, T0 + 2 * S)
    assert names(notifier) == []


@pytest.mark.parametrize(
    ("guard", "expected"), [(3, []), (4, []), (1, ["RemediationDenied"]), (8, ["RemediationDenied"])]
)
@pytest.mark.parametrize("state", [State.DENIED, State.STATE_UNSPECIFIED])
def test_a_denial_for_planned_work_has_no_alert(guard: int, expected: list[str], state: State) -> None:
    """Maintenance and exclusions are planned; the kill switch and the limits of capacity are not."""
    notifier = make_notifier(remediation(state=state, verdict=Verdict.DENIED, guard=guard))
    post_due(notifier, T0 + S)
    assert names(notifier) == expected


def test_every_state_is_considered() -> None:
    """A new state needs a decision here."""
    assert len(State) == 16


def test_labels_and_annotations_of_a_denial() -> None:
    """Routes have action and location; the guard, its limit and the rest are annotations."""
    notifier = make_notifier(
        remediation(
            state=State.DENIED, verdict=Verdict.DENIED, guard=8, constraint="capacity of switch leaf-2",
            constraint_limit=0.75, constraint_observed=0.5, attempt=2, runbook_url="https://evil.example/x",
        )
    )  # fmt: skip
    (alert,) = post_due(notifier, T0 + S)
    assert alert.labels == {
        "alertname": "RemediationDenied",
        "kind": "remediation",
        "source": "railsight",
        "remediation_id": "r1",
        "finding_id": "f1",
        "action": "drain_link",
        "subject": LINK,
        "role": "host-link",
        "team": "fabric",
        "pod": "pod-1",
        "rail": "4",
        "plane": "0",
    }
    assert alert.annotations == {
        "summary": f"drain link of {LINK} is denied",
        "reason": "third flap in 28 days",
        "constraint": "guard 8, capacity of switch leaf-2, limit 0.75, observed 0.5",
        "repair_hint": "reseat",
        "attempt": "2",
    }


def test_a_revision_of_the_same_state_is_the_same_alert() -> None:
    """A denied decision is evaluated again every few seconds: its values are annotations."""
    first, second = (
        remediation(revision=n, state=State.DENIED, verdict=Verdict.DENIED, constraint_observed=n / 10, penalty=n)
        for n in (1, 2)
    )
    notifier = make_notifier(first)
    (before,) = post_due(notifier, T0 + S)
    notifier.process(second, T0 + 2 * S)
    assert [alert.identity for alert in post_due(notifier, T0 + 2 * S)] in ([], [before.identity])
    assert len(names(notifier)) == 1


def test_only_an_escalation_pages_and_a_waiting_one_names_the_command() -> None:
    """The rest can wait for daytime."""
    (waiting,) = post_due(make_notifier(remediation(state=State.WAITING)), T0)
    (escalated,) = post_due(make_notifier(remediation(state=State.ESCALATED)), T0)
    assert "page" not in waiting.labels and waiting.annotations["approve"] == "railsight approve r1"
    assert escalated.labels["page"] == "true"


@pytest.mark.parametrize(
    ("state", "lasts"), [(State.DENIED, False), (State.FAILED, False), (State.WAITING, True), (State.ESCALATED, True)]
)
def test_a_denial_is_an_alert_for_a_day_and_what_waits_for_a_person_until_it_ends(state: State, lasts: bool) -> None:
    """The day is that of the first revision in that state; later ones do not prolong it."""
    notifier = make_notifier(remediation(state=state))
    notifier.process(remediation(revision=2, state=state), T0 + DAY // 2)
    post_due(notifier, T0 + DAY - S)
    assert len(names(notifier)) == 1
    post_due(notifier, T0 + DAY)
    assert bool(names(notifier)) is lasts


@pytest.mark.parametrize(
    ("verdict", "outcome", "at_ns", "expected"),
    [
        (Verdict.APPROVED, None, T0 + 9 * S, []),
        (Verdict.APPROVED, None, T0 + 10 * S, ["RemediationUnanswered"]),
        (Verdict.APPROVED, Outcome.ACCEPTED, T0 + 10 * S, ["RemediationUnanswered"]),
        (Verdict.APPROVED, Outcome.DONE, T0 + 10 * S, []),
        (Verdict.APPROVED, Outcome.FAILED, T0 + S, ["RemediationFailed"]),
        (Verdict.APPROVED, Outcome.REJECTED, T0 + S, ["RemediationFailed"]),
        (Verdict.NEEDS_APPROVAL, None, T0 + S, ["RemediationWaiting"]),
        (Verdict.NEEDS_APPROVAL, None, T0 + 10 * S, ["RemediationUnanswered"]),
        (Verdict.DENIED, None, T0 + S, ["RemediationDenied"]),
        (Verdict.SHADOW, None, T0 + 10 * S, []),
        (Verdict.REVOKED, None, T0 + 10 * S, []),
    ],
)
def test_a_message_without_a_state_is_judged_by_verdict_result_and_expiry(
    verdict: Verdict, outcome: Outcome | None, at_ns: int, expected: list[str]
) -> None:
    """The expiry needs no message: its timer evaluates the remediation."""
    notifier = make_notifier(remediation(verdict=verdict, expires_at_ns=T0 + 10 * S))
    post_due(notifier, T0)
    if outcome is not None:
        notifier.process(RemediationResult("r1", outcome), T0 + S)
        post_due(notifier, T0 + S)
    post_due(notifier, at_ns)
    assert names(notifier) == expected
    notifier.remove("r1", at_ns)
    post_due(notifier, T0 + 2 * DAY)
    assert names(notifier) == []


def test_a_late_revision_reopens_nothing() -> None:
    """Two topics carry the revisions."""
    notifier = make_notifier(remediation(revision=3, state=State.WAITING))
    notifier.remove("r1", T0)
    for revision in (2, 3):
        notifier.process(remediation(revision=revision, state=State.WAITING), T0 + S)
    assert post_due(notifier, T0 + 2 * S) == []


def test_a_successor_ends_the_alert_of_a_remediation_that_is_no_longer_open() -> None:
    """Alertmanager's active alerts are compared with the topics, as for findings."""
    first = make_notifier(remediation(state=State.WAITING), remediation(id="r2", state=State.WAITING))
    post_due(first, T0)
    successor = make_notifier(remediation(revision=2, state=State.WAITING))
    successor.restore(first.desired_alerts.values(), T0 + 60 * S)
    due = post_due(successor, T0 + 60 * S)
    assert [(a.labels["remediation_id"], a.ends_at_ns <= T0 + 60 * S) for a in due] == [("r1", False), ("r2", True)]
