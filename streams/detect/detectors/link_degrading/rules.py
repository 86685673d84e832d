"""Defines the rules of link/degrading: they find bad windows of a link's end, and decide when those make a case.

A hit is a window with a fault. It is a case if enough hits occurred together. Loss that follows the load is congestion
and no hit. Each rule is a line of DETECTION 3, with the limits in DegradingParams.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from streams.detect.evidence.params import TrendParams
from streams.detect.evidence.trend import Point, forecast_crossing
from streams.detect.evidence.windows import Side, WindowHit, indexed_values, total, value
from streams.detect.thresholds import Ratio, Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Window


class DegradingParams(Thresholds):
    """`[detect.degrading]`: DETECTION 3, "Degradation"."""

    span_s: ClassVar[float] = 600
    """Bad windows within this time count together."""
    windows: ClassVar[int] = 3
    """The fewest bad windows within `span_s`: a single error or burst is not a case."""
    errors: Annotated[int, Field(ge=2)] = 5
    """The fewest lost frames in them: a single CRC error on a busy link must not alert."""
    loss_ratio: Ratio = 1e-8
    """Ratio of lost frames above which CorrOpt (SIGCOMM'17) calls a link lossy; only if packets are counted."""
    ib_ber: ClassVar[float] = 1e-12
    """The BER that InfiniBand permits after every correction: 60 errors of EDR in ten minutes, and 480 of XDR."""
    replay_bytes: ClassVar[float] = 135_000
    """The most bytes that a replay sends again: what is outstanding on a link of 800 Gb/s (UE 1.0, LLR)."""
    ber: Ratio = 1e-5
    """The raw BER that fails (DETECTION 3)."""
    ber_clear: Ratio = 5e-6
    """The BER is healthy again below this: the hysteresis."""
    symbols_per_min: ClassVar[float] = 2
    """IBTA's 120 an hour, if no BER is known: PAM4 links always have raw errors."""
    recoveries_per_min: ClassVar[float] = 5
    """InfiniBand's link_error_recovery (DETECTION 3)."""
    drop_db: Annotated[float, Field(gt=0)] = 3
    """Power or SNR lost against the best of the last week: half the light."""
    drop_clear_db: Annotated[float, Field(gt=0)] = 2
    """The loss is over below this: the hysteresis of `drop_db`."""
    one_lane: ClassVar[float] = 0.75
    """Share of raw errors on one of several lanes: one fiber or laser. A real bad cable in `data/nic` has 99.8 %."""
    follows_load: ClassVar[float] = 0.7
    """Correlation of the lost share with the load: loss that follows utilization is congestion (CorrOpt)."""
    quiet_s: ClassVar[float] = 600
    """Closes after this time without a bad window, if the port was read in it."""
    trend: TrendParams = TrendParams()
    trend_over_s: ClassVar[float] = 86_400
    """A forecast without a confirming step for a day did not come true."""


LOSSES = (
    Metric.RX_FCS_ERRORS, Metric.PCS_SYMBOL_ERRORS, Metric.FEC_UNCORRECTED_CODEWORDS, Metric.UNCORRECTED_SYMBOLS,
)  # fmt: skip
"""Counters of frames lost to the fiber. They count the same frames, so the largest is used, never their sum."""

OF_BITS = Metric.UNCORRECTED_SYMBOLS
"""InfiniBand limits errors by the bits of a link, not by its packets: `errors` in `span_s` are a BER of 1e-14 at 800
Gb/s, and 8e-14 at 100. A tool in use alerts above 1e-14, NVIDIA tests cables at 1e-15."""

PLR = (Metric.PLR_RX_UNCORRECTABLE, Metric.PLR_TX_RETRY_EVENTS)
REPLAYS = (Metric.LLR_RX_BAD, Metric.LLR_TX_REPLAYS, *PLR)
"""Counters of link-level retry (LLR, InfiniBand's PLR): what a receiver gets damaged, and how often a transmitter sends
again."""

OF_FAR_RECEIVER = (Metric.LLR_TX_REPLAYS, Metric.LLR_TX_DISCARDS, Metric.PLR_TX_RETRY_EVENTS)
"""A transmitter counts what the receiver at the other end of the link did not get."""

LEVELS = {
    Metric.RX_POWER_DBM: "receive power", Metric.TX_POWER_DBM: "transmit power",
    Metric.MEDIA_SNR_DB: "SNR of the fiber", Metric.HOST_SNR_DB: "SNR towards the switch or host",
}  # fmt: skip

TREND = "trend"
_HOUR_NS = ns(3600)


def rule_hits(params: DegradingParams, side: Side, sides: Mapping[Side, Sequence[Window]]) -> list[WindowHit]:
    """Return all hits of one side, in order of event time."""
    windows = sides[side]
    found = list(_losing(params, side, windows, _replayed_to(side, sides)))
    for rule in _RULES:
        found += rule(params, side, windows)
    return sorted(found, key=lambda hit: (hit.window.begin_ns, hit.rule, hit.index))


def _replayed_to(side: Side, sides: Mapping[Side, Sequence[Window]]) -> Callable[[Window], bool]:
    """Return whether LLR was up in a window in the direction to a side, so that damaged frames were sent again.

    Frames arrived by it (UE 1.0, 5.1). If the end does not count them: the far end sent again within the hour, of which
    one such window is retained.
    """
    hours = {
        window.begin_ns // _HOUR_NS
        for one, windows in sides.items()
        for window in windows
        if one[:2] != side[:2] and value(window, Metric.LLR_TX_REPLAYS)
    }

    def is_replayed(window: Window) -> bool:
        received = [value(window, metric) for metric in (Metric.LLR_RX_OK, Metric.LLR_RX_BAD)]
        return any(received) if any(one is not None for one in received) else window.begin_ns // _HOUR_NS in hours

    return is_replayed


def loss(window: Window, is_replayed: bool = False) -> tuple[Metric, float]:
    """Return the counter with the most lost frames of a window, and its growth; any errors if none is read.

    Where LLR is up, lost frames are those that its transmitter discards, and those with a bad FCS beyond the replayed
    ones and the ones that an earlier link damaged: control frames are not replayed.
    """
    known = [(count, metric) for metric in LOSSES if (count := value(window, metric)) is not None]
    if is_replayed:
        others = (value(window, metric) or 0.0 for metric in (Metric.LLR_RX_BAD, Metric.LLR_RX_POISONED))
        known = [(max(0.0, (value(window, Metric.RX_FCS_ERRORS) or 0.0) - sum(others)), Metric.RX_FCS_ERRORS)]
    if (discarded := value(window, Metric.LLR_TX_DISCARDS)) is not None:
        known.append((discarded, Metric.LLR_TX_DISCARDS))
    if known:
        count, metric = max(known)
        return metric, count
    return Metric.RX_ERRORS, value(window, Metric.RX_ERRORS) or 0.0


def replays(window: Window, is_replayed: bool) -> tuple[Metric, float]:
    """Return the counter of the most replayed frames of a window, and its growth; all of them count the same replays.

    Uncorrected codewords are named as the frames that they damage, also where the device does not count these.
    """
    known = [(value(window, metric) or 0.0, metric) for metric in REPLAYS]
    if is_replayed:
        damaged = (Metric.PCS_SYMBOL_ERRORS, Metric.FEC_UNCORRECTED_CODEWORDS)
        known += [(value(window, metric) or 0.0, Metric.LLR_RX_BAD) for metric in damaged]
    count, metric = max(known)
    return metric, count


def _recent(params: DegradingParams, windows: Sequence[Window], window: Window) -> list[Window]:
    first = bisect_right(windows, window.end_ns - ns(params.span_s), key=_end_ns)
    return list(windows[first : bisect_right(windows, window.end_ns, key=_end_ns)])


def _end_ns(window: Window) -> int:
    return window.end_ns


def _losing(
    params: DegradingParams, side: Side, windows: Sequence[Window], is_replayed: Callable[[Window], bool]
) -> Iterator[WindowHit]:
    """Yield windows with lost frames, and windows with replayed ones, which count alike."""
    for rule, counted in (("losing", loss), ("replaying", replays)):
        for window in windows:
            metric, count = counted(window, is_replayed(window))
            if not count:
                continue
            recent = _recent(params, windows, window)
            if metric is Metric.RX_ERRORS and is_congestion(params, recent):
                continue
            losing = [lost for w in recent if (lost := counted(w, is_replayed(w))[1])]
            packets = total(recent, Metric.RX_PACKETS) if metric not in (*OF_FAR_RECEIVER, OF_BITS) else None
            lossy = not packets or sum(losing) / packets >= params.loss_ratio
            case = len(losing) >= params.windows and sum(losing) >= params.errors and lossy
            yield WindowHit(side, window, rule, metric, sum(losing), float(params.errors), case)


def is_congestion(params: DegradingParams, windows: Sequence[Window]) -> bool:
    """Return whether errors that may be drops follow the load; corruption is stable over time (CorrOpt).

    If the load does not vary enough to decide, errors together with discards count as drops.
    """
    losing = [w for w in windows if loss(w)[1]]
    if not all(value(w, Metric.RX_DISCARDS) for w in losing):
        return False
    pairs = [(packets, loss(w)[1] / packets) for w in windows if (packets := value(w, Metric.RX_PACKETS))]
    correlation = _correlation(pairs)
    return correlation is None or correlation >= params.follows_load


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Pearson's r; None for fewer than four pairs or constant load, 0 for constant loss."""
    if len(pairs) < 4:
        return None
    means = [sum(p[i] for p in pairs) / len(pairs) for i in (0, 1)]
    xx, yy = (sum((p[i] - means[i]) ** 2 for p in pairs) for i in (0, 1))
    if xx <= (0.01 * means[0]) ** 2 * len(pairs):
        return None
    if yy <= (0.01 * means[1]) ** 2 * len(pairs):
        return 0.0
    return sum((x - means[0]) * (y - means[1]) for x, y in pairs) / math.sqrt(xx * yy)


def _noisy(params: DegradingParams, side: Side, windows: Sequence[Window]) -> Iterator[WindowHit]:
    """Yield windows whose mean BER is not healthy.

    Several failing windows make a case, or fewer if the mean over all of `span_s` fails, such as a minute at many times
    the limit. That mean needs as many readings, because one reading may be wrong.
    """
    for window in windows:
        ber = value(window, Metric.PRE_FEC_BER)
        if ber is None or ber < params.ber_clear:
            continue
        recent = _recent(params, windows, window)
        means = [mean for w in recent if (mean := value(w, Metric.PRE_FEC_BER) or 0) >= params.ber_clear]
        failing = sum(mean >= params.ber for mean in means)
        readings = sum(one.readings for w in recent for one in w.extremes if one.metric is Metric.PRE_FEC_BER)
        of_span = sum(means) * (window.end_ns - window.begin_ns) / ns(params.span_s)
        enough = failing >= params.windows or (of_span >= params.ber and readings >= params.windows)
        yield WindowHit(side, window, "noisy", Metric.PRE_FEC_BER, ber, params.ber, ber >= params.ber and enough)


def _counting(params: DegradingParams, side: Side, windows: Sequence[Window]) -> Iterator[WindowHit]:
    """Yield windows with symbol errors if no BER is read, and windows with link error recoveries."""
    limits = {
        Metric.RX_SYMBOL_ERRORS: params.symbols_per_min, Metric.LINK_ERROR_RECOVERIES: params.recoveries_per_min
    }  # fmt: skip
    for metric, limit in limits.items():
        over = [w for w in windows if _per_min(w, metric) >= limit]
        for window in over:
            if metric is Metric.RX_SYMBOL_ERRORS and value(window, Metric.PRE_FEC_BER) is not None:
                continue
            case = len(_recent(params, over, window)) >= params.windows
            yield WindowHit(side, window, metric.name.lower(), metric, _per_min(window, metric), limit, case)


def _per_min(window: Window, metric: Metric) -> float:
    return (value(window, metric) or 0.0) * 60e9 / max(window.at_ns - window.since_ns, 1)


def _fading(params: DegradingParams, side: Side, windows: Sequence[Window]) -> Iterator[WindowHit]:
    """Yield windows in which power or SNR is far below the best of the retained windows."""
    for metric, index in _levels(windows):
        best, dropped = -math.inf, []
        for window in windows:
            for lane, now, before in indexed_values(window, metric):
                if lane != index:
                    continue
                best, lowest = max(best, now, before), min(now, _lowest(window, metric, index))
                if best - lowest >= params.drop_clear_db:
                    dropped.append((window, best - lowest))
        dark = [window for window, _ in dropped if _is_dark(window, metric, index)]
        for window, drop in dropped:
            low = [w for w, d in dropped if d >= params.drop_db]
            case = drop >= params.drop_db and len(_recent(params, low, window)) >= params.windows
            case = case or (window in dark and len(_recent(params, dark, window)) >= _DARK_WINDOWS)
            yield WindowHit(side, window, "fading", metric, drop, params.drop_db, case, index)


_DARK = {Metric.RX_POWER_DBM: -29.5, Metric.MEDIA_SNR_DB: 0.0, Metric.HOST_SNR_DB: 0.0}
"""No signal at or below these: modules report at least -30 dBm (SFF-8636: 0.1 uW is -40 dBm)."""
_DARK_WINDOWS = 2
"""Windows without a signal at the end of an up link: one may be a wrong reading, and more than that is no fading."""


def _is_dark(window: Window, metric: Metric, index: int) -> bool:
    """Return whether the last reading of a window shows no signal."""
    levels = (now for lane, now, _ in indexed_values(window, metric) if lane == index)
    return any(now <= _DARK.get(metric, -math.inf) for now in levels)


def _lowest(window: Window, metric: Metric, index: int) -> float:
    """Return the lowest reading of a level that dipped within a window."""
    own = (one.value for one in window.extremes if (one.metric, one.index) == (metric, index))
    return min(own, default=math.inf)


def _levels(windows: Sequence[Window]) -> list[tuple[Metric, int]]:
    return sorted({(m, i) for w in windows for m, i in zip(w.metric, w.index, strict=True) if m in LEVELS})


def _trending(params: DegradingParams, side: Side, windows: Sequence[Window]) -> Iterator[WindowHit]:
    """Yield each step of a level towards its limit that supports a forecast."""
    for metric, index in [(Metric.PRE_FEC_BER, NO_INDEX), *_levels(windows)]:
        points: list[Point] = []
        best = -math.inf
        for window in windows:
            for lane, now, before in indexed_values(window, metric):
                if lane != index or now == before or (metric is Metric.PRE_FEC_BER and min(now, before) <= 0):
                    continue
                best = max(best, now, before)
                rises = metric is Metric.PRE_FEC_BER
                level, previous = (math.log10(now), math.log10(before)) if rises else (now, before)
                if not _is_step(metric, level - previous):
                    continue
                points = [*points, (window.at_ns, level)] if (level > previous) is rises else []
                limit = math.log10(params.ber) if rises else best - params.drop_db
                if (found := forecast_crossing(params.trend, points, limit)) is not None:
                    yield WindowHit(
                        side, window, TREND, metric, now, params.ber if rises else limit, True, index, found
                    )


def has_step(window: Window) -> bool:
    """Return whether a level moved by a step in a window."""
    return any(
        _is_step(metric, math.log10(now / before) if metric is Metric.PRE_FEC_BER else now - before)
        for metric, now, before in zip(window.metric, window.value, window.before, strict=True)
        if metric in LEVELS or (metric is Metric.PRE_FEC_BER and min(now, before) > 0)
    )


def _is_step(metric: Metric, moved: float) -> bool:
    """Return whether a level moved by a step of `[detect.window]`; a tenth less, for rounding."""
    return abs(moved) >= (0.225 if metric is Metric.PRE_FEC_BER else 0.45)


_RULES: tuple[Callable[[DegradingParams, Side, Sequence[Window]], Iterator[WindowHit]], ...] = (
    _noisy, _counting, _fading, _trending,
)  # fmt: skip
