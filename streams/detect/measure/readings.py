"""The last reading of every cell of a device's table, and what changed since: dense, without a loop over values.

Holds counters as uint64 and gauges as float64, one matrix each of shape (columns, rows), beside the event time of
every cell in ns. A message need not bring all rows or columns; what it leaves out keeps its last reading.
Absent stays absent; a reading older than the last is passed over, because a counter says all again next time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, Samples, Table

Column = tuple[Metric, int]
Cells = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Change:
    """What one table of a message brought, in the message's own order: arrays of shape (columns, rows).

    `fresh` is True where a reading is present and newer than the last; `known` where there also was one before, of
    the same life of the device; `before` and `since_ns` are that reading.
    """

    columns: dict[Column, int]
    values: Cells
    before: Cells
    since_ns: npt.NDArray[np.int64]
    fresh: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]

    def grown(self, column: int) -> Cells:
        """By how much a counter grew, per row; 0 where unknown and where the device started it anew (a reset)."""
        ahead = self.known[column] & (self.values[column] > self.before[column])
        return np.where(ahead, self.values[column] - self.before[column], 0)


class Matrix:
    """One table's last readings; grows with the rows and columns it meets."""

    def __init__(self, absent: Any, dtype: str) -> None:
        self.columns: dict[Column, int] = {}
        self.values: Cells = np.empty((0, 0), dtype)
        self.at_ns: npt.NDArray[np.int64] = np.empty((0, 0), np.int64)
        self._absent = absent

    def forget(self) -> None:
        """The device restarted: no reading of its last life is comparable."""
        self.at_ns[...] = 0

    def update(self, table: Table, rows: slice | npt.NDArray[np.intp], row_count: int, at_ns: int) -> Change:
        """Take a message's table over; `rows` are its rows' places, `row_count` the rows known by now."""
        positions = self._positions(table, row_count)
        where: Any = (
            (positions, rows) if isinstance(positions, slice) or isinstance(rows, slice) else np.ix_(positions, rows)
        )
        before, since = self.values[where], self.at_ns[where]
        present = ~np.isnan(table.values) if self.values.dtype.kind == "f" else table.values != ABSENT_COUNTER
        fresh = present & (since < at_ns)
        change = Change(
            {column: i for i, column in enumerate(zip(table.metric, table.index, strict=True))},
            table.values, before.copy(), since.copy(), fresh, fresh & (since > 0),
        )  # fmt: skip
        self.values[where] = np.where(fresh, table.values, before)
        self.at_ns[where] = np.where(fresh, at_ns, since)
        return change

    def _positions(self, table: Table, row_count: int) -> slice | npt.NDArray[np.intp]:
        columns = list(zip(table.metric, table.index, strict=True))
        for column in columns:
            self.columns.setdefault(column, len(self.columns))
        if (shape := (len(self.columns), row_count)) != self.values.shape:
            grown = np.full(shape, self._absent, self.values.dtype)
            times = np.zeros(shape, np.int64)
            height, width = self.values.shape
            grown[:height, :width], times[:height, :width] = self.values, self.at_ns
            self.values, self.at_ns = grown, times
        positions = [self.columns[column] for column in columns]
        return slice(None) if positions == list(range(len(self.columns))) else np.array(positions, np.intp)


class Readings:
    """What one source last read of one device."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.counters = Matrix(ABSENT_COUNTER, "u8")
        self.gauges = Matrix(np.nan, "f8")
        self.boot_id = 0
        self._last_rows: tuple[str, ...] = ()
        self._last_places: slice | npt.NDArray[np.intp] = slice(None)

    def update(self, samples: Samples, at_ns: int) -> tuple[Change, Change]:
        """Take a message over; answers what changed in (counters, gauges)."""
        places = self._places(samples.row)
        counters = self.counters.update(samples.counters, places, len(self.rows), at_ns)
        return counters, self.gauges.update(samples.gauges, places, len(self.rows), at_ns)

    def restarted(self) -> None:
        """Counters start at zero; states stay comparable, because a port that was up and is down did go down."""
        self.counters.forget()

    def _places(self, rows: tuple[str, ...]) -> slice | npt.NDArray[np.intp]:
        if rows != self._last_rows:
            for row in rows:
                self.rows.setdefault(row, len(self.rows))
            places = [self.rows[row] for row in rows]
            self._last_rows = rows
            self._last_places = np.array(places, np.intp)
        if len(rows) == len(self.rows) and isinstance(self._last_places, np.ndarray):
            return slice(None) if bool((self._last_places == np.arange(len(rows))).all()) else self._last_places
        return self._last_places
