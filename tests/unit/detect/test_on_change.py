"""A source that sends only changes (gNMI ON_CHANGE): its outages are dated exactly, and its silence is no health."""

from collections.abc import Iterator

from streams.fabric.catalogue import Metric
from streams.wire.models import Condition, Finding, Message, Samples
from tests.worlds.live_stages import in_order
from tests.worlds.observations import after, samples
from tests.worlds.small_world import SmallWorld, findings, play, recorded

LEAF, PORT = "p1-l0", "d1"
DOWN = SmallWorld(down={f"{LEAF}/{PORT}": [(100, 163)], f"{LEAF}/d2": [(203, 215)]})
CHANGES = ((PORT, 100.4, 0.0), (PORT, 163.2, 1.0), ("d2", 203.1, 0.0), ("d2", 215.3, 1.0))
HEARTBEAT_S = 60


def messages(until_s: float, *, heartbeat: bool) -> list[Message]:
    """Return all messages; the leaf sends its states once, then what changes, and all of them at a heartbeat."""

    def own() -> Iterator[Message]:
        for one in recorded(DOWN, until_s):
            device = getattr(one, "device", "")
            if device != LEAF or (
                isinstance(one, Samples) and (one.sequence == 0 or (heartbeat and one.sequence % HEARTBEAT_S == 0))
            ):
                yield one
        for number, (port, t, state) in enumerate(CHANGES):
            if t <= until_s:
                yield samples(LEAF, t, {Metric.OPER_UP: {port: state}}, sequence=10_000 + number)

    return in_order(own())


def of(found: list[Finding], condition: Condition) -> list[Finding]:
    return [one for one in found if one.condition is condition]


def test_an_outage_between_two_changes_is_found_and_dated_by_them() -> None:
    """One reading shows it down and lasts until the next; an outage of 12 s is none."""
    found = findings(play(messages(900, heartbeat=True), DOWN.topology))
    (down,) = of(found, Condition.LINK_DOWN)
    assert down.subject.a is not None and "d1" in down.subject.id
    assert after(down.started_at_ns) is not None and 100 <= (after(down.started_at_ns) or 0) <= 110
    assert 160 <= (after(down.resolved_at_ns) or 0) <= 170
    assert of(found, Condition.TELEMETRY_STALE) == []


def test_without_a_heartbeat_its_silence_is_reported() -> None:
    """A device without changes and one that is not read any more send the same: nothing."""
    found = findings(play(messages(1200, heartbeat=False), DOWN.topology))
    assert len(of(found, Condition.LINK_DOWN)) == 1
    assert [one.subject.id for one in of(found, Condition.TELEMETRY_STALE)] == [f"device:{LEAF}"]
