"""Stores the readings of each port at the ends of the last windows of event time, beside the last readings of a block.

A window [n, n+1) x `width_ns` of a source of a device ends with the first reading in a later one. It is final once a
reading is `lateness_ns` past its end; later input changes nothing. Until then a late reading is inserted in its place.
`closed` has the columns at the end of the window that ended but is not final, `base` those of the last final window.
window_selection.py and peer_selection.py select the windows to send.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np

from streams.detect.measure.storage.array_codec import ArrayCodec, Numbers
from streams.detect.measure.storage.column_store import (
    NONE,
    Cells,
    Column,
    ColumnStore,
    DeviceArrays,
    Indices,
    Times,
    is_absent,
)
from streams.detect.measure.storage.reading_history import ReadingHistory
from streams.detect.measure.storage.selection_state import BER, Excursions, SelectionState
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, RowKind, Table

ERRORS = frozenset(
    {
        Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS, Metric.PCS_SYMBOL_ERRORS,
        Metric.FEC_UNCORRECTED_CODEWORDS, Metric.LINK_ERROR_RECOVERIES, Metric.LOCAL_LINK_INTEGRITY_ERRORS,
        Metric.LLR_RX_BAD, Metric.LLR_TX_REPLAYS, Metric.LLR_TX_DISCARDS,
        Metric.UNCORRECTED_SYMBOLS, Metric.PLR_RX_UNCORRECTABLE, Metric.PLR_TX_RETRY_EVENTS,
    }
)  # fmt: skip
"""Counters that do not grow on a healthy port: any growth is notable."""

CONTEXT = frozenset(
    {
        Metric.RX_PACKETS, Metric.RX_DISCARDS, Metric.LANE_RAW_ERRORS, Metric.FEC_CODEWORDS_BY_ERRORS,
        Metric.LLR_RX_OK, Metric.LLR_RX_POISONED,
    }
)  # fmt: skip
"""Counters that grow on a healthy port, sent together with errors."""

_OF_NICS = (
    Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS, Metric.PCIE_STALLED_READ_SECONDS,
    Metric.PCIE_STALLED_WRITE_SECONDS,
)  # fmt: skip
"""Counters that no switch has."""

RAILS = (Metric.RX_BYTES, Metric.TX_BYTES, *_OF_NICS)
"""Counters by which rails are compared, sent for all ports of a host."""

_HOST_PORTS = 32
"""A device with more ports and no counter of NICs is a switch, of which only TX_BYTES are compared: its RX_BYTES would
cost as much again. A host of eight rails on eight planes has 64 ports."""

OPTICS = (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM, Metric.MEDIA_SNR_DB, Metric.HOST_SNR_DB)
LEVELS = frozenset({Metric.PRE_FEC_BER, Metric.MODULE_TEMPERATURE_C, *OPTICS})
FEC: tuple[Column, Column] = ((Metric.FEC_CORRECTED_BITS, NO_INDEX), (Metric.RX_BITS, NO_INDEX))
"""Corrected bits and all bits, from which the pre-FEC BER is derived if it is not read."""

Number = TypeVar("Number", int, Times)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The width of windows, and how long after its end a window accepts late readings: at most its width."""

    width_ns: int
    lateness_ns: int
    ber_limit: float
    """Readings of a BER from this limit on are retained for the mean of their window."""
    dip: float
    """Readings of optical levels this far below the usual one, in dB, are retained."""

    def final_ns(self, number: Number) -> Number:
        """Return the event time at which a window is final."""
        return (number + 1) * self.width_ns + self.lateness_ns


Final = tuple[Indices, Indices, Times]
"""Windows of different devices: their indices in the block and in the messages of the batch, and their numbers."""


class WindowColumns(DeviceArrays):
    """Some columns of a column store at the ends of windows; shape (devices, columns, rows).

    The columns in `compared` come first. The others have no base, because only their newest reading is sent. `closed`
    is valid only for devices with a pending window.
    """

    base: Cells
    closed: Cells
    base_ns: Times
    closed_ns: Times

    def __init__(self, store: ColumnStore, compared: Collection[int], others: Collection[int] = ()) -> None:
        own = [[place for place, (metric, _) in enumerate(store.columns) if metric in of] for of in (compared, others)]
        super().__init__(tuple(store.columns[place] for place in chain(*own)), store.rows)
        self.store, self.compared = store, len(own[0])
        self.store_columns = np.array([*chain(*own)], np.intp)
        kind = store.values.dtype
        self._array("base", "cr", kind, store.absent, self.compared)
        self._array("closed", "cr", kind, store.absent)
        self._array("base_ns", "c", np.int64, 0)
        self._array("closed_ns", "c", np.int64, 0)

    def close(self, devices: Indices) -> None:
        """Copy the last readings, which are those of the end of a window."""
        where = (devices[:, None], self.store_columns)
        self.closed[devices], self.closed_ns[devices] = self.store.values[where], self.store.at_ns[where]

    def settle(self, devices: Indices) -> None:
        """Make closed windows that are now final the base of the next ones.

        Bytes of a port that was not read have no base, because their next growth is of more time than that of others.
        """
        base = self.closed[devices, : self.compared]
        for place, cells in self.unread(devices, range(self.compared)):
            if self.columns[place][0] in RAILS:
                base[:, place][cells] = self.store.absent
        self.base[devices], self.base_ns[devices] = base, self.closed_ns[devices]

    def unread(self, devices: Indices, places: Iterable[int], rows: slice = slice(None)) -> Iterator[tuple[int, Cells]]:
        """Yield the position in `places` of each column with times by cell, and its cells without a reading since the
        last final window; shape (devices, rows). The other columns have one time for all rows.
        """
        for position, place in enumerate(places) if self.store.per_cell_times else ():
            if (times := self.store.per_cell_times.get(int(self.store_columns[place]))) is not None:
                yield position, times[devices, rows] <= self.base_ns[devices, place, None]

    def reopen(self, device: int) -> None:
        """Begin a closed window for a late reading; it has no other readings."""
        self.closed[device, : self.compared], self.closed_ns[device] = self.base[device], self.base_ns[device]
        self.closed[device, self.compared :] = self.store.absent

    def patch(self, device: int, table: Table, rows: Indices, at_ns: int) -> None:
        """Insert a late reading into its window unless a reading there is newer."""
        for column, values in zip(zip(table.metric, table.index, strict=True), table.values, strict=True):
            place = self.index_of.get(column)
            if place is None or self.closed_ns[device, place] >= at_ns:
                continue
            read = ~is_absent(values)
            self.closed[device, place, rows[read]] = values[read]
            self.closed_ns[device, place] = at_ns

    def exchange(self, codec: ArrayCodec, places: Numbers, newest: Times, closed: Numbers) -> None:
        """Write or fill the devices at these indices, as differences to the last readings, most of which are zero.

        Closed windows are written only for devices with a pending window: a healthy port adds to a snapshot its traffic
        of a minute ago. Times are differences to the previous column, because columns are most often read together.
        """
        for column, place in enumerate(self.store_columns.tolist()):
            last = self.store.values[places, place]
            if column < self.compared:
                codec.exchange_below(self.base, (places, column), last)
            codec.exchange_below(self.closed, (places[closed], column), last[closed])
        for times, own, former in ((self.base_ns, places, newest), (self.closed_ns, places[closed], newest[closed])):
            before = former
            for column in range(len(self.columns)):
                codec.exchange(times, (own, column), before)
                before = times[own, column]


class WindowStore(DeviceArrays):
    """The windows of a block: the open window of each device, and the window that ended but is not final.

    `selection` is the state of the selection of windows to send.
    """

    open: Times
    pending: Times
    next_ns: Times
    """Device -> the event time of its next change. It follows from the two above."""

    def __init__(
        self, counters: WindowColumns, gauges: WindowColumns, spec: WindowSpec, levels: tuple[Column, ...]
    ) -> None:
        super().__init__((), counters.rows)
        self.counters, self.gauges, self.spec = counters, gauges, spec
        judged = tuple(column for column in gauges.columns if column == BER or column[0] in OPTICS)
        self.excursions = Excursions(judged, self.rows, spec.ber_limit, spec.dip)
        self.selection = SelectionState(levels, self.rows, self.excursions)
        self._array("open", "", np.int64, NONE)
        self._array("pending", "", np.int64, NONE)
        self._array("next_ns", "", np.int64, 0)

    @property
    def parts(self) -> tuple[DeviceArrays, ...]:
        return self, self.counters, self.gauges, self.excursions, self.selection

    def plan(self, devices: Indices) -> None:
        """Set the time of the next change of these devices."""
        open_, pending = self.open[devices], self.pending[devices]
        over_ns = np.where(open_ == NONE, 0, (open_ + 1) * self.spec.width_ns)
        self.next_ns[devices] = np.where(pending == NONE, over_ns, self.spec.final_ns(pending))

    def roll(self, devices: Indices, at_ns: Times) -> Iterator[Final]:
        """Yield the windows that readings of different devices make final; call it before the readings are stored.

        Process each result before requesting the next one.
        """
        due = self.next_ns[devices] <= at_ns
        if not np.count_nonzero(due):
            return
        devices, at_ns, messages = devices[due], at_ns[due], np.flatnonzero(due)
        yield from self._settle(devices, at_ns, messages)
        numbers = at_ns // self.spec.width_ns
        later = numbers > self.open[devices]
        moved = devices[later]
        over = moved[self.open[moved] != NONE]
        if len(over):
            self.counters.close(over)
            self.gauges.close(over)
            self.pending[over] = self.open[over]
        self.open[moved] = numbers[later]
        yield from self._settle(moved, at_ns[later], messages[later])
        self.plan(devices)

    def _settle(self, devices: Indices, at_ns: Times, messages: Indices) -> Iterator[Final]:
        pending = self.pending[devices]
        due = (pending != NONE) & (self.spec.final_ns(pending) <= at_ns)
        if not np.count_nonzero(due):
            return
        final = devices[due]
        yield final, messages[due], pending[due]
        self.counters.settle(final)
        self.gauges.settle(final)
        self.pending[final] = NONE

    def apply_late(
        self,
        device: int,
        newest_ns: int,
        at_ns: int,
        tables: tuple[Table, Table],
        rows: Indices,
        history: ReadingHistory,
    ) -> None:
        """Insert a reading that is older than the newest into its window, unless that is final."""
        number = at_ns // self.spec.width_ns
        if number == self.open[device] or self.spec.final_ns(number) > newest_ns:
            self.excursions.observe_late(device, at_ns, tables[1], rows, history)
        if number != self.open[device] - 1 or self.spec.final_ns(number) <= newest_ns:
            return
        if self.pending[device] == NONE:
            self.pending[device] = number
            self.counters.reopen(device)
            self.gauges.reopen(device)
            self.plan(np.array([device]))
        for columns, table in zip((self.counters, self.gauges), tables, strict=True):
            columns.patch(device, table, rows, at_ns)

    def exchange(self, codec: ArrayCodec, places: Numbers, newest: Times) -> None:
        """Write or fill the devices at these indices, whose last readings were exchanged before."""
        codec.exchange(self.open, places)
        codec.exchange(self.pending, places)
        self.selection.exchange(codec, places)
        self.plan(places)
        for columns in (self.counters, self.gauges):
            columns.exchange(codec, places, newest, self.pending[places] != NONE)


def has_many_nics(counters: Collection[Column], rows: int) -> bool:
    """Return whether a block is of hosts that have more ports than version 0.2.0 accepted of a host."""
    return rows > _HOST_PORTS and any(metric in _OF_NICS for metric, _ in counters)


def make_windows(
    kind: RowKind, counters: ColumnStore, gauges: ColumnStore, spec: WindowSpec, *, has_rails: bool
) -> WindowStore | None:
    """Return the windows of a block; None if its rows are not ports, or it has none of the columns.

    Without `has_rails`, those of version 0.2.0, which stored no rails of hosts with many NICs.
    """
    if kind is not RowKind.ROW_KIND_PORT:
        return None
    derived = BER not in gauges.index_of and all(column in counters.index_of for column in FEC)
    compared = ERRORS | CONTEXT | ({metric for metric, _ in FEC} if derived else set())
    is_host = counters.rows <= _HOST_PORTS or (has_rails and has_many_nics(counters.columns, counters.rows))
    compared |= set(RAILS) if is_host else {Metric.TX_BYTES}  # by which uplinks are compared
    own = WindowColumns(counters, compared), WindowColumns(gauges, {Metric.SPEED_BPS}, LEVELS)
    if not (own[0].columns or own[1].columns):
        return None
    levels = ((BER,) if derived else ()) + tuple(column for column in own[1].columns if column[0] in LEVELS)
    return WindowStore(*own, spec, levels)
