"""Devices and collectors whose clocks are wrong change no finding of others, and their own faults are found."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest

from streams.detect.measure.source_clock import ClockChange, SourceClock
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Condition, Event, EventKind, Finding, Message, Source, Status, Symptom
from streams.wire.stage import Output
from streams.wire.symptoms import SymptomKind
from tests.worlds.live_stages import Offset, in_order, play_live
from tests.worlds.observations import GNMI, NIC, at, samples
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import SmallWorld, recorded

UNTIL_S = 1800
BAD = "p1-h1"
FAULT = SmallWorld(down={"p2-l1/u0": [(300, 900)]})


@cache
def messages() -> tuple[Message, ...]:
    """Return half an hour in which one link of another pod is down."""
    return tuple(in_order(recorded(FAULT, UNTIL_S)))


def right(device: str, t: float) -> float:
    return 0.0


def only(offset_s: float, from_s: float = 0.0, until_s: float = float("inf")) -> Offset:
    return lambda device, t: offset_s if device == BAD and from_s <= t < until_s else 0.0


def others(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are not about a clock."""
    return [one for one in findings if one.condition is not Condition.DEVICE_CLOCK_SKEW]


def summary(findings: Iterable[Finding]) -> list[tuple[object, ...]]:
    """Return the fields that a consumer relies on, of all findings that are not about a clock."""
    return sorted(
        (one.detector, one.subject.id, one.started_at_ns, one.resolved_at_ns or 0, one.status.name)
        for one in others(findings)
    )


@cache
def expected() -> list[tuple[object, ...]]:
    played = play_live(messages(), right)
    assert [one.condition for one in played.findings] == [Condition.LINK_DOWN]
    return summary(played.findings)


CLOCKS: dict[str, Offset] = {
    "29 s ahead": only(29),
    "2 h ahead": only(7200),
    "a year ahead": only(365 * 86400),
    "29 s ahead for one reading": only(29, 400, 410),
    "2 h ahead for one reading": only(7200, 400, 410),
    "a year ahead for one reading": only(365 * 86400, 400, 410),
    "25 s behind": only(-25),
    "an hour behind": only(-3600),
    "since 1970": only(-at(0) / 1e9 + 1000),
    "it jumps ahead": only(600, 500),
    "it goes back an hour": only(-3600, 500),
    "it goes back an hour, and is set right": only(-3600, 500, 1200),
    "it is ahead and is set right": only(3600, 0, 900),
    "it drifts by 0.5 s in 10 s": lambda device, t: t / 20 if device == BAD else 0.0,
    "it drifts back by 0.5 s in 10 s": lambda device, t: -t / 20 if device == BAD else 0.0,
    "within a second": only(0.9),
    "it is 4 s behind": only(-4),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_one_wrong_clock_changes_no_finding(name: str) -> None:
    """Neither its own device nor any other is called silent; the link that is down at another pod is found."""
    assert summary(play_live(messages(), CLOCKS[name]).findings) == expected()


@pytest.mark.parametrize("offset_s", [7200.0, 40.0, -40.0, -3600.0])
def test_a_site_with_a_broken_ntp_is_corrected(offset_s: float) -> None:
    """All devices are off by the same amount: the link is found at its own time."""
    played = play_live(messages(), lambda *_: offset_s)
    (found,) = [one for one in played.findings if one.condition is Condition.LINK_DOWN]
    assert abs(found.started_at_ns - at(300)) <= ns(10.5)
    assert found.resolved_at_ns is not None
    assert others(played.findings) == [found]


@pytest.mark.parametrize("offset_s", [29.0, 7200.0, -25.0, -3600.0])
def test_a_collector_with_a_wrong_clock_changes_nothing(offset_s: float) -> None:
    """Neither its statuses nor the times at which it received samples are used."""
    played = play_live(messages(), right, collector=only(offset_s))
    assert summary(played.findings) == expected()


def test_faults_of_a_device_with_a_wrong_clock_are_found_at_their_time() -> None:
    """The link of a host whose clock is an hour behind is down for ten minutes."""
    world = SmallWorld(down={f"{BAD}/e0": [(300, 900)]})
    played = play_live(in_order(recorded(world, UNTIL_S)), only(-3600))
    (found,) = [one for one in played.findings if one.condition is Condition.LINK_DOWN]
    assert abs(found.started_at_ns - at(300)) <= ns(10.5)
    assert abs((found.resolved_at_ns or 0) - at(900)) <= ns(10.5)


def test_silence_of_a_device_with_a_wrong_clock_is_found_once() -> None:
    """It ends when samples arrive again, and its clock plays no part."""
    world = SmallWorld(not_polled={BAD: [(600, 900)]})
    for offset_s in (25.0, 3600.0, -25.0, -3600.0):
        played = play_live(in_order(recorded(world, UNTIL_S)), only(offset_s))
        (stale,) = [one for one in played.findings if one.condition is Condition.TELEMETRY_STALE]
        assert stale.subject.id == f"device:{BAD}"
        assert stale.status is Status.RESOLVED
        assert abs((stale.resolved_at_ns or 0) - stale.started_at_ns - ns(310)) <= ns(11)


def test_an_event_of_a_year_ahead_moves_no_time() -> None:
    """It is dated by its arrival."""
    event = Event(BAD, "e0", EventKind.LINK_UP, at(500 + 365 * 86400), at(500), GNMI, "c", 1, 1)
    mixed = messages()
    index = next(i for i, one in enumerate(mixed) if getattr(one, "sampled_at_ns", 0) > at(500))
    played = play_live([*mixed[:index], replace(event, at_ns=at(500)), *mixed[index:]], only(365 * 86400, 500, 500.1))
    assert summary(played.findings) == expected()


def test_a_backlog_of_a_collector_is_no_wrong_clock() -> None:
    """Ten minutes of samples that arrive within one, each older than its arrival, are used at their own times."""
    clock = SourceClock()
    changes = [clock.add(ns(t), ns(600 + t / 10)) for t in range(0, 600, 10)]
    assert set(changes) <= {ClockChange.NONE, ClockChange.RIGHT}
    assert clock.offset_ns == 0
    assert not clock.is_off


def test_an_offset_is_measured_by_the_sample_with_the_least_delay() -> None:
    """Delays of up to a second and a half count as such."""
    clock = SourceClock()
    delays = (1.5, 0.3, 0.9, 1.2, 0.8)
    changes = [clock.add(ns(1000 + 10 * n - 3600), ns(1000 + 10 * n + delay)) for n, delay in enumerate(delays)]
    assert changes[-1] is ClockChange.MEASURED
    assert clock.offset_ns == ns(-3600.3)
    assert clock.corrected_ns(ns(1040 - 3600), ns(1040.7)) == ns(1040.3)


def test_a_state_of_a_time_to_come_is_refused() -> None:
    """The runner passes over such a snapshot: its readings would hold all that follows for late."""
    stage = begun(Measure(DetectParams()))
    for row in FAULT.rounds(60):
        stage.process([row])
    stage.limit_time(at(61))
    with pytest.raises(Reject, match="ahead of the clock"):
        stage.limit_time(at(10))


def test_a_clock_that_is_behind_does_not_delay_the_watermark() -> None:
    """A device an hour behind leaves the minimum at once, and is in it again when its offset is known."""
    stage = begun(Measure(DetectParams()))
    for row in FAULT.rounds(300):
        shift = ns(only(-3600)(row.device, 0))
        stage.process([replace(row, sampled_at_ns=row.sampled_at_ns + shift)])
    assert at(290) <= stage.watermark_ns < IDLE_NS


def test_readings_and_events_of_days_ago_date_nothing() -> None:
    """A clock that jumps back dates a reading to days ago, before its offset is measured: the port was not down then.

    The events of a host's agent are corrected by the clock that its NICs' samples show.
    """
    own = begun(Measure(DetectParams()))
    shown: list[Symptom] = []

    def read(t: float, source: Source, *, is_up: bool, behind_s: float = 0.0) -> None:
        reading = samples("p1-h1", t - behind_s, {Metric.OPER_UP: {"e0": float(is_up)}}, source=source, received=t)
        shown.extend(_states(own.process([replace(reading, sequence=round(t))])))

    for t in range(0, 100, 10):
        read(t, NIC, is_up=True)
    read(95, Source.SOURCE_HOST, is_up=True)
    late_s = 3 * 86_400
    read(100, NIC, is_up=False, behind_s=late_s)
    assert shown == []
    for t in range(110, 170, 10):
        read(t, NIC, is_up=False, behind_s=late_s)
    (down,) = shown
    assert at(90) <= down.at_ns <= at(150)
    event = Event("p1-h1", "e0", EventKind.LINK_UP, at(170 - late_s), at(170), Source.SOURCE_HOST, "agent", 1, 0)
    (up,) = _states(own.process([event]))
    assert up.at_ns == pytest.approx(at(170), abs=ns(1))


def _states(outputs: Iterable[Output]) -> list[Symptom]:
    kinds = (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)
    return [one.message for one in outputs if isinstance(one.message, Symptom) and one.message.kind in kinds]
