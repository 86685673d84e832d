"""Arranges values by row and metric in the columns of Samples. Pure.

A Layout is built once for a set of cells (row, metric, index) and used for every reading of that set, so that a
reading costs two array assignments and no Python loop over values.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, Samples, Table

_NOTABLE_DELAY_US = 1000
"""Rows read within a millisecond count as simultaneous: nothing is measured at a finer resolution."""
_MOST_DELAY_US = 2**31 - 1


class CellKey(NamedTuple):
    """The position of a value: port (or GPU), metric, and lane, priority or queue."""

    row: str
    metric: Metric
    lane: int = NO_INDEX


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of one device, before the Emitter adds its identity."""

    sampled_at_ns: int
    received_at_ns: int
    boot_id: int
    row: tuple[str, ...]
    rows_digest: int
    counters: Table
    gauges: Table
    row_delay_us: tuple[int, ...] = ()


def rows_digest(rows: Iterable[str]) -> int:
    """Return 64 bits of BLAKE2b over the names, each ended by a NUL."""
    digest = hashlib.blake2b(digest_size=8)
    for row in rows:
        digest.update(row.encode() + b"\0")
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class _Half:
    """One table: its columns, and for each value its source and destination index."""

    columns: tuple[tuple[Metric, int], ...]
    source: npt.NDArray[np.intp]
    destination: npt.NDArray[np.intp]

    def table(self, values: npt.NDArray[Any], rows: int, absent: float, dtype: str) -> Table:
        """Return the table of these values, without the columns that have none."""
        flat = np.full(len(self.columns) * rows, absent, dtype=dtype)
        flat[self.destination] = values[self.source]
        shaped = flat.reshape(len(self.columns), rows)
        is_used = (~np.isnan(shaped) if dtype == "<f8" else shaped != np.uint64(ABSENT_COUNTER)).any(axis=1)
        used = [column for column, has_value in zip(self.columns, is_used, strict=True) if has_value]
        return Table(tuple(metric for metric, _ in used), tuple(index for _, index in used), shaped[is_used])


class Layout:
    """The rows and columns of a set of cells; values are given in the order of the cells."""

    def __init__(self, cells: Sequence[CellKey]) -> None:
        self.row: tuple[str, ...] = tuple(dict.fromkeys(cell.row for cell in cells))
        self.rows_digest = rows_digest(self.row)
        self.row_of: dict[str, int] = {row: number for number, row in enumerate(self.row)}
        self._counters = self._half(cells, counter=True)
        self._gauges = self._half(cells, counter=False)

    def _half(self, cells: Sequence[CellKey], *, counter: bool) -> _Half:
        selected = [(i, cell) for i, cell in enumerate(cells) if cell.metric.counter is counter]
        columns = tuple(sorted({(cell.metric, cell.lane) for _, cell in selected}))
        number = {column: n for n, column in enumerate(columns)}
        target = [number[cell.metric, cell.lane] * len(self.row) + self.row_of[cell.row] for _, cell in selected]
        return _Half(columns, np.array([i for i, _ in selected], dtype=np.intp), np.array(target, dtype=np.intp))

    def tables(self, values: Sequence[float | None]) -> tuple[Table, Table]:
        """Return (counters, gauges) of one reading; None is an absent value."""
        objects = np.empty(len(values), dtype=object)
        objects[:] = values
        missing = np.array([value is None for value in values], dtype=bool)
        counters, gauges = objects.copy(), objects
        counters[missing] = ABSENT_COUNTER
        gauges[missing] = np.nan
        rows = len(self.row)
        return (
            self._counters.table(counters, rows, ABSENT_COUNTER, "<u8"),
            self._gauges.table(gauges, rows, np.nan, "<f8"),
        )


class RowReading(NamedTuple):
    """The values of one row, each with its metric and lane, timed at the middle of the row's own reading."""

    at_ns: int
    slots: tuple[tuple[Metric, int], ...]
    values: Sequence[float | None]


class RowComposer:
    """Composes a reading from rows that are read one after the other.

    Caches the layout of the last reading, because the next reading nearly always has the same.
    """

    def __init__(self) -> None:
        self._key: list[tuple[str, tuple[tuple[Metric, int], ...]]] = []
        self._layout = Layout(())

    def compose(self, rows: Mapping[str, RowReading], received_at_ns: int, boot_id: int) -> Reading:
        """Return a reading with one row for each name; there is at least one name."""
        ordered = sorted(rows.items())
        key = [(name, row.slots) for name, row in ordered]
        if key != self._key:
            self._key = key
            self._layout = Layout([CellKey(name, *slot) for name, slots in key for slot in slots])
        sampled_ns = min(row.at_ns for _, row in ordered)
        delays = tuple(min((row.at_ns - sampled_ns) // 1000, _MOST_DELAY_US) for _, row in ordered)
        return Reading(
            sampled_ns, max(received_at_ns, sampled_ns), boot_id, self._layout.row, self._layout.rows_digest,
            *self._layout.tables([value for _, row in ordered for value in row.values]),
            delays if max(delays) >= _NOTABLE_DELAY_US else (),
        )  # fmt: skip


def json_lines(samples: Samples) -> Iterator[str]:
    """Yield one JSON object per row, as `collect --once --print` writes it, without absent values."""
    tables = ((samples.counters, True), (samples.gauges, False))
    for number, row in enumerate(samples.row):
        metrics: dict[str, int | float] = {}
        for table, counter in tables:
            for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
                value = values[number]
                if value == ABSENT_COUNTER if counter else np.isnan(value):
                    continue
                name = metric.name.lower() + ("" if index == NO_INDEX else f"[{index}]")
                metrics[name] = int(value) if counter else float(value)
        yield orjson.dumps(
            {
                "time": samples.sampled_at_ns + 1000 * (samples.row_delay_us[number] if samples.row_delay_us else 0),
                "device": samples.device,
                "source": samples.source.label,
                "port": row,
                "metrics": metrics,
            }
        ).decode()


def unquoted(name: str) -> str:
    """Return a name without literal quotes around it: some agents and scripts send `"1"` for port 1."""
    if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'":
        return name[1:-1].strip()
    return name
