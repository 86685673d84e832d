"""Tests the notifier's cost of a second without changes, as a number of calls."""

from streams.notify.notifier import Notifier
from streams.wire.models import ControlKind, Endpoint, Severity, Subject
from tests.fixtures.call_counting import counting
from tests.fixtures.notify_examples import T0, S, control, finding, params

OPEN = 500
NOW = T0 + 31 * S

A_SECOND = 20
"""Calls in a second without alerts to post; formerly it was fifty for each open finding."""


def busy_notifier() -> Notifier:
    """Return a notifier with posted alerts, half of which wait for their page."""
    notifier = Notifier(params())
    for number in range(OPEN):
        severity = Severity.CRITICAL if number % 2 else Severity.WARNING
        place = Subject(f"device:h{number}", Endpoint(f"h{number}"))
        notifier.process(finding(id=f"f{number}", severity=severity, subject=place), NOW)
    assert len(post_due(notifier, NOW)) == OPEN
    assert post_due(notifier, NOW + S // 2) == []
    return notifier


def post_due(notifier: Notifier, now_ns: int) -> list[str]:
    """Post the due alerts; return the ids of their findings."""
    due = notifier.due(now_ns)
    notifier.posted(due, now_ns)
    return [alert.labels["finding_id"] for alert in due]


def test_a_second_without_changes_costs_nothing_for_open_findings() -> None:
    """This applies while pages wait and between two repetitions."""
    notifier = busy_notifier()
    with counting() as while_waiting:
        assert notifier.due(NOW + S) == []
    assert while_waiting.total() <= A_SECOND
    assert len(post_due(notifier, NOW + 15 * S)) == OPEN // 2, "the pages of one in two"
    assert notifier.due(NOW + 16 * S) == []
    with counting() as after_paging:
        assert notifier.due(NOW + 17 * S) == []
    assert after_paging.total() <= A_SECOND


def test_only_the_changed_finding_is_evaluated() -> None:
    """A changed summary is posted, and no other finding is evaluated."""
    notifier = busy_notifier()
    notifier.process(finding(id="f0", revision=2, severity=Severity.WARNING, summary="two more"), NOW + S)
    with counting() as counted:
        assert post_due(notifier, NOW + S) == ["f0"]
    assert counted["build_alert"] == 1


def test_a_control_causes_evaluation_only_at_its_begin_and_end() -> None:
    """Maintenance that is announced before its begin suppresses all pages for its duration."""
    notifier = busy_notifier()
    notifier.process(control(ControlKind.MAINTENANCE, "", NOW + 10 * S, NOW + 40 * S), NOW + S)
    assert post_due(notifier, NOW + 2 * S) == []
    assert post_due(notifier, NOW + 15 * S) == [], "silenced"
    with counting() as counted:
        assert post_due(notifier, NOW + 20 * S) == []
    assert counted.total() <= A_SECOND
    assert len(post_due(notifier, NOW + 40 * S)) == OPEN // 2
