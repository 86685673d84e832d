"""Computes with half-open intervals [begin, end) of integer nanoseconds, as plain pairs.

`closed` converts a closed interval [begin, end] to [begin, end + 1). An interval with equal ends has no length, but it
overlaps an interval around it, and `merge_intervals` retains it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Interval = tuple[int, int]
_T = TypeVar("_T")


def closed(begin: int, end: int) -> Interval:
    """Return the interval that includes its last nanosecond."""
    return begin, end + 1


def overlaps_any(intervals: Iterable[Interval], one: Interval) -> bool:
    """Return whether an interval overlaps any of the others."""
    begin, end = one
    return any(first < end and begin < last for first, last in intervals)


def merge_intervals(intervals: Iterable[Interval], gap_ns: int = 0) -> list[Interval]:
    """Return the intervals in order, joining those that overlap, touch or lie less than `gap_ns` apart."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1] + max(0, gap_ns - 1):
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def split_at_gaps(items: Iterable[_T], span_of: Callable[[_T], Interval], gap_ns: int) -> Iterator[list[_T]]:
    """Yield runs of items in order of their begin: each begins at most `gap_ns` after the end of those before it."""
    run: list[_T] = []
    run_end = 0
    for item in items:
        begin, end = span_of(item)
        if run and begin > run_end + gap_ns:
            yield run
            run = []
        run_end = max(run_end, end) if run else end
        run.append(item)
    if run:
        yield run


def intersect(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the time that is in both, in order; neither must be merged."""
    return merge_intervals((max(a, c), min(b, d)) for a, b in some for c, d in others if max(a, c) < min(b, d))


def clip(intervals: Iterable[Interval], within: Interval) -> Iterator[Interval]:
    """Yield the part of each interval that lies within another; skips intervals without such a part."""
    begin, end = within
    for first, last in intervals:
        if max(first, begin) < min(last, end):
            yield max(first, begin), min(last, end)


def total_length(intervals: Iterable[Interval]) -> int:
    """Return the total length of merged or disjoint intervals."""
    return sum(end - begin for begin, end in intervals)


def max_overlap(intervals: Iterable[Interval]) -> int:
    """Return the largest number of intervals that contain one time."""
    changes = sorted(change for begin, end in intervals for change in ((begin, 1), (end, -1)))
    most = count = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most
