"""Restores samples messages from rows of `samples` and `sample_lanes`, given as Arrow tables.

Converts whole columns: Python runs per message, never per row or value. The rows of a message are in the order of their
names.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.fabric.catalogue import BY_NAME, Metric
from streams.store.cell_layout import CellLayoutCache, Ints, NameTable, column_code
from streams.store.enum_labels import ROW_KIND_OF_LABEL, SOURCE_OF_LABEL
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, Samples, Table

_PARTITION = 1 << 48
MessageTables = tuple[tuple[str, ...], Table, Table]
"""The row names of a message, its counters and its gauges."""


class MessageHeaders:
    """The messages of a window, in order."""

    def __init__(self, table: pa.Table) -> None:
        self.count = table.num_rows
        self.headers = table.to_pylist()
        self.rows = sum(header["rows"] for header in self.headers)
        keys = _keys(table)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def message_numbers(self, table: pa.Table) -> Ints:
        """Return the message number of each row; -1 for a row of another message."""
        keys = _keys(table)
        places = np.minimum(np.searchsorted(self._keys, keys), self.count - 1)
        return np.where(self._keys[places] == keys, self._order[places], -1)


def window_messages(
    headers: MessageHeaders,
    scalar_tables: Sequence[pa.Table],
    lane_tables: Sequence[pa.Table],
    metrics: Sequence[Metric],
) -> Iterator[Samples]:
    """Yield the messages; `scalar_tables` have a column for each of `metrics`, `lane_tables` a row for each value."""
    names = NameTable()
    scalars = _Scalars(headers, scalar_tables, metrics, names)
    lanes = _Lanes(headers, lane_tables, names)
    for number, header in enumerate(headers.headers):
        scalar_values, delays = scalars.message(number)
        row, counters, gauges = _combined(scalar_values, lanes.message(number))
        yield Samples(
            header["device"], SOURCE_OF_LABEL[header["source"]], header["collector"], header["collector_run"],
            header["sequence"], header["at_ns"], header["received_ns"], header["boot_id"],
            ROW_KIND_OF_LABEL[header["row_kind"]], row, 0, counters, gauges, delays,
        )  # fmt: skip


class _Scalars:
    """The rows of `samples` by message."""

    def __init__(
        self, headers: MessageHeaders, tables: Sequence[pa.Table], metrics: Sequence[Metric], names: NameTable
    ) -> None:
        self._names = names
        self._row_names: dict[bytes, tuple[str, ...]] = {}
        self._headers = headers.headers
        table = _concatenated(tables)
        self._count = 0 if table is None else table.num_rows
        if table is None or not table.num_rows:
            return
        number, self._row, order = _ordered(headers, table, names)
        self._at_ns = table["at_ns"].to_numpy()[order]
        self._bounds = np.searchsorted(number, np.arange(headers.count + 1))
        self._values = [
            _ScalarValues([metric for metric in metrics if metric.counter is counter], table, order, self._bounds)
            for counter in (True, False)
        ]

    def message(self, number: int) -> tuple[MessageTables, tuple[int, ...]]:
        """Return the rows and tables of a message, and the delay of each row after it in microseconds."""
        first, last = (int(self._bounds[number]), int(self._bounds[number + 1])) if self._count else (0, 0)
        if first == last:
            return _NO_TABLES, ()
        codes = self._row[first:last]
        key = codes.tobytes()
        if (row := self._row_names.get(key)) is None:
            row = self._row_names[key] = tuple(self._names.names[code] for code in codes.tolist())
        counters, gauges = (values.table(number, first, last) for values in self._values)
        delays = (self._at_ns[first:last] - self._headers[number]["at_ns"]) // 1000
        return (row, counters, gauges), tuple(delays.tolist()) if delays.any() else ()


class _ScalarValues:
    """The counters, or the gauges, of all rows; a message has only the columns in which it has a value."""

    def __init__(self, metrics: Sequence[Metric], table: pa.Table, order: Ints, bounds: Ints) -> None:
        counter = not metrics or metrics[0].counter
        absent: Any = np.uint64(ABSENT_COUNTER) if counter else np.nan
        self._values: npt.NDArray[Any] = np.empty((len(metrics), len(order)), np.uint64 if counter else np.float64)
        present = np.zeros((len(bounds) - 1, len(metrics)), bool)
        used = np.flatnonzero(bounds[1:] > bounds[:-1])
        for place, metric in enumerate(metrics):
            column = table[metric.name.lower()]
            self._values[place] = column.fill_null(absent).to_numpy()[order]
            has_value = self._values[place] != absent if counter else ~np.isnan(self._values[place])
            if len(used):
                present[used, place] = np.logical_or.reduceat(has_value, bounds[used])
        self._metrics = metrics
        self._present = present
        self._columns: dict[bytes, tuple[tuple[Metric, ...], tuple[int, ...], Ints]] = {}

    def table(self, number: int, first: int, last: int) -> Table:
        """Return the table of one message."""
        key = self._present[number].tobytes()
        if (columns := self._columns.get(key)) is None:
            places = np.flatnonzero(self._present[number])
            metrics = tuple(self._metrics[place] for place in places.tolist())
            columns = self._columns[key] = metrics, (NO_INDEX,) * len(metrics), places
        return Table(columns[0], columns[1], self._values[columns[2], first:last])


class _Lanes:
    """The rows of `sample_lanes` by message."""

    def __init__(self, headers: MessageHeaders, tables: Sequence[pa.Table], names: NameTable) -> None:
        self._layouts = CellLayoutCache(names)
        table = _concatenated(tables)
        self._count = 0 if table is None else table.num_rows
        if table is None or not table.num_rows:
            return
        number, self._row, order = _ordered(headers, table, names)
        metric = table["metric"].combine_chunks()
        # A dictionary of ClickHouse always begins with the empty string, even if it is not used.
        metrics = np.array([BY_NAME.get(name, 0) for name in metric.dictionary.to_pylist()], np.int64)
        index = table["index"].to_numpy().astype(np.int64)
        self._column = column_code(metrics[metric.indices.to_numpy()], index)[order]
        counter = table["counter"].fill_null(0).to_numpy()
        gauge = table["gauge"].fill_null(np.nan).to_numpy().view(np.uint64)
        is_counter = pc.is_valid(table["counter"]).to_numpy(zero_copy_only=False)
        self._words = np.where(is_counter, counter, gauge)[order]
        self._bounds = np.searchsorted(number, np.arange(headers.count + 1))

    def message(self, number: int) -> MessageTables:
        """Return the rows and tables of a message."""
        first, last = (int(self._bounds[number]), int(self._bounds[number + 1])) if self._count else (0, 0)
        if first == last:
            return _NO_TABLES
        layout = self._layouts.layout_of(self._row[first:last], self._column[first:last])
        return (layout.row, *layout.tables(self._words[first:last]))


def _keys(table: pa.Table) -> Ints:
    partition: Ints = table["kafka_partition"].to_numpy().astype(np.int64)
    keys: Ints = partition * _PARTITION + table["kafka_offset"].to_numpy()
    return keys


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables).unify_dictionaries() if tables else None


def _ordered(headers: MessageHeaders, table: pa.Table, names: NameTable) -> tuple[Ints, Ints, Ints]:
    """Return message number, row name and position of these messages' rows, sorted by message and row name."""
    row = table["row"].combine_chunks()
    codes = names.codes(row.dictionary.to_pylist())[row.indices.to_numpy()]
    numbers = headers.message_numbers(table)
    order = np.lexsort((names.sort_ranks[codes], numbers))
    order = order[np.searchsorted(numbers[order], 0) :]
    return numbers[order], codes[order], order


_NO_TABLES: MessageTables = (
    (),
    Table((), (), np.empty((0, 0), np.uint64)),
    Table((), (), np.empty((0, 0), np.float64)),
)


def _combined(one: MessageTables, other: MessageTables) -> MessageTables:
    """Return the columns of both, over the rows of both."""
    if not other[0]:
        return one
    if not one[0]:
        return other
    rows = one[0] if one[0] == other[0] else tuple(sorted({*one[0], *other[0]}))

    def both(a: Table, b: Table, absent: Any) -> Table:
        values: Any = np.concatenate([_expanded(rows, one[0], a, absent), _expanded(rows, other[0], b, absent)])
        return Table((*a.metric, *b.metric), (*a.index, *b.index), values)

    return rows, both(one[1], other[1], np.uint64(ABSENT_COUNTER)), both(one[2], other[2], np.float64(np.nan))


def _expanded(rows: tuple[str, ...], table_rows: tuple[str, ...], table: Table, absent: Any) -> Any:
    """Return a table's values for all rows; a row that the table lacks is absent."""
    if table_rows == rows:
        return table.values
    place = {row: index for index, row in enumerate(rows)}
    values: Any = np.full((len(table.metric), len(rows)), absent)
    values[:, [place[row] for row in table_rows]] = table.values
    return values
