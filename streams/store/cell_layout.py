"""Converts a list of cells (row, column, value) to the two tables of a samples message.

Messages of one device usually have the same cells in the same order, so the positions are computed once for all of
them (`CellLayout`), and no Python runs per cell. Values are 64-bit words: a counter itself, or the bits of a gauge's
double.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import COUNTERS, Metric
from streams.wire.models import ABSENT_COUNTER, Table

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32] | Ints
Words = npt.NDArray[np.uint64]

_MAX_LAYOUTS = 100_000
"""Far more layouts than a fabric has; the limit bounds the memory for a recording in random order."""


def column_code(metric: Any, index: Any) -> Any:
    """Return one number for a metric and its index (-1: no index); also works on arrays."""
    return (metric << 32) + index + 1


class NameTable:
    """Assigns a number to each name, the same for the lifetime of the table."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._sort_ranks: Ints = np.empty(0, np.int64)

    def codes(self, names: Sequence[str]) -> Ints:
        """Return the numbers of these names."""
        codes = self._codes
        for name in names:
            if name not in codes:
                codes[name] = len(self.names)
                self.names.append(name)
        return np.fromiter((codes[name] for name in names), np.int64, len(names))

    @property
    def sort_ranks(self) -> Ints:
        """Number of a name -> its rank among all sorted names."""
        if len(self._sort_ranks) != len(self.names):
            self._sort_ranks = np.empty(len(self.names), np.int64)
            self._sort_ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return self._sort_ranks


@dataclass(frozen=True, slots=True)
class _TableLayout:
    """The layout of one table: its columns, the message's cell of each value, and the positions without a value."""

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    shape: tuple[int, int]
    cells: Ints
    empty: Ints

    def table(self, words: Words, absent: Words) -> Words:
        """Return the table's values as words, shape (columns, rows)."""
        values = words[self.cells]
        if len(self.empty):
            values[self.empty] = absent
        return values.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class CellLayout:
    """The tables of a message with these cells; its rows are in the order of their names."""

    row: tuple[str, ...]
    counters: _TableLayout
    gauges: _TableLayout

    def tables(self, words: Words) -> tuple[Table, Table]:
        """Return the two tables of a message; a repeated cell has its last value."""
        counters = self.counters.table(words, _ABSENT_COUNTER)
        gauges = self.gauges.table(words, _ABSENT_GAUGE).view(np.float64)
        return (
            Table(self.counters.metric, self.counters.index, counters),
            Table(self.gauges.metric, self.gauges.index, gauges),
        )


_ABSENT_COUNTER = np.array(ABSENT_COUNTER, np.uint64)
_ABSENT_GAUGE = np.array(np.nan).view(np.uint64)


class CellLayoutCache:
    """Caches layouts by cells; equal rows and columns are the same objects in all layouts, which stages rely on."""

    def __init__(self, rows: NameTable) -> None:
        self._rows = rows
        self._layouts: dict[tuple[bytes, bytes], CellLayout] = {}
        self._interned: dict[Any, Any] = {}

    def layout_of(self, rows: Codes, columns: Ints) -> CellLayout:
        """Return the layout of a message's cells, given in order: numbers of rows, codes of columns."""
        key = rows.tobytes(), columns.tobytes()
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[key] = self._build(rows, columns)
        return layout

    def _build(self, rows: Codes, columns: Ints) -> CellLayout:
        names = self._rows.names
        unique_rows = sorted(set(rows.tolist()), key=names.__getitem__)
        index_of_row = {row: index for index, row in enumerate(unique_rows)}
        row_index = np.fromiter((index_of_row[row] for row in rows.tolist()), np.int64, len(rows))
        counter = np.isin(columns >> 32, _COUNTERS)
        return CellLayout(
            self._intern(tuple(names[row] for row in unique_rows)),
            self._table_layout(counter, columns, row_index, len(unique_rows)),
            self._table_layout(~counter, columns, row_index, len(unique_rows)),
        )

    def _table_layout(self, mask: npt.NDArray[np.bool_], columns: Ints, row_index: Ints, rows: int) -> _TableLayout:
        selected = np.flatnonzero(mask)
        codes = columns[selected].tolist()
        unique_codes = list(dict.fromkeys(codes))
        index_of_code = {code: index for index, code in enumerate(unique_codes)}
        starts = np.fromiter((index_of_code[code] for code in codes), np.int64, len(selected)) * rows
        cells = np.full(len(unique_codes) * rows, -1)
        cells[starts + row_index[selected]] = selected
        return _TableLayout(
            self._intern(tuple(Metric(code >> 32) for code in unique_codes)),
            self._intern(tuple((code & 0xFFFF_FFFF) - 1 for code in unique_codes)),
            (len(unique_codes), rows),
            cells,
            np.flatnonzero(cells < 0),
        )

    def _intern(self, value: Any) -> Any:
        return self._interned.setdefault(value, value)


_COUNTERS = np.array([int(metric) for metric in COUNTERS], np.int64)
