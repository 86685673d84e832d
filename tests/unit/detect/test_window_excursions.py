"""Gauges in windows: what they were for most of the time counts, and not their last reading."""

from collections.abc import Sequence

import pytest

from streams.fabric.catalogue import Metric
from streams.wire.models import Condition, Finding, LevelExtreme, Message, Samples, Status, Window
from tests.worlds.arbitrary_windows import T0_IN_WINDOW
from tests.worlds.measure_stage import stage
from tests.worlds.observations import after, last, samples
from tests.worlds.small_world import play

BER, POWER, UP = Metric.PRE_FEC_BER, Metric.RX_POWER_DBM, Metric.OPER_UP
Values = Sequence[float | None]


def read(values: Values, metric: Metric = BER, every: float = 5) -> list[Samples]:
    """A gauge of one port, read each `every` seconds from the begin of a window on."""
    return [
        samples("p1-l0", -T0_IN_WINDOW + n * every, {UP: {"d1": 1.0}, metric: {"d1": v}}) for n, v in enumerate(values)
    ]


def windows(messages: Sequence[Message], *, killed: bool = False) -> list[Window]:
    """The windows that are sent; with `killed` the stage is restored from its snapshot now and then."""
    own, found = stage(), []
    for number, message in enumerate(messages):
        if killed and number % 9 == 4:
            own, state = stage(), own.snapshot()
            own.restore(state)
        found += [o.message for o in own.process([message]) if isinstance(o.message, Window)]
    return found


def minutes(*of_minute: Values) -> list[float | None]:
    return [value for minute in of_minute for value in minute]


BAD, GOOD = 1.5e-4, 2e-7
MOSTLY_BAD = [BAD] * 10 + [GOOD] * 2
MOSTLY_GOOD = [GOOD] * 11 + [BAD]
QUIET = [GOOD] * 12


def degrading(messages: Sequence[Message]) -> list[Finding]:
    """The last revisions of link/degrading that a backtest publishes."""
    found = [one for one in play(messages) if isinstance(one, Finding) and one.condition is Condition.LINK_DEGRADING]
    return [one for one in last(found) if one.status is not Status.RETRACTED]


QUIET_FOR: dict[str, list[float | None]] = {
    "a single bad reading": minutes(*[QUIET] * 3, MOSTLY_GOOD, *[QUIET] * 20),
    "a bad reading in each of two minutes": minutes(QUIET, MOSTLY_GOOD, MOSTLY_GOOD, *[QUIET] * 20),
    "a BER that is below the limit": minutes([9e-6] * 240),
    "two readings at a hundred times the limit": minutes(QUIET, [GOOD] * 5 + [1e-3] * 2 + [GOOD] * 5, *[QUIET] * 20),
}


@pytest.mark.parametrize("values", QUIET_FOR.values(), ids=QUIET_FOR)
def test_what_is_no_degrading_link(values: list[float | None]) -> None:
    """Single readings and levels below the limit."""
    assert degrading(read(values)) == []


def test_a_ber_that_fails_for_most_of_each_minute_is_found_within_minutes() -> None:
    """Whatever the last reading of the minute is."""
    (found,) = degrading(read(MOSTLY_BAD * 10))
    assert (after(found.detected_at_ns) or 0) <= 180
    assert found.evidence[0].observed == pytest.approx(BAD * 50 / 60, rel=0.02)


def test_a_minute_at_fifteen_times_the_limit_is_found_when_its_window_is_final() -> None:
    """The mean of ten minutes is above the limit then: no second failure, an hour later, is needed."""
    (found,) = degrading(read(minutes(*[QUIET] * 5, QUIET[:6] + [BAD] * 6, [BAD] * 6 + QUIET[:6], *[QUIET] * 30)))
    assert (after(found.detected_at_ns) or 0) <= 450
    assert found.status is Status.RESOLVED


def test_a_loss_of_light_within_a_minute_is_sent_with_its_lowest_reading() -> None:
    """A receive power that is back before the minute ends."""
    found = windows(read(minutes([-3.0] * 24, [-3.0] * 4 + [-6.5, -7.5, -7.0] + [-3.0] * 5, [-3.0] * 36), POWER))
    assert found[0].extremes == (LevelExtreme(POWER, -1, -7.5, 15.0, 3),)
    assert found[0].value == (-3.0,)


def test_three_minutes_with_a_dip_of_light_are_a_degrading_link() -> None:
    """INFO, as every loss of light that loses no frame."""
    dip = [-3.0] * 4 + [-7.0] * 3 + [-3.0] * 5
    (found,) = degrading(read(minutes([-3.0] * 36, dip, [-3.0] * 12, dip, [-3.0] * 12, dip, [-3.0] * 24), POWER))
    assert found.evidence[0].observed == pytest.approx(4.0)


def test_readings_weigh_by_the_time_since_the_one_before() -> None:
    """Ten readings in the first ten seconds weigh as much as two of five seconds each."""
    times = [0, *range(60, 70), *range(75, 121, 15), *range(130, 241, 10)]
    found = windows([
        samples("p1-l0", t - T0_IN_WINDOW, {BER: {"d1": BAD if 60 < t < 70 else GOOD}}) for t in times
    ])  # fmt: skip
    assert found[0].value[0] == pytest.approx((9 * BAD + 96 * GOOD) / 105, rel=0.02)
