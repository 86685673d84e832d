"""Tests when the watchdog alert is active."""

from streams.notify.notifier import Notifier
from streams.wire.models import IDLE_NS, Progress
from tests.fixtures.notify_examples import T0, S, params


def active(notifier: Notifier, now_ns: int) -> bool:
    """Post what is due; return whether the watchdog alert is active."""
    due = notifier.due(now_ns)
    notifier.posted(due, now_ns)
    return any(alert.labels["kind"] == "watchdog" for alert in notifier.desired_alerts.values())


def progress(watermark_ns: int, stage: str = "attribute") -> Progress:
    return Progress(stage, 0, 1, watermark_ns)


def test_it_is_active_while_the_watermark_advances_and_is_repeated() -> None:
    """It is posted each minute, and one advance within five minutes is enough."""
    notifier = Notifier(params())
    posts = 0
    for s in range(1200):
        if s % 200 == 0:
            notifier.process(progress(T0 + s * S), T0 + s * S)
        due = notifier.due(T0 + s * S)
        notifier.posted(due, T0 + s * S)
        posts += len(due)
        assert all(alert.ends_at_ns == T0 + (s + 300) * S for alert in due)
    assert posts == (1200 - 200) // 60 + 1


def test_it_ends_when_the_watermark_stands_still_although_progress_arrives() -> None:
    """A pipeline that only repeats its watermark finds nothing; other stages and an idle one are no evidence."""
    notifier = Notifier(params())
    notifier.process(progress(T0), T0)
    assert not active(notifier, T0), "one value is no progress"
    notifier.process(progress(T0 + S), T0 + S)
    assert active(notifier, T0 + S)
    for s in range(2, 302):
        for one in (progress(T0 + S), progress(IDLE_NS), progress(T0 + s * S, "measure")):
            notifier.process(one, T0 + s * S)
        assert active(notifier, T0 + s * S) is (s < 301)
    notifier.process(progress(T0 + 400 * S), T0 + 400 * S)
    assert active(notifier, T0 + 400 * S)


def test_a_successor_leaves_the_alert_to_its_expiry_until_it_sees_progress() -> None:
    """A restart of the notifier neither ends the alert nor prolongs it."""
    first = Notifier(params())
    for s in range(2):
        first.process(progress(T0 + s * S), T0 + s * S)
    assert active(first, T0 + S)
    successor = Notifier(params())
    successor.restore(first.desired_alerts.values(), T0 + 2 * S)
    assert successor.due(T0 + 60 * S) == []
    for s in (70, 71):
        successor.process(progress(T0 + s * S), T0 + s * S)
    assert active(successor, T0 + 72 * S)
