"""The last readings of many devices with the same columns and the same number of rows, stacked in one array.

Counters are uint64 and gauges float64, one stack each of shape (devices, columns, rows). A cell that
was never read is absent (2^64-1, NaN) in it. The time of a reading is one number a device and column: cells of which a
message left some out keep times of their own, for that column only (`ragged`), because a time a cell would double it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, Table

Column = tuple[Metric, int]
Cells = npt.NDArray[Any]
Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
_T = TypeVar("_T")

NEVER_NS = 1 << 50
"""Thirteen days: no two readings are so far apart that anything is made of it."""

_MAX_MAPPINGS = 256


def is_absent(values: Cells) -> npt.NDArray[np.bool_]:
    """Where nothing was read."""
    return np.isnan(values) if values.dtype.kind == "f" else values == ABSENT_COUNTER


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMapping:
    """Where the columns of one table of a message stand in a stack; one object for equal columns."""

    position_of: dict[Column, int]
    """Column -> its position in the message."""
    columns: Indices
    is_identity: bool
    """The message has exactly the stack's columns, in their order."""


class MappingCache(dict[ColumnMapping, _T]):
    """What was made of each fit, once: a look-up that finds it makes no call of Python."""

    def __init__(self, make: Callable[[ColumnMapping], _T]) -> None:
        self._make = make

    def __missing__(self, fit: ColumnMapping) -> _T:
        _clear_if_full(self)
        made = self[fit] = self._make(fit)
        return made


@dataclass(slots=True)
class TableDelta:
    """One table of some messages of different devices, beside what was read before: shape (messages, columns, rows)."""

    store: "ColumnStore"
    devices: Indices
    mapping: ColumnMapping
    values: Cells
    at_ns: Times
    rows: Indices | None = None
    """Where the rows of a message stand that has not just those of its device, in their order."""

    def previous(self, position: int) -> Cells:
        """The last readings of a column, shape (messages, rows)."""
        last: Cells = self.store.values[self.devices, self.mapping.columns[position]]
        return last if self.rows is None else last[:, self.rows]

    def since_ns(self, position: int, message: int, row: int) -> int:
        """When a cell was last read; 0 for never."""
        own = row if self.rows is None else int(self.rows[row])
        return self.store.time(int(self.devices[message]), int(self.mapping.columns[position]), own)


class DeviceColumns(NamedTuple):
    """All that a stack has of one device."""

    values: Cells
    at_ns: Times
    per_cell_times: dict[int, Times]


class ColumnStore:
    """One table of a block."""

    def __init__(self, columns: tuple[Column, ...], rows: int, dtype: str) -> None:
        self.columns = columns
        self.index_of = {column: place for place, column in enumerate(columns)}
        self.absent: Any = np.nan if dtype == "f8" else np.uint64(ABSENT_COUNTER)
        self.values: Cells = np.empty((0, len(columns), rows), dtype)
        self.at_ns: Times = np.zeros((0, len(columns)), np.int64)
        self.typical_interval_ns: Times = np.zeros(0, np.int64)
        """By device: how far apart its readings are while none is missing; NEVER_NS where that is not known."""
        self.per_cell_times: dict[int, Times] = {}
        """Place of a column -> the time of each of its cells, shape (devices, rows)."""
        self._mappings: dict[tuple[Column, ...], ColumnMapping] = {}
        self._mapping_by_identity: dict[tuple[int, int], tuple[ColumnMapping, Any, Any]] = {}
        """By the identity of the tuples that the codec repeats; with these, so that no others get their identity."""

    def grow(self, devices: int) -> None:
        """Make room; pages that nobody wrote to yet cost no memory."""
        held, columns, rows = self.values.shape
        values = np.empty((devices, columns, rows), self.values.dtype)
        values[:held] = self.values
        self.values = values
        self.at_ns = np.concatenate([self.at_ns, np.zeros((devices - held, columns), np.int64)])
        self.typical_interval_ns = np.concatenate([self.typical_interval_ns, np.full(devices - held, NEVER_NS)])
        for place, cells in self.per_cell_times.items():
            self.per_cell_times[place] = np.concatenate([cells, np.zeros((devices - held, rows), np.int64)])

    def clear(self, device: int) -> None:
        """Nothing was read of this device, or nothing that is comparable with what comes."""
        self.values[device], self.at_ns[device], self.typical_interval_ns[device] = self.absent, 0, NEVER_NS
        for cells in self.per_cell_times.values():
            cells[device] = 0

    def copy_of(self, device: int) -> DeviceColumns:
        """A copy of what it has of a device."""
        ragged = {place: cells[device].copy() for place, cells in self.per_cell_times.items()}
        return DeviceColumns(self.values[device].copy(), self.at_ns[device].copy(), ragged)

    def restore(self, device: int, row: DeviceColumns) -> None:
        """A device has what it had before."""
        self.values[device], self.at_ns[device] = row.values, row.at_ns
        for place, cells in self.per_cell_times.items():
            cells[device] = row.per_cell_times.get(place, row.at_ns[place])

    def time(self, device: int, place: int, row: int) -> int:
        """When a cell was last read; 0 for never."""
        if is_absent(self.values[device, place, row]):
            return 0
        cells = self.per_cell_times.get(place)
        return int(self.at_ns[device, place] if cells is None else cells[device, row])

    def times(self, device: int, places: Indices) -> Times:
        """When the cells of these columns of one device were last read, shape (columns, rows)."""
        times = np.repeat(self.at_ns[device, places][:, None], self.values.shape[2], axis=1)
        for position, place in enumerate(places.tolist()):
            if place in self.per_cell_times:
                times[position] = self.per_cell_times[place][device]
        times[is_absent(self.values[device, places])] = 0
        return times

    def mapping(self, table: Table) -> ColumnMapping | None:
        """How a message's columns stand here; None where it has one that is not here."""
        met = self._mapping_by_identity.get((id(table.metric), id(table.index)))
        if met is not None:
            return met[0]
        columns = tuple(zip(table.metric, table.index, strict=True))
        fit = self._mappings.get(columns)
        if fit is None:
            if not all(column in self.index_of for column in columns):
                return None
            places = np.array([self.index_of[column] for column in columns], np.intp)
            fit = ColumnMapping({column: i for i, column in enumerate(columns)}, places, columns == self.columns)
            _clear_if_full(self._mappings)
            self._mappings[columns] = fit
        _clear_if_full(self._mapping_by_identity)
        self._mapping_by_identity[id(table.metric), id(table.index)] = fit, table.metric, table.index
        return fit

    def apply(self, change: TableDelta) -> None:
        """The readings of some messages become the last ones; what is absent in them leaves the last as it is."""
        if not change.values.size:
            return
        values, devices, places = change.values, change.devices, change.mapping.columns
        times: Times = change.at_ns[:, None]
        absent = is_absent(values)
        if np.count_nonzero(absent):
            times = self._fill_absent(change, absent)
            values = change.values
        for position, place in enumerate(places.tolist() if self.per_cell_times else ()):
            if place in self.per_cell_times:
                cells = self.per_cell_times[place]
                cells[devices] = np.where(absent[:, position], cells[devices], change.at_ns[:, None])
        if change.mapping.is_identity:
            self.values[devices], self.at_ns[devices] = values, times
        else:
            self.values[devices[:, None], places], self.at_ns[devices[:, None], places] = values, times

    def _fill_absent(self, change: TableDelta, absent: npt.NDArray[np.bool_]) -> Times:
        """Put the last readings where the messages have none; answers the times of their columns.

        A column of which a message has nothing keeps its time; one of which it has some cells becomes ragged.
        """
        columns = np.flatnonzero(absent.any(axis=(0, 2)))
        where = (change.devices[:, None], change.mapping.columns[columns])
        gone, before = absent[:, columns], self.values[where]
        older = gone & ~is_absent(before)
        if not np.count_nonzero(older):  # the device never had what is missing: the usual case
            return change.at_ns[:, None]
        if not change.values.flags.writeable:
            change.values = change.values.copy()
        change.values[:, columns] = np.where(gone, before, change.values[:, columns])
        nothing_new = gone.all(axis=2)
        mixed = (older.any(axis=2) & ~nothing_new).any(axis=0)
        for place in where[1][mixed].tolist():
            if place not in self.per_cell_times:
                self.per_cell_times[place] = np.repeat(self.at_ns[:, place, None], self.values.shape[2], axis=1)
        times = np.repeat(change.at_ns[:, None], len(change.mapping.columns), axis=1)
        times[:, columns] = np.where(nothing_new, self.at_ns[where], change.at_ns[:, None])
        return times

    def move_in(self, device: int, other: "ColumnStore", former: int) -> None:
        """Take over a device from a stack that has the first columns and the first rows of this one."""
        _, columns, rows = other.values.shape
        self.clear(device)
        self.typical_interval_ns[device] = other.typical_interval_ns[former]
        self.values[device, :columns, :rows] = other.values[former]
        self.at_ns[device, :columns] = other.at_ns[former]
        for place in other.per_cell_times:
            if place not in self.per_cell_times:
                self.per_cell_times[place] = np.repeat(self.at_ns[:, place, None], self.values.shape[2], axis=1)
        for place, cells in self.per_cell_times.items():
            cells[device] = self.at_ns[device, place]
            if place in other.per_cell_times:
                cells[device, :rows] = other.per_cell_times[place][former]


def _clear_if_full(fits: dict[Any, Any]) -> None:
    if len(fits) >= _MAX_MAPPINGS:
        fits.clear()
