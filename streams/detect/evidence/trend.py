"""Forecasts when a level crosses its limit, with a straight line through its past.

Uses ordinary least squares over few points, so the interval is Student's at 95 %. There is no forecast if the points do
not support one: too few, in too short a time, not on a line, or with a slope whose interval includes zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streams.detect.evidence.params import TrendParams
from streams.detect.thresholds import ns

Point = tuple[int, float]
"""(event time in ns, level)"""

_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 8: 2.306, 10: 2.228, 15: 2.131, 30: 2.042}
"""Two-sided 95 % quantiles by degrees of freedom, from any table of Student's distribution."""


@dataclass(frozen=True, slots=True)
class LinearFit:
    """A line through points: the level at the mean of their times, the slope per second, and the errors of both."""

    mean_ns: int
    mean: float
    slope: float
    slope_error: float
    mean_error: float
    r2: float
    points: int

    @property
    def t_quantile_bound(self) -> float:
        """Return the quantile for its degrees of freedom, or for the next fewer in the table."""
        return _STUDENT[max((free for free in _STUDENT if free <= self.points - 2), default=1)]


def fit(points: Sequence[Point]) -> LinearFit | None:
    """Return the line through the points; None for fewer than three, or for points of one time."""
    count = len(points)
    if count < 3:
        return None
    mean_ns = sum(at for at, _ in points) // count
    mean = sum(level for _, level in points) / count
    offsets = [((at - mean_ns) / 1e9, level - mean) for at, level in points]
    xx, xy, yy = sum(x * x for x, _ in offsets), sum(x * y for x, y in offsets), sum(y * y for _, y in offsets)
    if xx == 0:
        return None
    slope = xy / xx
    rest = max(0.0, yy - slope * xy)
    spread = rest / (count - 2)
    r2 = 1 - rest / yy if yy > 0 else 0.0
    return LinearFit(mean_ns, mean, slope, math.sqrt(spread / xx), math.sqrt(spread / count), r2, count)


@dataclass(frozen=True, slots=True)
class CrossingForecast:
    """The time at which a line crosses a limit, with the earliest and the latest of its 95 % interval."""

    at_ns: int
    earliest_ns: int
    latest_ns: int


def forecast_crossing(params: TrendParams, points: Sequence[Point], limit: float) -> CrossingForecast | None:
    """Return the forecast of the limit's crossing; None if the points do not support one."""
    line = fit(points)
    if line is None or line.points < params.points or line.r2 < params.r2:
        return None
    now_ns = points[-1][0]
    if now_ns - points[0][0] < ns(params.span_s):
        return None
    missing = limit - line.mean
    way = math.copysign(1.0, missing)
    slope, doubt = line.slope * way, line.t_quantile_bound * line.slope_error
    if slope - doubt <= 0:
        return None
    level_doubt = line.t_quantile_bound * line.mean_error
    at_ns, earliest_ns, latest_ns = (
        line.mean_ns + round(max(0.0, distance) / speed * 1e9)
        for distance, speed in (
            (abs(missing), slope),
            (abs(missing) - level_doubt, slope + doubt),
            (abs(missing) + level_doubt, slope - doubt),
        )
    )
    if not now_ns < at_ns <= now_ns + ns(params.horizon_s) or latest_ns > now_ns + 3 * ns(params.horizon_s):
        return None
    return CrossingForecast(at_ns, max(earliest_ns, now_ns), latest_ns)


def uncorrectable_probability(bins: Sequence[float]) -> tuple[float, float] | None:
    """Return (share of codewords that FEC will not correct, R2), extrapolated from a histogram of symbol errors.

    SONiC's FEC_FLR_PREDICTED (DETECTION 2): a straight line through log10 of the share of each bin from 1 on, extended
    beyond the last bin. None for fewer than four bins with counts, or if the histogram does not fall.
    """
    total = sum(bins)
    shares = [(i, math.log10(count / total)) for i, count in enumerate(bins) if i and count > 0]
    line = fit([(i * 10**9, level) for i, level in shares]) if len(shares) >= 4 else None
    if line is None or line.slope >= 0:
        return None
    first = line.mean + line.slope * (len(bins) - line.mean_ns / 1e9)
    return 10**first / (1 - 10**line.slope), line.r2
