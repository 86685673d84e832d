"""Stretches of time as pairs of ns, and what is left when some are taken from others."""

from collections.abc import Iterable, Sequence

from streams.detect.evidence.link_history import merge_intervals

Interval = tuple[int, int]


def total_length(spans: Iterable[Interval]) -> int:
    """How long they are together; they do not overlap."""
    return sum(end - begin for begin, end in spans)


def merge(spans: Iterable[Interval]) -> list[Interval]:
    """The same time without overlaps, in order."""
    return merge_intervals(span for span in spans if span[0] < span[1])


def intersect(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The time that is in both."""
    return merge((max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d))


def overlaps_any(spans: Iterable[Interval], begin: int, end: int) -> bool:
    """Whether any of them has a moment of it; a moment may be all that it is."""
    return any(b < max(end, begin + 1) and begin < e for b, e in spans)
