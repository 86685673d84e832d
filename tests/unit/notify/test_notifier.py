"""Tests which alerts are active when: holds, parents, controls, ends, repetition, and takeover."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.notify.alert import Alert
from streams.notify.notifier import Notifier
from streams.wire.models import ControlKind, Finding, Severity, Status, Subject
from tests.fixtures.notify_examples import T0, S, control, finding, params, resolved

NOW = T0 + 31 * S


def make_notifier(*findings: Finding, at_ns: int = NOW) -> Notifier:
    notifier = Notifier(params())
    for one in findings:
        notifier.process(one, at_ns)
    return notifier


def post_due(notifier: Notifier, now_ns: int) -> list[Alert]:
    due = notifier.due(now_ns)
    notifier.posted(due, now_ns)
    return due


def pages(alerts: list[Alert], now_ns: int) -> list[str]:
    return [a.labels["finding_id"] for a in alerts if a.labels["page"] == "true" and a.ends_at_ns > now_ns]


def active_labels(notifier: Notifier) -> list[tuple[str, str]]:
    return sorted((a.labels["severity"], a.labels["page"]) for a in notifier.desired_alerts.values())


def test_a_critical_finding_pages_after_its_hold_and_not_before() -> None:
    """For 15 s it is an ordinary alert; then that alert ends and the page is the only one."""
    notifier = make_notifier(finding())
    assert not pages(post_due(notifier, NOW), NOW)
    assert post_due(notifier, NOW + 15 * S - 1) == []
    ended, paged = post_due(notifier, NOW + 15 * S)
    assert ended.labels["page"] == "false" and ended.ends_at_ns == NOW + 15 * S
    assert paged.labels["page"] == "true" and paged.ends_at_ns == NOW + 615 * S
    assert active_labels(notifier) == [("critical", "true")]


@pytest.mark.parametrize(
    "harmless",
    [
        finding(severity=Severity.WARNING),
        finding(severity=Severity.INFO),
        finding(parent_id="p1"),
    ],
)
def test_a_finding_that_is_not_critical_or_has_a_parent_never_pages(harmless: Finding) -> None:
    """It is an ordinary alert for its whole duration."""
    notifier = make_notifier(harmless)
    post_due(notifier, NOW)
    post_due(notifier, NOW + 3600 * S)
    assert [page for _, page in active_labels(notifier)] == ["false"]


def test_a_shadow_finding_has_no_alert() -> None:
    """It is recorded only."""
    assert make_notifier(finding(shadow=True)).due(NOW + 3600 * S) == []


def test_a_child_with_a_parent_within_the_hold_does_not_page() -> None:
    """A leaf reboots: its 64 ports are critical at first, then children, and one page is sent."""
    children = [finding(id=f"c{i}") for i in range(64)]
    notifier = make_notifier(*children)
    post_due(notifier, NOW)
    for child in children:
        notifier.process(finding(id=child.id, revision=2, parent_id="reboot"), NOW + 5 * S)
    notifier.process(finding(id="reboot"), NOW + 5 * S)
    paged = [page for s in range(5, 60) for page in pages(post_due(notifier, NOW + s * S), NOW + s * S)]
    assert paged == ["reboot"]


def test_an_episode_that_ends_within_the_hold_does_not_page() -> None:
    """An outage of ten seconds pages no one, even if the notifier was busy when the hold ended."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    notifier.process(resolved(at_ns=NOW + 10 * S), NOW + 10 * S)
    assert not pages(post_due(notifier, NOW + 20 * S), NOW + 20 * S)
    assert not notifier.desired_alerts


def test_the_hold_restarts_after_a_lower_severity() -> None:
    """The hold must be uninterrupted, even if both revisions arrive in one batch."""
    notifier = make_notifier(finding())
    notifier.process(finding(revision=2, severity=Severity.WARNING), NOW + 10 * S)
    notifier.process(finding(revision=3), NOW + 10 * S)
    assert not pages(post_due(notifier, NOW + 16 * S), NOW + 16 * S)
    assert pages(post_due(notifier, NOW + 25 * S), NOW + 25 * S) == ["f1"]


def test_a_backlog_of_closed_episodes_posts_nothing() -> None:
    """An episode that is read an hour late, after its end, has no alert."""
    notifier = make_notifier(finding(), finding(revision=2), resolved())
    assert notifier.due(NOW + 3600 * S) == []


@pytest.mark.parametrize("kind", [ControlKind.MAINTENANCE, ControlKind.ACKNOWLEDGE])
def test_a_control_ends_the_page_and_the_page_returns_after_its_end(kind: ControlKind) -> None:
    """A page becomes an ordinary alert while the control is active, whenever the control arrives."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW + 20 * S)
    notifier.process(control(kind, "f1", until_ns=NOW + 100 * S), NOW + 30 * S)
    post_due(notifier, NOW + 30 * S)
    assert active_labels(notifier) == [("critical", "false")]
    post_due(notifier, NOW + 100 * S)
    assert active_labels(notifier) == [("critical", "true")]


def test_a_removed_control_is_inactive() -> None:
    """The page returns after the tombstone of a control."""
    notifier = make_notifier(finding())
    notifier.process(control(ControlKind.MAINTENANCE, "host-1"), NOW)
    post_due(notifier, NOW + 20 * S)
    assert active_labels(notifier) == [("critical", "false")]
    notifier.remove("MAINTENANCE", NOW + 21 * S)
    post_due(notifier, NOW + 21 * S)
    assert active_labels(notifier) == [("critical", "true")]


def test_a_change_of_severity_replaces_the_alert() -> None:
    """The alert with the old labels ends in the same post in which the new one begins, and before it."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW + 15 * S)
    notifier.process(finding(revision=2, severity=Severity.WARNING), NOW + 20 * S)
    old, new = post_due(notifier, NOW + 20 * S)
    assert (old.labels["severity"], old.ends_at_ns) == ("critical", NOW + 20 * S)
    assert (new.labels["severity"], new.ends_at_ns) == ("warning", NOW + 620 * S)
    assert active_labels(notifier) == [("warning", "false")]


def test_a_moved_subject_does_not_page_again() -> None:
    """An alert keeps its labels for the whole episode, also if the inventory moves the device to another pod."""
    notifier = make_notifier(finding())
    assert pages(post_due(notifier, NOW + 15 * S), NOW + 15 * S) == ["f1"]
    notifier.process(finding(revision=2, subject=Subject(finding().subject.id, pod="pod-7", rail=1)), NOW + 20 * S)
    post_due(notifier, NOW + 20 * S)
    assert [a.labels["pod"] for a in notifier.desired_alerts.values()] == ["pod-1"]


def test_an_end_is_posted_once_with_the_event_time() -> None:
    """The resolution has the event time of the end and the annotations of the last revision."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    notifier.process(resolved(at_ns=NOW + 5 * S), NOW + 60 * S)
    (end,) = post_due(notifier, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 5 * S
    assert notifier.due(NOW + 7200 * S) == []


def test_a_retraction_ends_the_alert_with_a_summary_that_names_it() -> None:
    """The summary of the resolution begins with `Retracted`."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    notifier.process(resolved(status=Status.RETRACTED), NOW + 60 * S)
    (end,) = post_due(notifier, NOW + 60 * S)
    assert end.ends_at_ns <= NOW + 60 * S
    assert end.annotations["summary"].startswith("Retracted")


def test_an_end_in_the_future_is_now() -> None:
    """A device's clock ahead of ours does not keep the alert open."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    notifier.process(resolved(at_ns=NOW + 900 * S), NOW + 60 * S)
    (end,) = post_due(notifier, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 60 * S


def test_a_tombstone_ends_an_open_alert() -> None:
    """An alert ends when findings-open removes its episode, even if its last revision was never read."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    notifier.remove("f1", NOW + 50 * S)
    (end,) = post_due(notifier, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 50 * S


def test_late_revisions_reopen_nothing() -> None:
    """Two topics are read concurrently: an old revision after the end, or after the tombstone, is ignored."""
    for tombstone in (False, True):
        notifier = make_notifier(finding(revision=3))
        if tombstone:
            notifier.remove("f1", NOW)
        else:
            notifier.process(resolved(), NOW)
        notifier.process(finding(revision=2), NOW + S)
        notifier.process(finding(revision=3), NOW + S)
        assert notifier.due(NOW + 60 * S) == []


def test_an_open_alert_is_repeated_each_minute_with_a_later_end() -> None:
    """Alertmanager loses alerts at a restart, and ends alerts that are not repeated."""
    notifier = make_notifier(finding(severity=Severity.WARNING))
    times = [
        s for s in range(300) for alert in post_due(notifier, NOW + s * S) if alert.ends_at_ns == NOW + (s + 600) * S
    ]
    assert times == [0, 60, 120, 180, 240]


def test_changed_annotations_are_posted_at_once_and_equal_ones_are_not() -> None:
    """An update is posted when its annotations change."""
    notifier = make_notifier(finding(severity=Severity.WARNING))
    post_due(notifier, NOW)
    notifier.process(finding(severity=Severity.WARNING, revision=2, observed_at_ns=NOW), NOW + S)
    assert post_due(notifier, NOW + S) == []
    notifier.process(finding(severity=Severity.WARNING, revision=3, summary="worse"), NOW + 2 * S)
    assert [a.annotations["summary"] for a in post_due(notifier, NOW + 2 * S)] == ["worse"]


def test_an_alert_that_was_not_accepted_is_due_again() -> None:
    """A failed post changes no state."""
    notifier = make_notifier(finding(severity=Severity.WARNING))
    assert len(notifier.due(NOW)) == len(notifier.due(NOW + S)) == 1


def test_a_successor_neither_pages_again_nor_loses_an_alert() -> None:
    """Rebuilt from open findings and active alerts: the page is unchanged, and alerts that ended meanwhile end."""
    first = make_notifier(finding(), finding(id="f2"))
    post_due(first, NOW + 20 * S)
    later = NOW + 3000 * S
    successor = make_notifier(finding(revision=4, subject=Subject(finding().subject.id, pod="pod-7")), at_ns=later - S)
    successor.restore(first.desired_alerts.values())
    ended, repeated = post_due(successor, later)
    assert (ended.labels["finding_id"], ended.ends_at_ns) == ("f2", later)
    original = next(a for a in first.desired_alerts.values() if a.labels["finding_id"] == "f1")
    assert (repeated.identity, repeated.ends_at_ns) == (original.identity, later + 600 * S)


def test_a_successor_ends_a_page_that_is_no_longer_due() -> None:
    """If the finding got a parent during the takeover, the page ends."""
    first = make_notifier(finding())
    post_due(first, NOW + 20 * S)
    successor = make_notifier(finding(revision=2, parent_id="p"), at_ns=NOW + 30 * S)
    successor.restore(first.desired_alerts.values())
    post_due(successor, NOW + 30 * S)
    assert active_labels(successor) == [("critical", "false")]


def test_the_order_and_repetition_of_revisions_does_not_matter() -> None:
    """Whatever order the two topics are read in, the same alerts are active in the end."""
    revisions = [finding(), finding(revision=2, severity=Severity.WARNING), finding(revision=3, parent_id="p")]
    for order in permutations([*revisions, revisions[0]]):
        notifier = make_notifier(*order)
        post_due(notifier, NOW + 60 * S)
        assert [a.labels["cause_id"] for a in notifier.desired_alerts.values()] == ["p"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from([Severity.WARNING, Severity.CRITICAL]),
            st.sampled_from([Status.OPEN, Status.RESOLVED, Status.RETRACTED]),
            st.sampled_from(["", "p"]),
            st.integers(0, 40),
        ),
        max_size=12,
    )
)
def test_a_finding_never_has_two_alerts_and_an_ended_one_has_none(
    script: list[tuple[str, Severity, Status, str, int]],
) -> None:
    """After any sequence, each open finding has exactly one alert, and no other alert is active."""
    notifier, now = make_notifier(), NOW
    last: dict[str, Finding] = {}
    for revision, (identity, severity, status, parent, pause) in enumerate(script):
        now += pause * S
        one = finding(id=identity, revision=revision, severity=severity, status=status, parent_id=parent)
        notifier.process(one, now)
        last[identity] = one
        post_due(notifier, now)
        open_ids = sorted(identity for identity, one in last.items() if not one.is_closed)
        assert sorted(a.labels["finding_id"] for a in notifier.desired_alerts.values()) == open_ids
    assert notifier.due(now) == []
