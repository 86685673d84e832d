"""What was read of each port at the end of the last windows of event time, beside the last readings of a block.

A window [n, n+1) x `width_ns` of a source of a device is over with its first reading in a later one, and final once a
reading is `lateness_ns` past its end: what comes later still changes nothing. Until then a late reading has its place.
Kept of the columns that rates need is `held`, as they were at the end of the window that is over but not final, and of
those that are compared `base`, at the end of the last final one. What a final window says is for rates.py.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.column_store import Cells, Column, ColumnStore, Indices, Times, is_absent
from streams.detect.measure.windows.window_report import PortWindowReport
from streams.wire.models import Table

NONE = -1
"""No window."""

Numbers = TypeVar("Numbers", int, Times)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """How long a window is, and how long after its end what is late still counts: no longer than a window."""

    width_ns: int
    lateness_ns: int

    def final_ns(self, number: Numbers) -> Numbers:
        """When a window is final."""
        return (number + 1) * self.width_ns + self.lateness_ns


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """Windows that are final, of different devices: their places in the block, and which of the wave's messages."""

    devices: Indices
    messages: Indices
    numbers: Times


class WindowColumns:
    """Some columns of a stack, as they were at the ends of windows; shape (devices, columns, rows).

    Those that are `compared` come first; the others have no base, because a window says their newest reading only.
    """

    def __init__(self, stack: ColumnStore, compared: Collection[int], others: Collection[int] = ()) -> None:
        self.store = stack
        own = [[place for place, (metric, _) in enumerate(stack.columns) if metric in of] for of in (compared, others)]
        self.compared = len(own[0])
        self.columns: tuple[Column, ...] = tuple(stack.columns[place] for place in chain(*own))
        self.store_columns = np.array([*chain(*own)], np.intp)
        self.index_of = {column: place for place, column in enumerate(self.columns)}
        rows, kind = stack.values.shape[2], stack.values.dtype
        self.base: Cells = np.empty((0, self.compared, rows), kind)
        self.closed: Cells = np.empty((0, len(self.columns), rows), kind)
        self.base_ns: Times = np.zeros((0, len(self.columns)), np.int64)
        self.closed_ns: Times = np.zeros((0, len(self.columns)), np.int64)

    def grow(self, devices: int) -> None:
        """Make room."""
        held, columns = self.closed_ns.shape
        for name in ("base", "closed"):
            former = getattr(self, name)
            values = np.empty((devices, *former.shape[1:]), former.dtype)
            values[:held] = former
            setattr(self, name, values)
        more = np.zeros((devices - held, columns), np.int64)
        self.base_ns, self.closed_ns = (np.concatenate([times, more]) for times in (self.base_ns, self.closed_ns))

    def clear(self, device: int) -> None:
        """Nothing is comparable with what comes."""
        self.base[device] = self.closed[device] = self.store.absent
        self.base_ns[device] = self.closed_ns[device] = 0

    def close(self, devices: Indices) -> None:
        """The last readings are those of the end of a window."""
        where = (devices[:, None], self.store_columns)
        self.closed[devices], self.closed_ns[devices] = self.store.values[where], self.store.at_ns[where]

    def settle(self, devices: Indices) -> None:
        """What is held can no longer change."""
        self.base[devices], self.base_ns[devices] = self.closed[devices, : self.compared], self.closed_ns[devices]

    def reopen(self, device: int) -> None:
        """A window begins to be held of which nothing was read until now."""
        self.closed[device, : self.compared], self.closed_ns[device] = self.base[device], self.base_ns[device]
        self.closed[device, self.compared :] = self.store.absent

    def patch(self, device: int, table: Table, rows: Indices, at_ns: int) -> None:
        """A late reading is the newest of its window where none in it is newer."""
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
                continue  # the block derives from it what this one reads
            if was < other.compared:
                self.base[device, place, :rows] = other.base[former, was]
            self.closed[device, place, :rows] = other.closed[former, was]
            self.base_ns[device, place], self.closed_ns[device, place] = (
                other.base_ns[former, was],
                other.closed_ns[former, was],
            )


class WindowStore:
    """Of one block: which window of each device is open, and which is over but not final."""

    def __init__(
        self, counters: WindowColumns, gauges: WindowColumns, levels: tuple[Column, ...], clock: WindowSpec
    ) -> None:
        self.counters, self.gauges, self.levels = counters, gauges, levels
        self.clock = clock
        rows = counters.closed.shape[2]
        self.open: Times = np.empty(0, np.int64)
        self.pending: Times = np.empty(0, np.int64)
        self.next_ns: Times = np.empty(0, np.int64)
        """The event time at which something is to be done for a device: follows from the two above."""
        self.sent_levels: npt.NDArray[np.float32] = np.empty((0, len(levels), rows), np.float32)
        """What was last told of each level; NaN before it was met."""
        self.watch_until: npt.NDArray[np.int32] = np.empty((0, rows), np.int32)
        """The last window of a port that is told for what was notable before."""
        self.isolated_error_at: npt.NDArray[np.int32] = np.empty((0, rows), np.int32)
        """The window of a port in which errors grew that nobody was told of, because none were near it."""
        self.isolated_errors: dict[tuple[int, int], PortWindowReport] = {}
        """(device, row) -> what is told of that window if another follows."""
        self.peers_watch_until: Times = np.empty(0, np.int64)
        """The same of all ports of a host, for a rail of it."""

    def grow(self, devices: int) -> None:
        """Make room."""
        more = devices - len(self.open)
        for kept in (self.counters, self.gauges):
            kept.grow(devices)
        none = np.full(more, NONE, np.int64)
        self.open, self.pending = np.concatenate([self.open, none]), np.concatenate([self.pending, none])
        self.peers_watch_until = np.concatenate([self.peers_watch_until, none])
        self.next_ns = np.concatenate([self.next_ns, np.zeros(more, np.int64)])
        rows = self.watch_until.shape[1]
        self.sent_levels = np.concatenate(
            [self.sent_levels, np.full((more, len(self.levels), rows), np.nan, np.float32)]
        )
        never = np.full((more, rows), NONE, np.int32)
        self.watch_until, self.isolated_error_at = (
            np.concatenate([self.watch_until, never]),
            np.concatenate([self.isolated_error_at, never]),
        )

    def clear(self, device: int) -> None:
        """A place for another device."""
        for kept in (self.counters, self.gauges):
            kept.clear(device)
        for row in np.flatnonzero(self.isolated_error_at[device] != NONE).tolist():
            self.pop_isolated_error(device, row)
        self.open[device] = self.pending[device] = self.watch_until[device] = self.peers_watch_until[device] = NONE
        self.sent_levels[device] = np.nan
        self.next_ns[device] = 0

    def pop_isolated_error(self, device: int, row: int) -> PortWindowReport:
        """The errors of a port that stood alone: they are told now, or so long ago that nothing followed."""
        self.isolated_error_at[device, row] = NONE
        return self.isolated_errors.pop((device, row))

    def hold_isolated_error(self, device: int, told: PortWindowReport) -> None:
        """Errors that are told only if others follow."""
        self.isolated_error_at[device, told.row] = told.number
        self.isolated_errors[device, told.row] = told

    def restarted(self, device: int) -> None:
        """Counters begin anew; what a window that is not final had counted is not known any more."""
        self.counters.clear(device)

    def move_in(self, device: int, other: "WindowStore", former: int) -> None:
        """Take over a device that has other columns or rows now."""
        self.clear(device)
        self.counters.move_in(device, other.counters, former)
        self.gauges.move_in(device, other.gauges, former)
        self.open[device], self.pending[device] = other.open[former], other.pending[former]
        self.peers_watch_until[device] = other.peers_watch_until[former]
        rows = other.watch_until.shape[1]
        self.watch_until[device, :rows] = other.watch_until[former]
        for was, column in enumerate(other.levels):
            self.sent_levels[device, self.levels.index(column), :rows] = other.sent_levels[former, was]
        for row in np.flatnonzero(other.isolated_error_at[former] != NONE).tolist():
            self.hold_isolated_error(device, other.isolated_errors[former, row])
        self.plan(np.array([device]))

    def plan(self, devices: Indices) -> None:
        """Know when something is to be done for these."""
        open_, pending = self.open[devices], self.pending[devices]
        over_ns = np.where(open_ == NONE, 0, (open_ + 1) * self.clock.width_ns)
        self.next_ns[devices] = np.where(pending == NONE, over_ns, self.clock.final_ns(pending))

    def roll(self, devices: Indices, at_ns: Times) -> Iterator[ClosedWindows]:
        """Readings of different devices are about to be taken over; answers the windows that are final by them.

        What is answered must be looked at before the next is asked for.
        """
        due = self.next_ns[devices] <= at_ns
        if not np.count_nonzero(due):
            return
        devices, at_ns, messages = devices[due], at_ns[due], np.flatnonzero(due)
        yield from self._settle(devices, at_ns, messages)
        numbers = at_ns // self.clock.width_ns
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
        due = (pending != NONE) & (self.clock.final_ns(pending) <= at_ns)
        if not np.count_nonzero(due):
            return
        final = devices[due]
        yield ClosedWindows(final, messages[due], pending[due])
        self.counters.settle(final)
        self.gauges.settle(final)
        self.pending[final] = NONE

    def apply_late(self, device: int, newest_ns: int, at_ns: int, tables: tuple[Table, Table], rows: Indices) -> None:
        """A reading older than the newest: if its window is not final, it has its place there."""
        number = at_ns // self.clock.width_ns
        if number != self.open[device] - 1 or self.clock.final_ns(number) <= newest_ns:
            return
        if self.pending[device] == NONE:
            self.pending[device] = number
            self.counters.reopen(device)
            self.gauges.reopen(device)
            self.plan(np.array([device]))
        for kept, table in zip((self.counters, self.gauges), tables, strict=True):
            kept.patch(device, table, rows, at_ns)
