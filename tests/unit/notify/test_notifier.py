"""Which alerts stand when: holds, causes, controls, ends, repetition, and a change of owner."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.notify.alert import Alert
from streams.notify.notifier import Notifier
from streams.wire.models import ControlKind, Finding, Severity, Status, Subject
from tests.fixtures.notify_examples import T0, S, control, finding, params, resolved

NOW = T0 + 31 * S


def notifier(*findings: Finding, at_ns: int = NOW) -> Notifier:
    made = Notifier(params())
    for one in findings:
        made.process(one, at_ns)
    return made


def tell(told: Notifier, now_ns: int) -> list[Alert]:
    due = told.due(now_ns)
    told.posted(due, now_ns)
    return due


def pages(alerts: list[Alert], now_ns: int) -> list[str]:
    return [a.labels["finding_id"] for a in alerts if a.labels["page"] == "true" and a.ends_at_ns > now_ns]


def standing(told: Notifier) -> list[tuple[str, str]]:
    return sorted((a.labels["severity"], a.labels["page"]) for a in told.desired_alerts.values())


def test_a_critical_finding_pages_after_its_hold_and_not_before() -> None:
    """For 15 s it is an ordinary alert; then that one ends and the page stands alone."""
    told = notifier(finding())
    assert not pages(tell(told, NOW), NOW)
    assert tell(told, NOW + 15 * S - 1) == []
    ended, paged = tell(told, NOW + 15 * S)
    assert ended.labels["page"] == "false" and ended.ends_at_ns == NOW + 15 * S
    assert paged.labels["page"] == "true" and paged.ends_at_ns == NOW + 615 * S
    assert standing(told) == [("critical", "true")]


@pytest.mark.parametrize(
    "harmless",
    [
        finding(severity=Severity.WARNING),
        finding(severity=Severity.INFO),
        finding(parent_id="p1"),
    ],
)
def test_what_is_not_critical_or_has_a_cause_never_pages(harmless: Finding) -> None:
    """It stands as an ordinary alert, however long it lasts."""
    told = notifier(harmless)
    tell(told, NOW)
    tell(told, NOW + 3600 * S)
    assert [page for _, page in standing(told)] == ["false"]


def test_a_shadow_finding_is_told_to_nobody() -> None:
    """It is recorded only."""
    assert notifier(finding(shadow=True)).due(NOW + 3600 * S) == []


def test_what_a_parent_explains_within_the_hold_does_not_page() -> None:
    """A leaf reboots: its 64 ports are critical for a moment, then explained, and one page goes out."""
    children = [finding(id=f"c{i}") for i in range(64)]
    told = notifier(*children)
    tell(told, NOW)
    for child in children:
        told.process(finding(id=child.id, revision=2, parent_id="reboot"), NOW + 5 * S)
    told.process(finding(id="reboot"), NOW + 5 * S)
    seen = [page for s in range(5, 60) for page in pages(tell(told, NOW + s * S), NOW + s * S)]
    assert seen == ["reboot"]


def test_what_ends_within_the_hold_does_not_page() -> None:
    """An outage of ten seconds wakes nobody, though the notifier was busy when the hold ran out."""
    told = notifier(finding())
    tell(told, NOW)
    told.process(resolved(at_ns=NOW + 10 * S), NOW + 10 * S)
    assert not pages(tell(told, NOW + 20 * S), NOW + 20 * S)
    assert not told.desired_alerts


def test_the_hold_starts_anew_when_it_stops_being_critical() -> None:
    """Stable means without interruption, though both revisions come in one batch."""
    told = notifier(finding())
    told.process(finding(revision=2, severity=Severity.WARNING), NOW + 10 * S)
    told.process(finding(revision=3), NOW + 10 * S)
    assert not pages(tell(told, NOW + 16 * S), NOW + 16 * S)
    assert pages(tell(told, NOW + 25 * S), NOW + 25 * S) == ["f1"]


def test_a_backlog_of_what_is_over_posts_nothing() -> None:
    """Read an hour late, an episode that came and went is nobody's business any more."""
    told = notifier(finding(), finding(revision=2), resolved())
    assert told.due(NOW + 3600 * S) == []


@pytest.mark.parametrize("kind", [ControlKind.MAINTENANCE, ControlKind.ACKNOWLEDGE])
def test_a_control_ends_the_page_and_its_end_brings_it_back(kind: ControlKind) -> None:
    """A page becomes an ordinary alert while the control holds, whenever the control came."""
    told = notifier(finding())
    tell(told, NOW + 20 * S)
    told.process(control(kind, "f1", until_ns=NOW + 100 * S), NOW + 30 * S)
    tell(told, NOW + 30 * S)
    assert standing(told) == [("critical", "false")]
    tell(told, NOW + 100 * S)
    assert standing(told) == [("critical", "true")]


def test_a_removed_control_holds_no_more() -> None:
    """A tombstone of a control brings the page back."""
    told = notifier(finding())
    told.process(control(ControlKind.MAINTENANCE, "host-1"), NOW)
    tell(told, NOW + 20 * S)
    assert standing(told) == [("critical", "false")]
    told.remove("MAINTENANCE", NOW + 21 * S)
    tell(told, NOW + 21 * S)
    assert standing(told) == [("critical", "true")]


def test_a_change_of_severity_leaves_no_alert_behind() -> None:
    """The alert of the old labels ends in the same post in which the new one begins, and before it."""
    told = notifier(finding())
    tell(told, NOW + 15 * S)
    told.process(finding(revision=2, severity=Severity.WARNING), NOW + 20 * S)
    old, new = tell(told, NOW + 20 * S)
    assert (old.labels["severity"], old.ends_at_ns) == ("critical", NOW + 20 * S)
    assert (new.labels["severity"], new.ends_at_ns) == ("warning", NOW + 620 * S)
    assert standing(told) == [("warning", "false")]


def test_a_moved_subject_pages_no_second_time() -> None:
    """The inventory gives the device another pod: the alert keeps its labels for the episode's life."""
    told = notifier(finding())
    assert pages(tell(told, NOW + 15 * S), NOW + 15 * S) == ["f1"]
    told.process(finding(revision=2, subject=Subject(finding().subject.id, pod="pod-7", rail=1)), NOW + 20 * S)
    tell(told, NOW + 20 * S)
    assert [a.labels["pod"] for a in told.desired_alerts.values()] == ["pod-1"]


def test_an_end_is_told_once_with_the_episodes_own_time() -> None:
    """The resolution carries the event time of the end and the last revision's words."""
    told = notifier(finding())
    tell(told, NOW)
    told.process(resolved(at_ns=NOW + 5 * S), NOW + 60 * S)
    (end,) = tell(told, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 5 * S
    assert told.due(NOW + 7200 * S) == []


def test_a_retraction_ends_the_alert_and_says_so() -> None:
    """It was not so: the alert resolves with these words."""
    told = notifier(finding())
    tell(told, NOW)
    told.process(resolved(status=Status.RETRACTED), NOW + 60 * S)
    (end,) = tell(told, NOW + 60 * S)
    assert end.ends_at_ns <= NOW + 60 * S
    assert end.annotations["summary"].startswith("Retracted")


def test_an_end_in_the_future_is_now() -> None:
    """A device's clock ahead of ours does not keep the alert open."""
    told = notifier(finding())
    tell(told, NOW)
    told.process(resolved(at_ns=NOW + 900 * S), NOW + 60 * S)
    (end,) = tell(told, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 60 * S


def test_a_tombstone_ends_what_is_open() -> None:
    """findings-open forgets an episode: so does Alertmanager, though its last revision was never read."""
    told = notifier(finding())
    tell(told, NOW)
    told.remove("f1", NOW + 50 * S)
    (end,) = tell(told, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 50 * S


def test_revisions_that_come_late_reopen_nothing() -> None:
    """Two topics are read side by side: an old revision after the end, or after the tombstone, is old."""
    for tombstone in (False, True):
        told = notifier(finding(revision=3))
        if tombstone:
            told.remove("f1", NOW)
        else:
            told.process(resolved(), NOW)
        told.process(finding(revision=2), NOW + S)
        told.process(finding(revision=3), NOW + S)
        assert told.due(NOW + 60 * S) == []


def test_an_open_alert_is_repeated_each_minute_and_lives_longer_each_time() -> None:
    """Alertmanager forgets at a restart, and ends what nobody repeats."""
    told = notifier(finding(severity=Severity.WARNING))
    times = [s for s in range(300) for alert in tell(told, NOW + s * S) if alert.ends_at_ns == NOW + (s + 600) * S]
    assert times == [0, 60, 120, 180, 240]


def test_new_words_are_posted_at_once_and_equal_ones_are_not() -> None:
    """An update reaches the pager's page when it says something new."""
    told = notifier(finding(severity=Severity.WARNING))
    tell(told, NOW)
    told.process(finding(severity=Severity.WARNING, revision=2, observed_at_ns=NOW), NOW + S)
    assert tell(told, NOW + S) == []
    told.process(finding(severity=Severity.WARNING, revision=3, summary="worse"), NOW + 2 * S)
    assert [a.annotations["summary"] for a in tell(told, NOW + 2 * S)] == ["worse"]


def test_what_was_not_taken_is_due_again() -> None:
    """A post that failed is no post."""
    told = notifier(finding(severity=Severity.WARNING))
    assert len(told.due(NOW)) == len(told.due(NOW + S)) == 1


def test_a_successor_neither_pages_again_nor_forgets() -> None:
    """Rebuilt from what is open and what Alertmanager holds: the page stays as it was, what ended meanwhile ends."""
    first = notifier(finding(), finding(id="f2"))
    tell(first, NOW + 20 * S)
    later = NOW + 3000 * S
    successor = notifier(finding(revision=4, subject=Subject(finding().subject.id, pod="pod-7")), at_ns=later - S)
    successor.restore(first.desired_alerts.values())
    ended, repeated = tell(successor, later)
    assert (ended.labels["finding_id"], ended.ends_at_ns) == ("f2", later)
    before = next(a for a in first.desired_alerts.values() if a.labels["finding_id"] == "f1")
    assert (repeated.identity, repeated.ends_at_ns) == (before.identity, later + 600 * S)


def test_a_successor_does_not_keep_a_page_that_is_none_any_more() -> None:
    """The finding got a parent while nobody looked: the page ends."""
    first = notifier(finding())
    tell(first, NOW + 20 * S)
    successor = notifier(finding(revision=2, parent_id="p"), at_ns=NOW + 30 * S)
    successor.restore(first.desired_alerts.values())
    tell(successor, NOW + 30 * S)
    assert standing(successor) == [("critical", "false")]


def test_the_order_and_repetition_of_revisions_does_not_matter() -> None:
    """Whatever order the two topics are read in, the same alerts stand in the end."""
    revisions = [finding(), finding(revision=2, severity=Severity.WARNING), finding(revision=3, parent_id="p")]
    for order in permutations([*revisions, revisions[0]]):
        told = notifier(*order)
        tell(told, NOW + 60 * S)
        assert [a.labels["cause_id"] for a in told.desired_alerts.values()] == ["p"]


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
    """Whatever happens, each open finding stands exactly once, and nothing else stands."""
    told, now = notifier(), NOW
    last: dict[str, Finding] = {}
    for revision, (identity, severity, status, parent, pause) in enumerate(script):
        now += pause * S
        one = finding(id=identity, revision=revision, severity=severity, status=status, parent_id=parent)
        told.process(one, now)
        last[identity] = one
        tell(told, now)
        open_ids = sorted(identity for identity, one in last.items() if not one.is_closed)
        assert sorted(a.labels["finding_id"] for a in told.desired_alerts.values()) == open_ids
    assert told.due(now) == []
