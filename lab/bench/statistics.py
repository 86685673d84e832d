"""Computes statistics: quantiles, growth and slope."""

from collections.abc import Sequence
from dataclasses import dataclass

Observation = tuple[float, float]
"""(seconds since the start of the window, value)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The count, median, 99th percentile and maximum of some values."""

    count: int
    p50: float | None = None
    p99: float | None = None
    worst: float | None = None


def spread_of(values: Sequence[float]) -> Spread:
    """Return the spread of these values; a quantile is the smallest value that this share does not exceed."""
    if not values:
        return Spread(0)
    ordered = sorted(values)
    return Spread(len(ordered), _quantile(ordered, 0.5), _quantile(ordered, 0.99), ordered[-1])


def spread_of_histogram(counts: dict[float, int]) -> Spread:
    """Return the spread of values with their counts."""
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
    """Return True if the mean of the last third is more than `allowed` above the mean of the first third."""
    third = len(lags) // 3
    if not third:
        return False
    first = sum(lag for _, lag in lags[:third]) / third
    last = sum(lag for _, lag in lags[-third:]) / third
    return last - first > allowed


def slope(observations: Sequence[Observation]) -> float:
    """Return the growth per second, by the least-squares line."""
    if len(observations) < 2:
        return 0.0
    mean_at = sum(at for at, _ in observations) / len(observations)
    mean = sum(value for _, value in observations) / len(observations)
    spread_at = sum((at - mean_at) ** 2 for at, _ in observations)
    return sum((at - mean_at) * (value - mean) for at, value in observations) / spread_at if spread_at else 0.0
