"""Stores the readings of each port at the ends of the last windows of event time, beside the last readings of a block.

A window [n, n+1) x `width_ns` of a source of a device is over with its first reading in a later one, and final once a
reading is `lateness_ns` past its end; what comes later changes nothing. Until then a late reading is put in its place.
`closed` are the columns at the end of the window that is over but not final, `base` those of the last final window.
Which columns are stored and which windows are sent is for streams.detect.measure.windows.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

import numpy as np

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.column_store import (
    Cells,
    Column,
    ColumnStore,
    Indices,
    TableDelta,
    Times,
    is_absent,
)
from streams.detect.measure.storage.reading_history import ReadingHistory
from streams.wire.models import Table

NONE = -1
"""No window."""

Number = TypeVar("Number", int, Times)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Width of windows, and how long after its end a window accepts late readings: no longer than its width."""

    width_ns: int
    lateness_ns: int
    ber_limit: float
    """Readings of a BER from here on are retained, for the mean of their window."""
    dip: float
    """Readings of optical levels so far below the usual one are retained, in dB."""

    def final_ns(self, number: Number) -> Number:
        """Return the event time at which a window is final."""
        return (number + 1) * self.width_ns + self.lateness_ns


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """Windows of different devices that are final: indices in the block, and in the messages of the batch."""

    devices: Indices
    messages: Indices
    numbers: Times


class DeviceState(Protocol):
    """State by device that others attach to the windows of a block; it grows and moves with them."""

    def grow(self, devices: int) -> None:
        """Make room."""

    def clear(self, device: int) -> None:
        """Reset the state of an index that another device takes."""

    def move_in(self, device: int, other: "DeviceState", former: int) -> None:
        """Take over a device from another block, which has some of its columns and the first of its rows."""

    def observe(self, gauges: TableDelta) -> None:
        """Process the gauges of messages before they are stored; their windows are open."""

    def observe_late(self, device: int, at_ns: int, gauges: Table, rows: Indices, history: ReadingHistory) -> None:
        """Process the gauges of a late message, whose window is not final."""

    def pack(self, places: Numbers, encoder: ArrayEncoder) -> None:
        """Write the state of the devices at these indices into a snapshot."""

    def unpack(self, count: int, decoder: ArrayDecoder) -> None:
        """Read what `pack` wrote of so many devices."""


State = TypeVar("State", bound=DeviceState)


class WindowColumns:
    """Some columns of a column store at the ends of windows; shape (devices, columns, rows).

    Columns that are `compared` come first; the others have no base, because only their newest reading is sent.
    """

    def __init__(self, store: ColumnStore, compared: Collection[int], others: Collection[int] = ()) -> None:
        self.store = store
        own = [[place for place, (metric, _) in enumerate(store.columns) if metric in of] for of in (compared, others)]
        self.compared = len(own[0])
        self.columns: tuple[Column, ...] = tuple(store.columns[place] for place in chain(*own))
        self.store_columns = np.array([*chain(*own)], np.intp)
        self.index_of = {column: place for place, column in enumerate(self.columns)}
        rows, kind = store.values.shape[2], store.values.dtype
        self.base: Cells = np.empty((0, self.compared, rows), kind)
        self.closed: Cells = np.empty((0, len(self.columns), rows), kind)
        self.base_ns: Times = np.zeros((0, len(self.columns)), np.int64)
        self.closed_ns: Times = np.zeros((0, len(self.columns)), np.int64)

    def grow(self, devices: int) -> None:
        """Make room."""
        former, columns = self.closed_ns.shape
        self.base, self.closed = _grown(self.base, devices), _grown(self.closed, devices)
        more = np.zeros((devices - former, columns), np.int64)
        self.base_ns, self.closed_ns = (np.concatenate([times, more]) for times in (self.base_ns, self.closed_ns))

    def clear(self, device: int) -> None:
        """Forget all readings of a device: none is comparable with the next ones."""
        self.base[device] = self.closed[device] = self.store.absent
        self.base_ns[device] = self.closed_ns[device] = 0

    def close(self, devices: Indices) -> None:
        """Copy the last readings, which are those of the end of a window."""
        where = (devices[:, None], self.store_columns)
        self.closed[devices], self.closed_ns[devices] = self.store.values[where], self.store.at_ns[where]

    def settle(self, devices: Indices) -> None:
        """Make closed windows, which are final now, the base of the next ones."""
        self.base[devices], self.base_ns[devices] = self.closed[devices, : self.compared], self.closed_ns[devices]

    def reopen(self, device: int) -> None:
        """Begin a closed window for a late reading; nothing else was read in it."""
        self.closed[device, : self.compared], self.closed_ns[device] = self.base[device], self.base_ns[device]
        self.closed[device, self.compared :] = self.store.absent

    def patch(self, device: int, table: Table, rows: Indices, at_ns: int) -> None:
        """Put a late reading into its window where no reading in it is newer."""
        for column, values in zip(zip(table.metric, table.index, strict=True), table.values, strict=True):
            place = self.index_of.get(column)
            if place is None or self.closed_ns[device, place] >= at_ns:
                continue
            read = ~is_absent(values)
            self.closed[device, place, rows[read]] = values[read]
            self.closed_ns[device, place] = at_ns

    def move_in(self, device: int, other: "WindowColumns", former: int) -> None:
        """Take over a device from a block with some of these columns and the first of these rows."""
        self.clear(device)
        rows = other.base.shape[2]
        for was, column in enumerate(other.columns):
            place = self.index_of.get(column)
            if place is None:
                continue  # the other block derives from it what this one reads
            if was < other.compared:
                self.base[device, place, :rows] = other.base[former, was]
            self.closed[device, place, :rows] = other.closed[former, was]
            self.base_ns[device, place] = other.base_ns[former, was]
            self.closed_ns[device, place] = other.closed_ns[former, was]


def _grown(cells: Cells, devices: int) -> Cells:
    values = np.empty((devices, *cells.shape[1:]), cells.dtype)
    values[: len(cells)] = cells
    return values


class WindowStore(Generic[State]):
    """The windows of a block: which window of each device is open, and which is over but not final.

    `attached` is state of those who select windows to send; it is only grown, cleared and moved here.
    """

    def __init__(self, counters: WindowColumns, gauges: WindowColumns, spec: WindowSpec, attached: State) -> None:
        self.counters, self.gauges, self.attached = counters, gauges, attached
        self.spec = spec
        self.open: Times = np.empty(0, np.int64)
        self.pending: Times = np.empty(0, np.int64)
        self.next_ns: Times = np.empty(0, np.int64)
        """By device: the event time of its next change. It follows from the two above."""

    def grow(self, devices: int) -> None:
        """Make room."""
        more = devices - len(self.open)
        for columns in (self.counters, self.gauges):
            columns.grow(devices)
        self.attached.grow(devices)
        none = np.full(more, NONE, np.int64)
        self.open, self.pending = np.concatenate([self.open, none]), np.concatenate([self.pending, none])
        self.next_ns = np.concatenate([self.next_ns, np.zeros(more, np.int64)])

    def clear(self, device: int) -> None:
        """Reset an index that another device takes."""
        for columns in (self.counters, self.gauges):
            columns.clear(device)
        self.attached.clear(device)
        self.open[device] = self.pending[device] = NONE
        self.next_ns[device] = 0

    def restarted(self, device: int) -> None:
        """Forget the counters of a device that restarted: what a window not yet final had counted is unknown."""
        self.counters.clear(device)

    def move_in(self, device: int, other: "WindowStore[State]", former: int) -> None:
        """Take over a device that has other columns or rows now."""
        self.clear(device)
        self.counters.move_in(device, other.counters, former)
        self.gauges.move_in(device, other.gauges, former)
        self.attached.move_in(device, other.attached, former)
        self.open[device], self.pending[device] = other.open[former], other.pending[former]
        self.plan(np.array([device]))

    def plan(self, devices: Indices) -> None:
        """Set the time of the next change of these devices."""
        open_, pending = self.open[devices], self.pending[devices]
        over_ns = np.where(open_ == NONE, 0, (open_ + 1) * self.spec.width_ns)
        self.next_ns[devices] = np.where(pending == NONE, over_ns, self.spec.final_ns(pending))

    def roll(self, devices: Indices, at_ns: Times) -> Iterator[ClosedWindows]:
        """Yield the windows that readings of different devices make final; call before the readings are stored.

        Each result must be processed before the next one is requested.
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

    def _settle(self, devices: Indices, at_ns: Times, messages: Indices) -> Iterator[ClosedWindows]:
        pending = self.pending[devices]
        due = (pending != NONE) & (self.spec.final_ns(pending) <= at_ns)
        if not np.count_nonzero(due):
            return
        final = devices[due]
        yield ClosedWindows(final, messages[due], pending[due])
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
        """Put a reading that is older than the newest into its window, unless that is final."""
        number = at_ns // self.spec.width_ns
        if number == self.open[device] or self.spec.final_ns(number) > newest_ns:
            self.attached.observe_late(device, at_ns, tables[1], rows, history)
        if number != self.open[device] - 1 or self.spec.final_ns(number) <= newest_ns:
            return
        if self.pending[device] == NONE:
            self.pending[device] = number
            self.counters.reopen(device)
            self.gauges.reopen(device)
            self.plan(np.array([device]))
        for columns, table in zip((self.counters, self.gauges), tables, strict=True):
            columns.patch(device, table, rows, at_ns)
