"""Numbers from many numbers: quantiles, and whether a lag grows."""

from collections.abc import Sequence
from dataclasses import dataclass

Observation = tuple[float, float]
"""(seconds since the start of the window, what was seen)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How many there were, and how they lie."""

    count: int
    p50: float | None = None
    p99: float | None = None
    worst: float | None = None


def spread_of(values: Sequence[float]) -> Spread:
    """Of these values: the smallest that half, and 99 of 100, do not exceed, and the largest."""
    if not values:
        return Spread(0)
    ordered = sorted(values)
    return Spread(len(ordered), _quantile(ordered, 0.5), _quantile(ordered, 0.99), ordered[-1])


def spread_of_histogram(counts: dict[float, int]) -> Spread:
    """The same of values that occur so often each."""
    total = sum(counts.values())
    if not total:
        return Spread(0)
    ordered = sorted(counts.items())
    return Spread(
        total, _weighted_quantile(ordered, 0.5 * total), _weighted_quantile(ordered, 0.99 * total), ordered[-1][0]
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def _weighted_quantile(ordered: Sequence[tuple[float, int]], needed: float) -> float:
    seen = 0
    for value, count in ordered:
        seen += count
        if seen >= needed:
            return value
    return ordered[-1][0]


def grows(lags: Sequence[Observation], allowed: float) -> bool:
    """Whether the last third of the looks lies on average more than `allowed` above the first third."""
    third = len(lags) // 3
    if not third:
        return False
    first = sum(lag for _, lag in lags[:third]) / third
    last = sum(lag for _, lag in lags[-third:]) / third
    return last - first > allowed


def slope(looks: Sequence[Observation]) -> float:
    """By how much it grows a second: the straight line of least squares."""
    if len(looks) < 2:
        return 0.0
    mean_at = sum(at for at, _ in looks) / len(looks)
    mean = sum(value for _, value in looks) / len(looks)
    spread_at = sum((at - mean_at) ** 2 for at, _ in looks)
    return sum((at - mean_at) * (value - mean) for at, value in looks) / spread_at if spread_at else 0.0
