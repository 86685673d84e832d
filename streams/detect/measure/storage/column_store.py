"""Stores the last readings of many devices with the same columns and number of rows in one array.

Counters are uint64 and gauges float64, one store each of shape (devices, columns, rows). A cell that was never read is
absent (2^64-1, NaN). Each device and column has one time of reading. If messages omit cells of a column, each of its
cells has a time (`per_cell_times`); times of all cells would double the memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.array_codec import ArrayCodec, ArrayEncoder, Numbers
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, Table

Column = tuple[Metric, int]
Cells = npt.NDArray[Any]
Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
_T = TypeVar("_T")

NONE = -1
"""No window."""

NEVER_NS = 1 << 50
"""13 days, longer than any evaluated interval between readings."""

LEARNING = 2
"""The phase of a port of which refresh_periods.py knows nothing."""

_MAX_MAPPINGS = 256


def is_absent(values: Cells) -> npt.NDArray[np.bool_]:
    """Return True for each cell that was not read."""
    return np.isnan(values) if values.dtype.kind == "f" else values == ABSENT_COUNTER


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMapping:
    """The columns of a message's table in a store; equal columns share one object."""

    position_of: dict[Column, int]
    """Column -> its position in the message."""
    columns: Indices
    """Position in the message -> index in the store."""
    is_identity: bool
    """True if the message has exactly the store's columns, in their order."""


class MappingCache(dict[ColumnMapping, _T]):
    """Caches values derived from a mapping; a hit makes no Python call."""

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
    """The indices of a message's rows in its device, if it does not have exactly the rows of the device."""

    def previous(self, position: int) -> Cells:
        """Return the last readings of a column, shape (messages, rows)."""
        last: Cells = self.store.values[self.devices, self.mapping.columns[position]]
        return last if self.rows is None else last[:, self.rows]

    def since_ns(self, position: int, message: int, row: int) -> int:
        """Return the time of the last reading of a cell; 0 for never."""
        own = row if self.rows is None else int(self.rows[row])
        return self.store.time(int(self.devices[message]), int(self.mapping.columns[position]), own)


class DeviceColumns(NamedTuple):
    """A copy of one device's state in a store."""

    values: Cells
    at_ns: Times
    per_cell_times: dict[int, Times]


class DeviceArrays:
    """Arrays by device, each an attribute of a subclass; they grow, are cleared and move to another block together."""

    def __init__(self, columns: tuple[Column, ...], rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.index_of = {column: place for place, column in enumerate(columns)}
        self._arrays: dict[str, tuple[str, Any]] = {}
        """Name -> its axes after the device (c: columns, r: rows), and the value of an index without a device."""

    def _array(self, name: str, axes: str, kind: Any, empty: Any, columns: int | None = None) -> None:
        """Add an array; it has only the first `columns` if given."""
        size = {"c": len(self.columns) if columns is None else columns, "r": self.rows}
        self._arrays[name] = axes, empty
        setattr(self, name, np.empty((0, *(size[axis] for axis in axes)), kind))

    def grow(self, devices: int) -> None:
        """Make room; `begin` writes the cells of columns and rows, whose pages cost no memory until then."""
        for name, (axes, empty) in self._arrays.items():
            former: Cells = getattr(self, name)
            array = np.empty((devices, *former.shape[1:]), former.dtype)
            array[: len(former)] = former
            if axes != "cr":
                array[len(former) :] = empty
            setattr(self, name, array)

    def begin(self, device: int) -> None:
        """Write the empty cells of a new device."""
        for name, (axes, empty) in self._arrays.items():
            if axes == "cr":
                getattr(self, name)[device] = empty

    def clear(self, device: int) -> None:
        """Discard all readings of a device; its next readings have nothing to compare with."""
        for name, (_, empty) in self._arrays.items():
            getattr(self, name)[device] = empty

    def move_in(self, device: int, other: Any, former: int) -> None:
        """Move a device to a free index here from a block that has the first of these rows, and some of these columns.

        If this block lacks a column, the other block derives from it a column that this one reads.
        """
        rows = slice(other.rows)
        known = [(was, self.index_of[column]) for column, was in other.index_of.items() if column in self.index_of]
        for name, (axes, _) in self._arrays.items():
            target, source = getattr(self, name), getattr(other, name)[former]
            if "c" not in axes:
                target[(device, rows)[: target.ndim]] = source
                continue
            for was, place in known:
                if was < len(source):
                    target[(device, place, rows)[: target.ndim]] = source[was]


class ColumnStore(DeviceArrays):
    """The counters or the gauges of a block of devices."""

    changed_ns: Times
    """Device and row -> the last reading in which its bytes moved; see refresh_periods.py for these six."""
    phase: npt.NDArray[np.uint8]
    moves: npt.NDArray[np.uint8]
    score: npt.NDArray[np.int8]
    stood: npt.NDArray[np.bool_]
    period_ns: Times
    carrier: npt.NDArray[np.int8]
    """Device and row -> the evidence of a carrier at a port that is down (refuted_readings.py)."""

    values: Cells
    at_ns: Times
    typical_interval_ns: Times
    """Device -> the interval between its readings while none is missing; NEVER_NS if unknown."""

    def __init__(self, columns: tuple[Column, ...], rows: int, dtype: str) -> None:
        super().__init__(columns, rows)
        self.absent: Any = np.nan if dtype == "f8" else np.uint64(ABSENT_COUNTER)
        self._array("values", "cr", dtype, self.absent)
        self._array("at_ns", "c", np.int64, 0)
        self._array("typical_interval_ns", "", np.int64, NEVER_NS)
        for name, kind in (("changed_ns", "i8"), ("moves", "u1"), ("score", "i1"), ("stood", "?"), ("period_ns", "i8")):
            self._array(name, "r", np.dtype(kind), 0)
        self._array("phase", "r", np.uint8, LEARNING)
        self._array("carrier", "r", np.int8, 0)
        self.has_carriers = False
        """True if a port has been down."""
        self.per_cell_times: dict[int, Times] = {}
        """Index of a column -> the time of each of its cells, shape (devices, rows)."""
        self._mappings: dict[tuple[Column, ...], ColumnMapping] = {}
        self._mapping_by_identity: dict[tuple[int, int], tuple[ColumnMapping, Any, Any]] = {}
        """By the identity of the tuples that the codec shares; it holds them, so that no others get their identity."""

    def grow(self, devices: int) -> None:
        super().grow(devices)
        for place, cells in self.per_cell_times.items():
            more = np.zeros((devices - len(cells), self.rows), np.int64)
            self.per_cell_times[place] = np.concatenate([cells, more])

    def clear(self, device: int) -> None:
        super().clear(device)
        for cells in self.per_cell_times.values():
            cells[device] = 0

    def copy_of(self, device: int) -> DeviceColumns:
        ragged = {place: cells[device].copy() for place, cells in self.per_cell_times.items()}
        return DeviceColumns(self.values[device].copy(), self.at_ns[device].copy(), ragged)

    def restore(self, device: int, row: DeviceColumns) -> None:
        self.values[device], self.at_ns[device] = row.values, row.at_ns
        for place, cells in self.per_cell_times.items():
            cells[device] = row.per_cell_times.get(place, row.at_ns[place])

    def time(self, device: int, place: int, row: int) -> int:
        """Return the time of the last reading of a cell; 0 for never."""
        if is_absent(self.values[device, place, row]):
            return 0
        cells = self.per_cell_times.get(place)
        return int(self.at_ns[device, place] if cells is None else cells[device, row])

    def times(self, device: int, places: Indices) -> Times:
        """Return the times of the last readings of a device's cells in these columns, shape (columns, rows)."""
        times = np.repeat(self.at_ns[device, places][:, None], self.rows, axis=1)
        for position, place in enumerate(places.tolist()):
            if place in self.per_cell_times:
                times[position] = self.per_cell_times[place][device]
        times[is_absent(self.values[device, places])] = 0
        return times

    def mapping(self, table: Table) -> ColumnMapping | None:
        """Return the mapping of a message's columns; None if the store lacks one of them."""
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

        A column without any cell in a message keeps its time; a column with some cells gets a time for each cell.
        """
        columns = np.flatnonzero(absent.any(axis=(0, 2)))
        where = (delta.devices[:, None], delta.mapping.columns[columns])
        missing, before = absent[:, columns], self.values[where]
        older = missing & ~is_absent(before)
        if not np.count_nonzero(older):  # the usual case: the device never had the missing cells
            return delta.at_ns[:, None]
        if not delta.values.flags.writeable:
            delta.values = delta.values.copy()
        delta.values[:, columns] = np.where(missing, before, delta.values[:, columns])
        nothing_new = missing.all(axis=2)
        mixed = (older.any(axis=2) & ~nothing_new).any(axis=0)
        for place in where[1][mixed].tolist():
            self._split_times(place)
        times = np.repeat(delta.at_ns[:, None], len(delta.mapping.columns), axis=1)
        times[:, columns] = np.where(nothing_new, self.at_ns[where], delta.at_ns[:, None])
        return times

    def move_in(self, device: int, other: Any, former: int) -> None:
        super().move_in(device, other, former)
        for place in other.per_cell_times:
            self._split_times(place)
        for place, cells in self.per_cell_times.items():
            cells[device] = self.at_ns[device, place]
            if place in other.per_cell_times:
                cells[device, : other.rows] = other.per_cell_times[place][former]

    def _split_times(self, place: int) -> None:
        """Give each cell of a column its own time."""
        if place not in self.per_cell_times:
            self.per_cell_times[place] = np.repeat(self.at_ns[:, place, None], self.rows, axis=1)

    def exchange(self, codec: ArrayCodec, places: Numbers, newest: Times, per_cell: list[int]) -> list[int]:
        """Write or fill the devices at these indices; `newest` has their newest times.

        Returns the columns with a time for each cell, which a reader receives. If all cells of a column have one time
        again, the store also drops its times by cell; no result depends on them.
        """
        if isinstance(codec, ArrayEncoder):
            per_cell = [place for place in range(len(self.columns)) if self._has_times_by_cell(place, places)]
        own: Any = slice(len(places)) if places[-1] == len(places) - 1 else places
        for place in range(len(self.columns)):
            codec.exchange(self.values, (own, place))
            codec.exchange(self.at_ns, (own, place), newest)
            if place in per_cell:
                self._split_times(place)
                codec.exchange(self.per_cell_times[place], own, newest[:, None])
        return per_cell

    def _has_times_by_cell(self, place: int, places: Numbers) -> bool:
        if place not in self.per_cell_times:
            return False
        times = self.at_ns[places, place][:, None]
        cells = np.where(is_absent(self.values[places, place]), times, self.per_cell_times[place][places])
        self.per_cell_times[place][places] = cells
        if (cells == times).all():
            del self.per_cell_times[place]
            return False
        return True


def _clear_if_full(fits: dict[Any, Any]) -> None:
    if len(fits) >= _MAX_MAPPINGS:
        fits.clear()
