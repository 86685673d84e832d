"""Cells that stand one under the other (a row, a column, a value), as the two tables of a message of samples.

Readings of one device mostly have the same cells in the same order, so where each belongs is found out once for all of
them (`Pattern`), and no Python runs for a cell. Values are 64-bit words: of counters as they are, of gauges the bits
of the double.
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

_MOST_PATTERNS = 100_000
"""Far more than devices of one fabric have; a recording without any order must not fill the memory."""


def column_code(metric: Any, index: Any) -> Any:
    """One number for a metric and its index (-1 for none); of arrays as well."""
    return (metric << 32) + index + 1


class NameTable:
    """Numbers for names, the same for as long as this lives."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._order: Ints = np.empty(0, np.int64)

    def codes(self, names: Sequence[str]) -> Ints:
        """The numbers of these names."""
        known = self._codes
        for name in names:
            if name not in known:
                known[name] = len(self.names)
                self.names.append(name)
        return np.fromiter((known[name] for name in names), np.int64, len(names))

    @property
    def sort_ranks(self) -> Ints:
        """By number: which place a name has among all, sorted."""
        if len(self._order) != len(self.names):
            self._order = np.empty(len(self.names), np.int64)
            self._order[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return self._order


@dataclass(frozen=True, slots=True)
class _TableLayout:
    """One table: its columns, which cell of a message each of its values is, and where there is none."""

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    shape: tuple[int, int]
    taken: Ints
    without: Ints

    def table(self, words: Words, absent: Words) -> Words:
        """The values in place, shape (columns, rows), as words."""
        values = words[self.taken]
        if len(self.without):
            values[self.without] = absent
        return values.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class CellLayout:
    """The tables of a message whose cells are these: its rows in the order of their names."""

    row: tuple[str, ...]
    counters: _TableLayout
    gauges: _TableLayout

    def tables(self, words: Words) -> tuple[Table, Table]:
        """The two tables of a message; a cell that occurs twice has its last value."""
        counters = self.counters.table(words, _ABSENT_COUNTER)
        gauges = self.gauges.table(words, _ABSENT_GAUGE).view(np.float64)
        return (
            Table(self.counters.metric, self.counters.index, counters),
            Table(self.gauges.metric, self.gauges.index, gauges),
        )


_ABSENT_COUNTER = np.array(ABSENT_COUNTER, np.uint64)
_ABSENT_GAUGE = np.array(np.nan).view(np.uint64)


class CellLayoutCache:
    """The patterns met so far; equal rows and columns are the same objects in all of them, which stages rely on."""

    def __init__(self, rows: NameTable) -> None:
        self._rows = rows
        self._known: dict[tuple[bytes, bytes], CellLayout] = {}
        self._shared: dict[Any, Any] = {}

    def layout_of(self, rows: Codes, columns: Ints) -> CellLayout:
        """The pattern of a message's cells, in their order: numbers of rows, codes of columns."""
        key = rows.tobytes(), columns.tobytes()
        pattern = self._known.get(key)
        if pattern is None:
            if len(self._known) >= _MOST_PATTERNS:
                self._known.clear()
            pattern = self._known[key] = self._made(rows, columns)
        return pattern

    def _made(self, rows: Codes, columns: Ints) -> CellLayout:
        names = self._rows.names
        own = sorted(set(rows.tolist()), key=names.__getitem__)
        place_of = {row: place for place, row in enumerate(own)}
        places = np.fromiter((place_of[row] for row in rows.tolist()), np.int64, len(rows))
        counter = np.isin(columns >> 32, _COUNTERS)
        return CellLayout(
            self._one(tuple(names[row] for row in own)),
            self._half(counter, columns, places, len(own)),
            self._half(~counter, columns, places, len(own)),
        )

    def _half(self, mask: npt.NDArray[np.bool_], columns: Ints, places: Ints, rows: int) -> _TableLayout:
        taken = np.flatnonzero(mask)
        own = list(dict.fromkeys(columns[taken].tolist()))
        column_of = {code: place for place, code in enumerate(own)}
        where = np.fromiter((column_of[code] for code in columns[taken].tolist()), np.int64, len(taken)) * rows
        cell = np.full(len(own) * rows, -1)
        cell[where + places[taken]] = taken
        return _TableLayout(
            self._one(tuple(Metric(code >> 32) for code in own)),
            self._one(tuple((code & 0xFFFF_FFFF) - 1 for code in own)),
            (len(own), rows),
            cell,
            np.flatnonzero(cell < 0),
        )

    def _one(self, made: Any) -> Any:
        return self._shared.setdefault(made, made)


_COUNTERS = np.array([int(metric) for metric in COUNTERS], np.int64)
