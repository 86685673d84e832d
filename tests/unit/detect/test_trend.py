"""Forecasts of points on a line, and the points without a forecast."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.detect.evidence.params import TrendParams
from streams.detect.evidence.trend import Point, fit, forecast_crossing, uncorrectable_probability
from streams.detect.thresholds import ns

HOUR = 3600.0
PARAMS = TrendParams()


def line(*levels: float, every: float = HOUR) -> list[Point]:
    """Levels at equal distances in time."""
    return [(ns(n * every), level) for n, level in enumerate(levels)]


NOTHING: dict[str, list[Point]] = {
    "no points": [],
    "three points": line(1, 2, 3),
    "points of one moment": line(1, 2, 3, 4, every=0),
    "points within ten minutes": line(1, 2, 3, 4, every=190),
    "a level that stands": line(5, 5, 5, 5, 5),
    "away from the limit": line(5, 4, 3, 2),
    "to and fro": line(1, 3, 1, 3, 2, 4, 1, 5),
    "a curve": line(1, 1.05, 1.1, 1.2, 1.4, 2.2, 4.4),
    "further than a week": line(1, 1.01, 1.02, 1.03),
    "reached already": line(8, 9, 10, 11),
}


@pytest.mark.parametrize("points", NOTHING.values(), ids=NOTHING)
def test_unsuitable_points_have_no_forecast(points: list[Point]) -> None:
    """Too few, too quick, not on a line, the wrong way, or too far."""
    assert forecast_crossing(PARAMS, points, 10) is None


def test_points_on_a_line_have_an_exact_forecast() -> None:
    """A straight line has an interval of no width."""
    found = forecast_crossing(PARAMS, line(1, 2, 3, 4), 10)
    assert found is not None
    assert (found.at_ns, found.earliest_ns, found.latest_ns) == pytest.approx((ns(9 * HOUR),) * 3)


@pytest.mark.parametrize("down", [False, True])
def test_the_interval_contains_the_crossing_nineteen_times_of_twenty(down: bool) -> None:
    """Over 400 noisy lines of known slope; upwards and downwards alike."""
    chance, inside, forecasts = random.Random(7), 0, 0
    for _ in range(400):
        sign = -1 if down else 1
        points = line(*(sign * (n + chance.gauss(0, 0.2)) for n in range(8)))
        if (found := forecast_crossing(PARAMS, points, sign * 20.0)) is not None:
            forecasts += 1
            inside += found.earliest_ns <= ns(20 * HOUR) <= found.latest_ns
    assert forecasts > 300
    assert 0.92 <= inside / forecasts <= 1.0


@settings(max_examples=50)
@given(st.lists(st.floats(-100, 100), min_size=3, max_size=12), st.integers(0, 10**18))
def test_a_shift_in_time_shifts_the_answer(levels: list[float], by_ns: int) -> None:
    """No forecast depends on when it is made."""
    here, there = (
        forecast_crossing(PARAMS, line(*levels), 50),
        forecast_crossing(PARAMS, [(at + by_ns, x) for at, x in line(*levels)], 50),
    )
    assert (here is None) == (there is None)
    if here is not None and there is not None:
        assert abs(there.at_ns - by_ns - here.at_ns) <= 10**6


def test_a_fit_of_two_points_is_none() -> None:
    """A line through two points has no error, so nothing is known of it."""
    assert fit(line(1, 2)) is None


def test_fec_bins_foretell_the_codewords_past_the_last() -> None:
    """The tail of a straight histogram, as a geometric sum; none of a histogram that rises or has too few bins."""
    bins = [1e12 * 0.1**n for n in range(16)]
    found = uncorrectable_probability(bins)
    assert found is not None
    assert found[0] == pytest.approx(1e12 * 0.1**16 / (1 - 0.1) / sum(bins), rel=0.01)
    assert found[1] == pytest.approx(1.0)
    assert uncorrectable_probability([1e12, 5, 3, 1]) is None
    assert uncorrectable_probability([1e12, 1, 2, 3, 4, 5]) is None
    assert uncorrectable_probability([0, 0, 0]) is None
