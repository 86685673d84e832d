"""Selects the final windows of ports to send: growth of counters and readings of gauges.

A window of a port is sent if errors grew for the second time within `watch` windows (then the first of them is sent
too), if a level moved by a step since it was last sent, or if a reading was beyond its limit. The next `watch` windows
of that port are also sent, so that a detector sees it recover. Isolated errors are not sent: a healthy fabric has 13 a
second, and each would cause eleven windows to send, evaluate and store. The detectors interpret the windows.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.column_store import NONE, Cells, Column, is_absent
from streams.detect.measure.storage.message_batch import ClosedWindows
from streams.detect.measure.storage.selection_state import BER, PortWindowReport, beyond_s, time_mean
from streams.detect.measure.storage.window_store import ERRORS, FEC, LEVELS, OPTICS, WindowColumns
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, LevelExtreme

_Levels = npt.NDArray[np.float64]
_Mask = npt.NDArray[np.bool_]

_SATURATING = {
    Metric.LINK_ERROR_RECOVERIES: 2**8 - 1,
    Metric.LOCAL_LINK_INTEGRITY_ERRORS: 2**4 - 1,
    Metric.RX_SYMBOL_ERRORS: 2**16 - 1,
}
"""InfiniBand's PortCounters have this width and stay at their maximum (DETECTION 1), without further growth."""

_ROUNDING = 1e-4
"""Sent levels are stored in four bytes."""

_LOWEST_BER = 1e-8
"""A tenth of the BER that DETECTION 3 ignores; below it a level does not move."""


class WindowSelector:
    """Selects the windows of ports to send."""

    def __init__(self, detect: DetectParams) -> None:
        self._params = params = detect.window
        self._steps = {Metric.PRE_FEC_BER: params.ber_step_decades, Metric.MODULE_TEMPERATURE_C: params.heat_step_c}
        self._steps |= dict.fromkeys(OPTICS, params.optics_step_db)
        self._high = float(np.log10(params.ber_report))
        self._symbols = params.symbols_per_min * params.width_s / 60

    def select(self, closed: ClosedWindows) -> Iterator[PortWindowReport]:
        """Yield the windows to send; those of one message are in the order of its rows."""
        devices, counters, own = closed.devices, closed.windows.counters, closed.windows.selection
        now, before = counters.closed[devices], counters.base[devices]
        last = own.sent_levels[devices].astype(np.float64)
        levels = self._levels(closed, now, before)
        extremes = self._apply_excursions(closed, levels, last)
        grew = self._grew(counters, now, before)
        notable = np.zeros_like(grew)
        if own.columns:
            moved, high = self._moved(own.columns, levels, last)
            notable |= (moved | high).any(axis=1)
            sent = np.where(moved | (np.isnan(last) & ~np.isnan(levels)), levels, last)
            own.set_sent_levels(devices, sent)
            for cell in extremes:
                notable[cell] = True
        to_send, isolated = self._to_send(closed, grew, notable)
        for i, row in _cells(to_send | isolated):
            report = _report(
                closed, i, row, (now[i, :, row], before[i, :, row]), (levels[i, :, row], last[i, :, row])
            )._replace(extremes=tuple(extremes.get((i, row), ())))
            device = int(devices[i])
            if not report.values:
                own.watch_until[device, row] += 1  # only windows with a reading show that a port recovered
                continue
            if isolated[i, row]:
                own.hold_isolated_error(device, report)
                continue
            if own.isolated_error_at[device, row] != NONE:
                yield own.pop_isolated_error(device, row)._replace(message=report.message)
            yield report

    def _apply_excursions(
        self, closed: ClosedWindows, levels: _Levels, last: _Levels
    ) -> dict[tuple[int, int], list[LevelExtreme]]:
        """Return the extremes of the windows with readings beyond a limit, by (index in `closed`, row).

        Sets the levels of a BER to its mean over the time of the window, which is the share of bits in error.
        """
        found: dict[tuple[int, int], list[LevelExtreme]] = {}
        windows = closed.windows
        excursions, gauges = windows.excursions, windows.gauges
        with_readings = list(excursions.readings)
        for i in np.flatnonzero(np.isin(closed.devices, with_readings)).tolist() if with_readings else ():
            device, begin_ns = int(closed.devices[i]), int(closed.numbers[i]) * windows.spec.width_ns
            for level, row, taken in excursions.take(device, begin_ns + windows.spec.width_ns):
                readings = [reading for reading in taken if reading.at_ns >= begin_ns]
                place = windows.selection.columns.index(level)
                if not readings or np.isnan(levels[i, place, row]):
                    continue
                if level == BER:
                    rest = 10 ** min((v for v in (levels[i, place, row], last[i, place, row]) if v < self._high),
                                     default=-np.inf)  # fmt: skip
                    column = gauges.index_of[level]
                    span = int(gauges.base_ns[device, column]), int(gauges.closed_ns[device, column])
                    mean = time_mean(readings, *span, rest)
                    levels[i, place, row] = np.log10(max(mean, _LOWEST_BER))
                    value = max(reading.value for reading in readings)
                else:
                    readings = excursions.dips(device, level, row, readings)
                    if not readings:
                        continue
                    value = min(reading.value for reading in readings)
                extreme = LevelExtreme(level[0], level[1], value, beyond_s(readings), len(readings))
                found.setdefault((i, row), []).append(extreme)
        return found

    def _to_send(self, closed: ClosedWindows, grew: _Mask, notable: _Mask) -> tuple[_Mask, _Mask]:
        """Return the ports whose windows are sent, and the ports with isolated errors."""
        devices, numbers, own = closed.devices, closed.numbers[:, None], closed.windows.selection
        until = own.watch_until[devices]
        if own.isolated_errors:
            isolated_at = own.isolated_error_at[devices]
            for i, row in _cells((isolated_at != NONE) & (isolated_at < numbers - self._params.watch)):
                own.pop_isolated_error(int(devices[i]), row)
        if not (np.count_nonzero(grew) or np.count_nonzero(notable)):
            return until >= numbers, notable
        followed = (until >= numbers) | (own.isolated_error_at[devices] != NONE)
        isolated = grew & ~followed & ~notable
        until = np.where(notable | (grew & followed), numbers + self._params.watch, until)
        own.watch_until[devices] = until
        return until >= numbers, isolated

    def _grew(self, counters: WindowColumns, now: Cells, before: Cells) -> _Mask:
        """Return a mask of grown errors; a counter that fell was reset, one without a base is read first."""
        grew = np.zeros((len(now), now.shape[2]), np.bool_)
        for place, (metric, _) in enumerate(counters.columns):
            if metric not in ERRORS:
                continue
            more = now[:, place] > before[:, place]
            if not np.count_nonzero(more):
                continue
            more &= now[:, place] != ABSENT_COUNTER
            if metric is Metric.RX_SYMBOL_ERRORS:
                more &= now[:, place] - before[:, place] >= self._symbols
            grew |= more
        return grew

    def _levels(self, closed: ClosedWindows, now: Cells, before: Cells) -> _Levels:
        """Return the levels at the end of the window, ratios as their logarithm; NaN if not read in it."""
        windows, devices = closed.windows, closed.devices
        gauges = windows.gauges
        own = [place for place, (metric, _) in enumerate(gauges.columns) if metric in LEVELS]
        levels = gauges.closed[devices][:, own]
        levels[(gauges.closed_ns[devices] <= gauges.base_ns[devices])[:, own]] = np.nan
        for position, cells in gauges.unread(devices, own):
            levels[:, position][cells] = np.nan
        if BER in gauges.index_of:
            place = windows.selection.columns.index(BER)
            levels[:, place] = np.log10(np.maximum(levels[:, place], _LOWEST_BER))
        if len(windows.selection.columns) == len(own):
            return levels
        corrected, bits = (windows.counters.index_of[column] for column in FEC)
        known = (now[:, bits] > before[:, bits]) & (now[:, corrected] >= before[:, corrected])
        known &= ~is_absent(now[:, corrected]) & ~is_absent(now[:, bits])
        share = (now[:, corrected] - before[:, corrected]) / np.where(known, now[:, bits] - before[:, bits], 1)
        ber = np.where(known, np.log10(np.maximum(share, _LOWEST_BER)), np.nan)
        return np.concatenate([ber[:, None], levels], axis=1)

    def _moved(self, columns: tuple[Column, ...], levels: _Levels, last: _Levels) -> tuple[_Mask, _Mask]:
        """Return masks of levels at least a step from the last sent value, and of levels high enough to be sent."""
        steps = np.array([self._steps[metric] for metric, _ in columns])[:, None]
        moved = np.abs(levels - last) >= steps - _ROUNDING
        high = np.zeros_like(moved)
        if BER in columns:
            place = columns.index(BER)
            high[:, place] = levels[:, place] >= self._high
        return moved, high


def _cells(mask: _Mask) -> Iterator[tuple[int, int]]:
    """Yield the (index in `closed`, row) of each True."""
    if np.count_nonzero(mask):
        yield from zip(*(where.tolist() for where in np.nonzero(mask)), strict=True)


_Pair = tuple[Cells, Cells]


def _report(closed: ClosedWindows, i: int, row: int, counts: _Pair, levels: _Pair) -> PortWindowReport:
    device = int(closed.devices[i])
    windows = closed.windows
    counters = windows.counters
    values: dict[Column, tuple[float, float]] = {}
    fresh = counters.closed_ns[device] > counters.base_ns[device]
    for place, cells in counters.unread(closed.devices[i : i + 1], range(len(counters.columns)), slice(row, row + 1)):
        fresh[place] &= not cells[0, 0]
    for place, (now, before) in enumerate(zip(*(cells.tolist() for cells in counts), strict=True)):
        column = counters.columns[place]
        stuck = now == before == _SATURATING.get(column[0])
        if fresh[place] and ABSENT_COUNTER not in (now, before) and now >= before and not stuck:
            values[column] = (float(now - before), 0.0)
    for column, now, before in zip(windows.selection.columns, *(cells.tolist() for cells in levels), strict=True):
        if now == now:  # not NaN
            was = now if before != before else before  # NaN: the first reading
            values[column] = (10**now, 10**was) if column == BER else (now, was)
    begun = [int(ns_) for ns_, read in zip(counters.base_ns[device], fresh, strict=True) if read and ns_]
    ended = max(int(times.max(initial=0)) for times in (counters.closed_ns[device], windows.gauges.closed_ns[device]))
    return PortWindowReport(i, row, int(closed.numbers[i]), max(begun, default=0), ended, values)
