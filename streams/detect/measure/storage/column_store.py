"""Stores the last readings of many devices with the same columns and the same number of rows in one array.

Counters are uint64 and gauges float64, one store each of shape (devices, columns, rows). A cell that was never read is
absent (2^64-1, NaN). The time of a reading is one number for each device and column; a column of which messages leave
cells out has a time for each cell (`per_cell_times`). Times of all cells would double the memory.
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
"""13 days, longer than any interval between readings that is evaluated."""

_MAX_MAPPINGS = 256


def is_absent(values: Cells) -> npt.NDArray[np.bool_]:
    """Return True for each cell that was not read."""
    return np.isnan(values) if values.dtype.kind == "f" else values == ABSENT_COUNTER


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMapping:
    """The columns of a message's table in a store; there is one object for equal columns."""

    position_of: dict[Column, int]
    """Column -> its position in the message."""
    columns: Indices
    """By position in the message: index in the store."""
    is_identity: bool
    """The message has exactly the store's columns, in their order."""


class MappingCache(dict[ColumnMapping, _T]):
    """Caches what is derived from a mapping: a hit makes no Python call."""

    def __init__(self, make: Callable[[ColumnMapping], _T]) -> None:
        self._make = make

    def __missing__(self, mapping: ColumnMapping) -> _T:
        _clear_if_full(self)
        made = self[mapping] = self._make(mapping)
        return made


@dataclass(slots=True)
class TableDelta:
    """One table of messages of different devices beside the last readings; shape (messages, columns, rows)."""

    store: "ColumnStore"
    devices: Indices
    mapping: ColumnMapping
    values: Cells
    at_ns: Times
    rows: Indices | None = None
    """Indices of a message's rows in its device, where it does not have exactly the rows of the device."""

    def previous(self, position: int) -> Cells:
        """Return the last readings of a column, shape (messages, rows)."""
        last: Cells = self.store.values[self.devices, self.mapping.columns[position]]
        return last if self.rows is None else last[:, self.rows]

    def since_ns(self, position: int, message: int, row: int) -> int:
        """Return when a cell was last read; 0 for never."""
        own = row if self.rows is None else int(self.rows[row])
        return self.store.time(int(self.devices[message]), int(self.mapping.columns[position]), own)


class DeviceColumns(NamedTuple):
    """A copy of all that a store has of one device."""

    values: Cells
    at_ns: Times
    per_cell_times: dict[int, Times]


class ColumnStore:
    """The counters or the gauges of a block of devices."""

    def __init__(self, columns: tuple[Column, ...], rows: int, dtype: str) -> None:
        self.columns = columns
        self.index_of = {column: place for place, column in enumerate(columns)}
        self.absent: Any = np.nan if dtype == "f8" else np.uint64(ABSENT_COUNTER)
        self.values: Cells = np.empty((0, len(columns), rows), dtype)
        self.at_ns: Times = np.zeros((0, len(columns)), np.int64)
        self.typical_interval_ns: Times = np.zeros(0, np.int64)
        """By device: interval between its readings while none is missing; NEVER_NS where unknown."""
        self.per_cell_times: dict[int, Times] = {}
        """Index of a column -> the time of each of its cells, shape (devices, rows)."""
        self._mappings: dict[tuple[Column, ...], ColumnMapping] = {}
        self._mapping_by_identity: dict[tuple[int, int], tuple[ColumnMapping, Any, Any]] = {}
        """By the identity of the tuples that the codec shares; it holds these, so that no others get their identity."""

    def grow(self, devices: int) -> None:
        """Make room; pages that were not written yet cost no memory."""
        former, columns, rows = self.values.shape
        values = np.empty((devices, columns, rows), self.values.dtype)
        values[:former] = self.values
        self.values = values
        self.at_ns = np.concatenate([self.at_ns, np.zeros((devices - former, columns), np.int64)])
        self.typical_interval_ns = np.concatenate([self.typical_interval_ns, np.full(devices - former, NEVER_NS)])
        for place, cells in self.per_cell_times.items():
            self.per_cell_times[place] = np.concatenate([cells, np.zeros((devices - former, rows), np.int64)])

    def clear(self, device: int) -> None:
        """Forget all readings of a device: none is comparable with the next ones."""
        self.values[device], self.at_ns[device], self.typical_interval_ns[device] = self.absent, 0, NEVER_NS
        for cells in self.per_cell_times.values():
            cells[device] = 0

    def copy_of(self, device: int) -> DeviceColumns:
        """Return a copy of all that is stored of a device."""
        ragged = {place: cells[device].copy() for place, cells in self.per_cell_times.items()}
        return DeviceColumns(self.values[device].copy(), self.at_ns[device].copy(), ragged)

    def restore(self, device: int, row: DeviceColumns) -> None:
        """Put back what `copy_of` returned."""
        self.values[device], self.at_ns[device] = row.values, row.at_ns
        for place, cells in self.per_cell_times.items():
            cells[device] = row.per_cell_times.get(place, row.at_ns[place])

    def time(self, device: int, place: int, row: int) -> int:
        """Return when a cell was last read; 0 for never."""
        if is_absent(self.values[device, place, row]):
            return 0
        cells = self.per_cell_times.get(place)
        return int(self.at_ns[device, place] if cells is None else cells[device, row])

    def times(self, device: int, places: Indices) -> Times:
        """Return when the cells of these columns of a device were last read, shape (columns, rows)."""
        times = np.repeat(self.at_ns[device, places][:, None], self.values.shape[2], axis=1)
        for position, place in enumerate(places.tolist()):
            if place in self.per_cell_times:
                times[position] = self.per_cell_times[place][device]
        times[is_absent(self.values[device, places])] = 0
        return times

    def mapping(self, table: Table) -> ColumnMapping | None:
        """Return the mapping of a message's columns; None where the store lacks one of them."""
        known = self._mapping_by_identity.get((id(table.metric), id(table.index)))
        if known is not None:
            return known[0]
        columns = tuple(zip(table.metric, table.index, strict=True))
        mapping = self._mappings.get(columns)
        if mapping is None:
            if not all(column in self.index_of for column in columns):
                return None
            places = np.array([self.index_of[column] for column in columns], np.intp)
            mapping = ColumnMapping({column: i for i, column in enumerate(columns)}, places, columns == self.columns)
            _clear_if_full(self._mappings)
            self._mappings[columns] = mapping
        _clear_if_full(self._mapping_by_identity)
        self._mapping_by_identity[id(table.metric), id(table.index)] = mapping, table.metric, table.index
        return mapping

    def apply(self, delta: TableDelta) -> None:
        """Store the readings of messages; a cell that is absent in a message keeps its last reading."""
        if not delta.values.size:
            return
        values, devices, places = delta.values, delta.devices, delta.mapping.columns
        times: Times = delta.at_ns[:, None]
        absent = is_absent(values)
        if np.count_nonzero(absent):
            times = self._fill_absent(delta, absent)
            values = delta.values
        for position, place in enumerate(places.tolist() if self.per_cell_times else ()):
            if place in self.per_cell_times:
                cells = self.per_cell_times[place]
                cells[devices] = np.where(absent[:, position], cells[devices], delta.at_ns[:, None])
        if delta.mapping.is_identity:
            self.values[devices], self.at_ns[devices] = values, times
        else:
            self.values[devices[:, None], places], self.at_ns[devices[:, None], places] = values, times

    def _fill_absent(self, delta: TableDelta, absent: npt.NDArray[np.bool_]) -> Times:
        """Fill cells that are absent in messages with the last readings; return the times of the columns.

        A column of which a message has no cell keeps its time; one of which it has some gets a time for each cell.
        """
        columns = np.flatnonzero(absent.any(axis=(0, 2)))
        where = (delta.devices[:, None], delta.mapping.columns[columns])
        missing, before = absent[:, columns], self.values[where]
        older = missing & ~is_absent(before)
        if not np.count_nonzero(older):  # the device never had what is missing, which is the usual case
            return delta.at_ns[:, None]
        if not delta.values.flags.writeable:
            delta.values = delta.values.copy()
        delta.values[:, columns] = np.where(missing, before, delta.values[:, columns])
        nothing_new = missing.all(axis=2)
        mixed = (older.any(axis=2) & ~nothing_new).any(axis=0)
        for place in where[1][mixed].tolist():
            if place not in self.per_cell_times:
                self.per_cell_times[place] = np.repeat(self.at_ns[:, place, None], self.values.shape[2], axis=1)
        times = np.repeat(delta.at_ns[:, None], len(delta.mapping.columns), axis=1)
        times[:, columns] = np.where(nothing_new, self.at_ns[where], delta.at_ns[:, None])
        return times

    def move_in(self, device: int, other: "ColumnStore", former: int) -> None:
        """Take over a device from a store that has the first columns and the first rows of this one."""
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
