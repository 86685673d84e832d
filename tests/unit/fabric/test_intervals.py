"""Interval arithmetic agrees with sets of nanoseconds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.intervals import (
    Interval,
    clip,
    closed,
    intersect,
    max_overlap,
    merge_intervals,
    overlaps_any,
    split_at_gaps,
    total_length,
)

TIMES = range(-2, 45)
interval = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: (min(ends), max(ends)))
some = st.lists(interval.filter(lambda one: one[0] < one[1]), max_size=6)


def moments(intervals: list[Interval]) -> set[int]:
    """Return every nanosecond in the intervals."""
    return {at for begin, end in intervals for at in range(begin, end)}


@given(some)
def test_merged_intervals_have_the_same_moments_in_order_and_apart(intervals: list[Interval]) -> None:
    """Their length is the number of these moments, and merging twice changes nothing."""
    merged = merge_intervals(intervals)
    assert moments(merged) == moments(intervals)
    assert all(first[1] < second[0] for first, second in pairwise(merged))
    assert total_length(merged) == len(moments(intervals))
    assert merge_intervals(merged) == merged


@given(some, some)
def test_the_intersection_has_the_moments_of_both(one: list[Interval], other: list[Interval]) -> None:
    """The order of the arguments does not matter."""
    assert moments(intersect(one, other)) == moments(one) & moments(other)
    assert intersect(one, other) == intersect(other, one)


@given(some, interval)
def test_clipped_intervals_lie_within(intervals: list[Interval], within: Interval) -> None:
    """Each keeps the moments that it has in common with the limits."""
    assert moments(list(clip(intervals, within))) == moments(intervals) & moments([within])


@given(some, interval.filter(lambda one: one[0] < one[1]))
def test_overlap_is_a_common_moment(intervals: list[Interval], one: Interval) -> None:
    """Intervals that touch have none."""
    assert overlaps_any(intervals, one) == bool(moments(intervals) & moments([one]))


@given(some, st.integers(1, 9))
def test_a_gap_joins_what_lies_less_than_it_apart(intervals: list[Interval], gap: int) -> None:
    """Between merged intervals is at least the gap."""
    merged = merge_intervals(intervals, gap)
    assert moments(merged) >= moments(intervals)
    assert all(second[0] - first[1] >= gap for first, second in pairwise(merged))


@given(some, st.integers(0, 9))
def test_runs_are_divided_where_a_gap_is_longer(intervals: list[Interval], gap: int) -> None:
    """The runs have all items in order, and extend over the merged intervals of their spans."""
    ordered = sorted(intervals)
    runs = list(split_at_gaps(ordered, lambda one: one, gap))
    assert [one for run in runs for one in run] == ordered
    spans = [(run[0][0], max(end for _, end in run)) for run in runs]
    assert spans == merge_intervals(ordered, gap + 1)


@given(some)
def test_the_largest_overlap_is_the_count_at_the_fullest_moment(intervals: list[Interval]) -> None:
    """An interval that begins as another ends does not overlap it."""
    assert max_overlap(intervals) == max((sum(b <= at < e for b, e in intervals) for at in TIMES), default=0)


def test_an_interval_of_no_length_has_a_place() -> None:
    """It overlaps what lies around it, is merged into it, and stands alone elsewhere."""
    assert overlaps_any([(1, 4)], (3, 3)) and not overlaps_any([(1, 4)], (4, 4))
    assert overlaps_any([(1, 4)], closed(0, 1)) and not overlaps_any([(1, 4)], (0, 1))
    assert merge_intervals([(1, 4), (3, 3), (7, 7)]) == [(1, 4), (7, 7)]
