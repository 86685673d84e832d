"""device/clock-skew: clocks of devices, hosts and collectors; the table of what must not fire comes first."""

from collections.abc import Callable
from functools import cache

import pytest

from streams.detect.measure.source_clock import ClockChange, SourceClock
from streams.detect.thresholds import ns
from streams.wire.models import Condition, Finding, Message, Severity, Status
from tests.worlds.live_stages import Offset, Played, in_order, play_live
from tests.worlds.observations import at
from tests.worlds.small_world import SmallWorld, recorded

UNTIL_S = 1400
BAD = "p1-h1"
YEAR_S = 365 * 86400.0


@cache
def messages() -> tuple[Message, ...]:
    """Return 23 minutes of a healthy fabric."""
    return tuple(in_order(recorded(SmallWorld(), UNTIL_S)))


def of_bad(offset: Callable[[float], float]) -> Offset:
    """Return the offsets of one device, by time."""
    return lambda device, t: offset(t) if device == BAD else 0.0


def of_clocks(played: Played) -> list[Finding]:
    return [one for one in played.findings if one.condition is Condition.DEVICE_CLOCK_SKEW]


NOTHING: dict[str, Callable[[float], float]] = {
    "right": lambda _: 0.0,
    "0.9 s ahead": lambda _: 0.9,
    "4 s ahead": lambda _: 4.0,
    "4 s behind": lambda _: -4.0,
    "9 s behind": lambda _: -9.0,
    "one reading of a year ahead": lambda t: YEAR_S if 500 <= t < 510 else 0.0,
    "two readings an hour ahead": lambda t: 3600.0 if 500 <= t < 520 else 0.0,
    "readings that arrive late now and then": lambda t: -25.0 if t % 50 == 0 else 0.0,
    "a backlog of ten minutes that is sent": lambda t: -max(0.0, 600 - 0.8 * t),
}


@pytest.mark.parametrize("name", NOTHING)
def test_it_gives_no_finding(name: str) -> None:
    """Small offsets are corrected without a finding, and delays are no clocks."""
    assert of_clocks(play_live(messages(), of_bad(NOTHING[name]))) == []


FOUND: dict[str, tuple[Callable[[float], float], float, Severity, float, float | None]] = {
    # offset by time, largest offset, severity, start and end
    "25 s behind": (lambda _: -25.0, -25, Severity.INFO, 0, None),
    "29 s ahead": (lambda _: 29.0, 29, Severity.INFO, 0, None),
    "an hour ahead": (lambda _: 3600.0, 3600, Severity.WARNING, 0, None),
    "a year ahead": (lambda _: YEAR_S, YEAR_S, Severity.WARNING, 0, None),
    "1970": (lambda _: 1000 - at(0) / 1e9, 1000 - at(0) / 1e9, Severity.WARNING, 0, None),
    "a jump, set right": (lambda t: 600.0 if 500 <= t < 900 else 0.0, 600, Severity.WARNING, 500, 900),
    "always 3 s ahead, then an hour": (
        lambda t: 3600.0 if 500 <= t < 900 else 3.0, 3600, Severity.WARNING, 500, 900,
    ),
    "always 3 s ahead, then random": (
        lambda t: 100 + (t * 7919) % 3600 if t >= 500 else 3.0, 3600, Severity.WARNING, 500, None,
    ),
    "back an hour, set right": (lambda t: -3600.0 if 500 <= t < 900 else 0.0, -3600, Severity.WARNING, 500, 900),
    "forth and back each minute": (
        lambda t: 3600.0 if 500 <= t < 1100 and t % 120 < 60 else 0.0, 3600, Severity.WARNING, 500, 1020,
    ),
    "each second reading ahead": (
        lambda t: 3600.0 if 500 <= t < 900 and t % 20 < 10 else 0.0, 3600, Severity.WARNING, 500, 890,
    ),
    "random and ahead": (lambda t: 100 + (t * 7919) % 3600, 3600, Severity.WARNING, 0, None),
    "a drift of 0.5 s in 10 s": (lambda t: t / 20, 70, Severity.INFO, 100, None),
    "a drift back of 0.5 s in 10 s": (lambda t: -t / 20, -70, Severity.INFO, 200, None),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_a_wrong_clock_is_one_finding_with_its_offset(name: str) -> None:
    """It is no page, names the device, and has begin and end of the offset."""
    offset, largest_s, severity, start_s, end_s = FOUND[name]
    (found,) = of_clocks(play_live(messages(), of_bad(offset)))
    assert found.subject.id == f"device:{BAD}"
    assert found.severity is severity
    measured_s = max((evidence.observed or 0.0 for evidence in found.evidence), key=abs)
    of_largest = 1 / 2 if "drift" in name else 1 / 8  # an offset that doubled is a revision
    assert abs(measured_s - largest_s) <= max(2, abs(largest_s) * of_largest)
    assert abs(found.started_at_ns - at(start_s)) <= ns(21)
    if end_s is None:
        assert found.resolved_at_ns is None
    else:
        assert found.status is Status.RESOLVED
        assert abs((found.resolved_at_ns or 0) - at(end_s)) <= ns(11)


def test_a_drift_is_published_less_often_the_further_it_is() -> None:
    """Drift from 1 to 70 s: no revision for each measured offset."""
    played = play_live(messages(), of_bad(lambda t: t / 20))
    (found,) = of_clocks(played)
    revisions = [one for one in played.live.published if isinstance(one, Finding) and one.id == found.id]
    assert len(revisions) <= 20


def test_a_site_with_a_broken_ntp_is_one_finding_with_children() -> None:
    """All devices jump within half a minute: the first of a site is the root and counts the others; none is a page."""
    by_name = SmallWorld().topology.devices
    devices = sorted(by_name)
    found = of_clocks(play_live(messages(), lambda device, t: 7200.0 * (t >= 500 + 2 * devices.index(device))))
    assert {one.subject.id for one in found} == {f"device:{device}" for device in devices}
    roots = {one.id: one for one in found if not one.parent_id}
    assert len(roots) == len({device.site for device in by_name.values()})
    for one in found:
        root = roots[one.parent_id or one.id]
        assert root.subject.site == one.subject.site
        count = sum(device.site == one.subject.site for device in by_name.values())
        assert f"the clocks of {count} of {count} devices" in root.summary
    assert {one.severity for one in found} == {Severity.WARNING}


@pytest.mark.parametrize("offset_s", [25.0, 7200.0, -25.0, -3600.0])
def test_a_collector_with_a_wrong_clock_is_one_finding(offset_s: float) -> None:
    """Its statuses show it; the devices that it reads have right clocks."""
    own = play_live(messages(), of_bad(lambda _: 0.0), collector=lambda _, t: offset_s * (t >= 300))
    (found,) = own.findings
    assert (found.condition, found.subject.id) == (Condition.DEVICE_CLOCK_SKEW, "collector:g0")
    assert abs((found.evidence[0].observed or 0) - offset_s) <= 1


def test_a_measure_that_lost_its_state_finds_no_second_episode() -> None:
    """The clock is measured again, with a later beginning."""
    offset = of_bad(lambda t: 3600.0 if 300 <= t < 900 else 0.0)
    (found,) = of_clocks(play_live(messages(), offset, lose_state_at=600))
    assert abs(found.started_at_ns - at(300)) <= ns(11)
    assert abs((found.resolved_at_ns or 0) - at(900)) <= ns(11)


def test_a_late_sample_of_a_wrong_clock_does_not_begin_another_interval() -> None:
    """It was read before the clock was set right, and arrives after a sample of the right clock."""
    clock = SourceClock()
    for t in range(0, 50, 10):
        clock.add(ns(1000 + t + 3600), ns(1000 + t))
    assert clock.reported_ns == 0
    assert clock.report(ClockChange.MEASURED) is not None
    assert clock.add(ns(1050), ns(1050)) is ClockChange.NONE
    assert clock.add(ns(1045 + 3600), ns(1045)) is ClockChange.NONE
    assert clock.add(ns(1080), ns(1080)) is ClockChange.RIGHT
    reported = clock.report(ClockChange.RIGHT)
    assert reported is not None
    assert reported[-1] == ns(1050)
