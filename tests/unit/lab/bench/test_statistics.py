"""Quantiles, slopes and what counts as growing."""

import pytest

from lab.bench.statistics import Spread, grows, slope, spread_of, spread_of_histogram


def test_a_spread_names_the_smallest_value_that_enough_do_not_exceed() -> None:
    """Of the numbers 1 to 200 half are at most 100 and 99 of 100 at most 198."""
    assert spread_of([float(i) for i in range(200, 0, -1)]) == Spread(200, 100.0, 198.0, 200.0)
    assert spread_of([]) == Spread(0)
    assert spread_of([3.0]) == Spread(1, 3.0, 3.0, 3.0)


def test_counts_spread_as_the_values_they_count() -> None:
    """Values with a count each are the same as so many values."""
    counts = {0.01: 7, 0.5: 90, 2.0: 3}
    values = [value for value, count in counts.items() for _ in range(count)]
    assert spread_of_histogram(counts) == spread_of(values)


@pytest.mark.parametrize(
    ("lags", "growing"),
    [
        ([0, 100, 0, 100, 0, 100, 0, 100, 0], False),
        ([0, 10, 20, 30, 40, 50, 60, 70, 80], True),
        ([80, 70, 60, 50, 40, 30, 20, 10, 0], False),
        ([5, 5], False),
    ],
)
def test_a_lag_grows_when_it_ends_well_above_where_it_began(lags: list[int], growing: bool) -> None:
    """One that goes up and down, or comes down, does not; one that rises by more than is allowed does."""
    assert grows([(float(i), float(lag)) for i, lag in enumerate(lags)], 40.0) is growing


def test_the_slope_is_that_of_a_line() -> None:
    """A line's slope is its own, noise that is even changes nothing, and one look has none."""
    assert slope([(t, 3.0 + 2.0 * t) for t in range(10)]) == pytest.approx(2.0)
    assert slope([(0, 5.0)]) == 0.0
