"""Arithmetic of half-open intervals [begin, end) of integer nanoseconds, as plain pairs.

A closed interval [begin, end] is [begin, end + 1): `closed` makes one. An interval whose ends are equal has no length,
but it overlaps an interval that it lies inside of, and `merge_intervals` retains it.
"""

from collections.abc import Iterable, Iterator, Sequence

Interval = tuple[int, int]


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


def intersect(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the time that is in both, in order; neither needs to be merged."""
    return merge_intervals((max(a, c), min(b, d)) for a, b in some for c, d in others if max(a, c) < min(b, d))


def clip(intervals: Iterable[Interval], within: Interval) -> Iterator[Interval]:
    """Yield the part of each interval that lies within another; those without such a part are left out."""
    begin, end = within
    for first, last in intervals:
        if max(first, begin) < min(last, end):
            yield max(first, begin), min(last, end)


def total_length(intervals: Iterable[Interval]) -> int:
    """Return the summed length of intervals, which are merged or do not overlap."""
    return sum(end - begin for begin, end in intervals)


def max_overlap(intervals: Iterable[Interval]) -> int:
    """Return the largest number of intervals that contain one time."""
    changes = sorted(change for begin, end in intervals for change in ((begin, 1), (end, -1)))
    most = count = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most
