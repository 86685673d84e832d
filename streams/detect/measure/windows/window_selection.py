"""Which final windows of which ports are told, and what they say: counters' growth, gauges' readings.

Told is a port's window in which errors grew for the second time within `watch` windows (and then the first time, too),
or a level moved by a step since it was last told or is near its limit; and the next `watch` windows of that port, so
that whoever concludes sees it get better. Errors that stay alone are told to nobody: a healthy fabric has 13 a second,
and each would be eleven windows to tell, conclude on and keep. What it means is for the detectors.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded import screening
from streams.detect.measure.storage.column_store import Cells, Column, ColumnStore, is_absent
from streams.detect.measure.storage.window_store import NONE, ClosedWindows, WindowColumns, WindowSpec, WindowStore
from streams.detect.measure.windows.window_report import PeerWindowReport, PortWindowReport
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, RowKind

ERRORS = frozenset(
    {
        Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS, Metric.PCS_SYMBOL_ERRORS,
        Metric.FEC_UNCORRECTED_CODEWORDS, Metric.LINK_ERROR_RECOVERIES, Metric.LOCAL_LINK_INTEGRITY_ERRORS,
    }
)  # fmt: skip
"""Counters that stand still on a healthy port: any growth is told."""

CONTEXT = frozenset(
    {
        Metric.RX_PACKETS, Metric.RX_DISCARDS, Metric.LANE_RAW_ERRORS, Metric.FEC_CODEWORDS_BY_ERRORS,
    }
)  # fmt: skip
"""Counters that grow on a healthy port, told beside those."""

RAILS = (
    Metric.RX_BYTES, Metric.TX_BYTES, Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS,
    Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS,
)  # fmt: skip
"""Counters by which rails are compared: told of all ports of a host."""

_HOST_PORTS = 32
"""No host has more; of what has more, a switch, they are not kept: a third of what its windows would cost."""

OPTICS = (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM, Metric.MEDIA_SNR_DB, Metric.HOST_SNR_DB)
LEVELS = frozenset({Metric.PRE_FEC_BER, Metric.MODULE_TEMPERATURE_C, *OPTICS})
BER: Column = (Metric.PRE_FEC_BER, NO_INDEX)
_FEC: tuple[Column, Column] = ((Metric.FEC_CORRECTED_BITS, NO_INDEX), (Metric.RX_BITS, NO_INDEX))

_SATURATING = {
    Metric.LINK_ERROR_RECOVERIES: 2**8 - 1,
    Metric.LOCAL_LINK_INTEGRITY_ERRORS: 2**4 - 1,
    Metric.RX_SYMBOL_ERRORS: 2**16 - 1,
}
"""InfiniBand's PortCounters are so wide and stick there for good (DETECTION 1): standing still, they say nothing."""

_ROUNDING = 1e-4
"""What was told is kept in four bytes."""

_LOWEST_BER = 1e-8
"""A tenth of what DETECTION 3 ignores: below it a level does not move."""


def windows_of(kind: RowKind, counters: ColumnStore, gauges: ColumnStore, clock: WindowSpec) -> WindowStore | None:
    """What is kept of a block; None of one whose rows are no ports, or that reads nothing of the kind."""
    if kind is not RowKind.ROW_KIND_PORT:
        return None
    derived = BER not in gauges.index_of and all(column in counters.index_of for column in _FEC)
    compared = ERRORS | CONTEXT | ({metric for metric, _ in _FEC} if derived else set())
    if counters.values.shape[2] <= _HOST_PORTS:
        compared |= set(RAILS)
    else:
        compared |= {Metric.TX_BYTES}  # its uplinks are compared
    own = WindowColumns(counters, compared), WindowColumns(gauges, {Metric.SPEED_BPS}, LEVELS)
    if not (own[0].columns or own[1].columns):
        return None
    levels = tuple(column for column in own[1].columns if column[0] in LEVELS)
    return WindowStore(*own, ((BER,) if derived else ()) + levels, clock)


class WindowSelector:
    """Decides what is told."""

    def __init__(self, detect: DetectParams) -> None:
        self._detect = detect
        self._params = params = detect.window
        self._steps = {Metric.PRE_FEC_BER: params.ber_step_decades, Metric.MODULE_TEMPERATURE_C: params.heat_step_c}
        self._steps |= dict.fromkeys(OPTICS, params.optics_step_db)
        self._high = float(np.log10(params.ber_report))
        self._symbols = params.symbols_per_min * params.width_s / 60
        self.clock = WindowSpec(ns(params.width_s), ns(detect.lateness_s))

    def select(self, windows: WindowStore, closed: ClosedWindows) -> Iterator[PortWindowReport]:
        """What final windows say; those of one message are in the order of its rows."""
        devices = closed.devices
        now, before = windows.counters.closed[devices], windows.counters.base[devices]
        levels = self._levels(windows, closed, now, before)
        last = windows.sent_levels[devices].astype(np.float64)
        grew = self._grew(windows.counters, now, before)
        notable = np.zeros_like(grew)
        if windows.levels:
            moved, high = self._moved(windows.levels, levels, last)
            notable |= (moved | high).any(axis=1)
            windows.sent_levels[devices] = np.where(moved | (np.isnan(last) & ~np.isnan(levels)), levels, last)
        telling, alone = self._telling(windows, closed, grew, notable)
        for i, row in _cells(telling | alone):
            told = _report(
                windows, closed, i, row, (now[i, :, row], before[i, :, row]), (levels[i, :, row], last[i, :, row])
            )
            device = int(devices[i])
            if alone[i, row]:
                windows.hold_isolated_error(device, told)
                continue
            if windows.isolated_error_at[device, row] != NONE:
                yield windows.pop_isolated_error(device, row)._replace(message=told.message)
            yield told

    def _telling(
        self, windows: WindowStore, closed: ClosedWindows, grew: npt.NDArray[np.bool_], notable: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which ports' windows are told, and in which errors stand alone."""
        devices, numbers = closed.devices, closed.numbers[:, None]
        until = windows.watch_until[devices]
        if windows.isolated_errors:
            alone_at = windows.isolated_error_at[devices]
            for i, row in _cells((alone_at != NONE) & (alone_at < numbers - self._params.watch)):
                windows.pop_isolated_error(int(devices[i]), row)
        if not (np.count_nonzero(grew) or np.count_nonzero(notable)):
            return until >= numbers, notable
        followed = (until >= numbers) | (windows.isolated_error_at[devices] != NONE)
        alone = grew & ~followed & ~notable
        until = np.where(notable | (grew & followed), numbers + self._params.watch, until)
        windows.watch_until[devices] = until
        return until >= numbers, alone

    def select_rails(
        self, windows: WindowStore, closed: ClosedWindows, hosts: Sequence[int], speeds: npt.NDArray[np.float64]
    ) -> Iterator[tuple[int, PeerWindowReport]]:
        """Of some devices, by their places in `closed`: those with a rail in doubt, and `watch` windows after it.

        `speeds` are what their ports should be trained to: 0 where nobody knows, NaN of a port that is no rail. All
        ports of such a device are told: growth of RAILS and the speed, -1 for none.
        """
        devices, counters, numbers = closed.devices[hosts], windows.counters, closed.numbers[hosts]
        own = [place for place, (metric, _) in enumerate(counters.columns) if metric in RAILS]
        now, before = counters.closed[devices][:, own], counters.base[devices][:, own]
        ended, begun = counters.closed_ns[devices][:, own], counters.base_ns[devices][:, own]
        known = (now >= before) & (now != ABSENT_COUNTER) & ((ended > begun) & (begun > 0))[:, :, None]
        read = {counters.columns[place][0]: np.where(known[:, n], now[:, n] - before[:, n], np.nan)
                for n, place in enumerate(own)}  # fmt: skip
        place = windows.gauges.index_of.get((Metric.SPEED_BPS, NO_INDEX))
        if place is not None:
            read[Metric.SPEED_BPS] = windows.gauges.closed[devices, place]
        since_ns, at_ns = begun.max(axis=1, initial=0), ended.max(axis=1, initial=0)
        doubted = screening.suspect_rails(self._detect.rail, read, np.maximum(at_ns - since_ns, 1) / 1e9, speeds)
        windows.peers_watch_until[devices] = np.where(
            doubted, numbers + self._params.watch, windows.peers_watch_until[devices]
        )
        for i in np.flatnonzero(
            (windows.peers_watch_until[devices] >= numbers) & (at_ns > since_ns) & (since_ns > 0)
        ).tolist():
            values = tuple(-1.0 if v != v else v for of in read.values() for v in of[i].tolist())
            compared = PeerWindowReport(int(numbers[i]), int(since_ns[i]), int(at_ns[i]), tuple(read), values)
            yield int(closed.messages[hosts[i]]), compared

    def _grew(self, counters: WindowColumns, now: Cells, before: Cells) -> npt.NDArray[np.bool_]:
        """Where errors grew; a counter that fell was started anew, and one without a before is met first."""
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

    def _levels(
        self, windows: WindowStore, closed: ClosedWindows, now: Cells, before: Cells
    ) -> npt.NDArray[np.float64]:
        """What each level is at the end of the window, ratios as their logarithm; NaN where it was not read in it."""
        gauges, devices = windows.gauges, closed.devices
        own = [place for place, (metric, _) in enumerate(gauges.columns) if metric in LEVELS]
        levels = gauges.closed[devices][:, own]
        levels[(gauges.closed_ns[devices] <= gauges.base_ns[devices])[:, own]] = np.nan
        if BER in gauges.index_of:
            place = windows.levels.index(BER)
            levels[:, place] = np.log10(np.maximum(levels[:, place], _LOWEST_BER))
        if len(windows.levels) == len(own):
            return levels
        corrected, bits = (windows.counters.index_of[column] for column in _FEC)
        known = (now[:, bits] > before[:, bits]) & (now[:, corrected] >= before[:, corrected])
        known &= ~is_absent(now[:, corrected]) & ~is_absent(now[:, bits])
        share = (now[:, corrected] - before[:, corrected]) / np.where(known, now[:, bits] - before[:, bits], 1)
        ber = np.where(known, np.log10(np.maximum(share, _LOWEST_BER)), np.nan)
        return np.concatenate([ber[:, None], levels], axis=1)

    def _moved(
        self, columns: tuple[Column, ...], levels: npt.NDArray[np.float64], last: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Where a level is a step or more from what was told of it, and where it is so bad that it is always told."""
        steps = np.array([self._steps[metric] for metric, _ in columns])[:, None]
        moved = np.abs(levels - last) >= steps - _ROUNDING
        high = np.zeros_like(moved)
        if BER in columns:
            place = columns.index(BER)
            high[:, place] = levels[:, place] >= self._high
        return moved, high


def _cells(mask: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The (place in `closed`, row) of each True."""
    if np.count_nonzero(mask):
        yield from zip(*(where.tolist() for where in np.nonzero(mask)), strict=True)


_Pair = tuple[Cells, Cells]


def _report(
    windows: WindowStore, closed: ClosedWindows, i: int, row: int, counts: _Pair, levels: _Pair
) -> PortWindowReport:
    device = int(closed.devices[i])
    counters = windows.counters
    values: dict[Column, tuple[float, float]] = {}
    fresh = counters.closed_ns[device] > counters.base_ns[device]
    for place, (now, before) in enumerate(zip(*(cells.tolist() for cells in counts), strict=True)):
        column = counters.columns[place]
        stuck = now == before == _SATURATING.get(column[0])
        if fresh[place] and ABSENT_COUNTER not in (now, before) and now >= before and not stuck:
            values[column] = (float(now - before), 0.0)
    for column, now, before in zip(windows.levels, *(cells.tolist() for cells in levels), strict=True):
        if now == now:  # is not NaN
            was = now if before != before else before  # before is NaN: met first
            values[column] = (10**now, 10**was) if column == BER else (now, was)
    begun = [int(ns_) for ns_, read in zip(counters.base_ns[device], fresh, strict=True) if read and ns_]
    ended = max(int(times.max(initial=0)) for times in (counters.closed_ns[device], windows.gauges.closed_ns[device]))
    return PortWindowReport(int(closed.messages[i]), row, int(closed.numbers[i]), max(begun, default=0), ended, values)
