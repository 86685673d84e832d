"""From values by row and metric to the columns of Samples. Pure.

A Layout is built once for a set of places (row, metric, index) and used for every reading of that set, so that a
reading costs two array assignments and no loop over values of ours.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from streams.fabric.catalogue import CATALOGUE, Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, Samples, Table


class CellKey(NamedTuple):
    """Where a value belongs: a port (or GPU), what it says, and the lane, priority or queue."""

    row: str
    metric: Metric
    lane: int = NO_INDEX


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of one device, before it is stamped with who read it."""

    sampled_at_ns: int
    received_at_ns: int
    boot_id: int
    row: tuple[str, ...]
    rows_digest: int
    counters: Table
    gauges: Table
    row_delay_us: tuple[int, ...] = ()


def rows_digest(rows: Iterable[str]) -> int:
    """64 bits of BLAKE2b over the names, each ended by a NUL."""
    digest = hashlib.blake2b(digest_size=8)
    for row in rows:
        digest.update(row.encode() + b"\0")
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class _Half:
    """One table: its columns, and for each of its values where it comes from and where it goes."""

    columns: tuple[tuple[Metric, int], ...]
    taken: npt.NDArray[np.intp]
    put: npt.NDArray[np.intp]

    def table(self, values: npt.NDArray[Any], rows: int, absent: float, dtype: str) -> Table:
        """The table of these values, without the columns in which nothing was read."""
        flat = np.full(len(self.columns) * rows, absent, dtype=dtype)
        flat[self.put] = values[self.taken]
        shaped = flat.reshape(len(self.columns), rows)
        read = (~np.isnan(shaped) if dtype == "<f8" else shaped != np.uint64(ABSENT_COUNTER)).any(axis=1)
        kept = [column for column, is_read in zip(self.columns, read, strict=True) if is_read]
        return Table(tuple(metric for metric, _ in kept), tuple(index for _, index in kept), shaped[read])


class Layout:
    """The rows and columns of a set of places; values are given in the order of the places."""

    def __init__(self, places: Sequence[CellKey]) -> None:
        self.row: tuple[str, ...] = tuple(dict.fromkeys(place.row for place in places))
        self.rows_digest = rows_digest(self.row)
        self.row_of: dict[str, int] = {row: number for number, row in enumerate(self.row)}
        self._counters = self._half(places, counter=True)
        self._gauges = self._half(places, counter=False)

    def _half(self, places: Sequence[CellKey], *, counter: bool) -> _Half:
        own = [(i, place) for i, place in enumerate(places) if CATALOGUE[place.metric].counter is counter]
        columns = tuple(sorted({(place.metric, place.lane) for _, place in own}))
        number = {column: n for n, column in enumerate(columns)}
        put = [number[place.metric, place.lane] * len(self.row) + self.row_of[place.row] for _, place in own]
        return _Half(columns, np.array([i for i, _ in own], dtype=np.intp), np.array(put, dtype=np.intp))

    def tables(self, values: Sequence[float | None]) -> tuple[Table, Table]:
        """(counters, gauges) of one reading; None is a value that was not read."""
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


def json_lines(samples: Samples) -> Iterator[str]:
    """One JSON object a row, as `collect --once --print` writes them; what is absent is left out."""
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
