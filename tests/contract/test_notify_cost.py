"""What a second costs the notifier in which nothing happens to what is open: counted, no times."""

from streams.notify.notifier import Notifier
from streams.wire.models import ControlKind, Severity
from tests.fixtures.call_counting import counting
from tests.fixtures.notify_examples import T0, S, control, finding, params

OPEN = 500
NOW = T0 + 31 * S

A_SECOND = 20
"""Calls in a second in which there is nothing to say; once it was fifty for each finding that is open."""


def told() -> Notifier:
    """Alertmanager holds alerts of so many findings, one in two of which waits for its page."""
    notifier = Notifier(params())
    for number in range(OPEN):
        severity = Severity.CRITICAL if number % 2 else Severity.WARNING
        notifier.process(finding(id=f"f{number}", severity=severity), NOW)
    assert len(tell(notifier, NOW)) == OPEN
    assert tell(notifier, NOW + S // 2) == []
    return notifier


def tell(notifier: Notifier, now_ns: int) -> list[str]:
    """Which findings Alertmanager is told of."""
    due = notifier.due(now_ns)
    notifier.posted(due, now_ns)
    return [alert.labels["finding_id"] for alert in due]


def test_a_second_in_which_nothing_happens_costs_nothing_for_what_is_open() -> None:
    """Not while pages are held, and not between two repetitions."""
    notifier = told()
    with counting() as held:
        assert notifier.due(NOW + S) == []
    assert held.total() <= A_SECOND
    assert len(tell(notifier, NOW + 15 * S)) == OPEN, "ends and pages of one in two"
    assert notifier.due(NOW + 16 * S) == []
    with counting() as paged:
        assert notifier.due(NOW + 17 * S) == []
    assert paged.total() <= A_SECOND


def test_a_finding_that_changes_is_looked_at_alone() -> None:
    """A summary that says more is posted, and no other finding is looked at for it."""
    notifier = told()
    notifier.process(finding(id="f0", revision=2, severity=Severity.WARNING, summary="two more"), NOW + S)
    with counting() as counted:
        assert tell(notifier, NOW + S) == ["f0"]
    assert counted["build_alert"] == 1


def test_a_control_looks_at_all_when_it_begins_and_ends_and_not_between() -> None:
    """Maintenance that is known before it begins keeps all from paging as long as it lasts."""
    notifier = told()
    notifier.process(control(ControlKind.MAINTENANCE, "", NOW + 10 * S, NOW + 40 * S), NOW + S)
    assert tell(notifier, NOW + 2 * S) == []
    assert tell(notifier, NOW + 15 * S) == [], "held back"
    with counting() as counted:
        assert tell(notifier, NOW + 20 * S) == []
    assert counted.total() <= A_SECOND
    assert len(tell(notifier, NOW + 40 * S)) == OPEN
