"""Rows of samples and of lanes, as tables that ClickHouse answers with, back as the messages that made them.

Column by column: no Python runs for a row or a value, only for a message. The rows of a message come in the order of
their names.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.fabric.catalogue import BY_NAME, CATALOGUE, Metric
from streams.store.cell_layout import CellLayoutCache, Ints, NameTable, column_code
from streams.store.enum_labels import enum_label
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, RowKind, Samples, Source, Table

_SOURCES = {enum_label(source): source for source in Source}
_ROW_KINDS = {enum_label(kind): kind for kind in RowKind}
_PARTITION = 1 << 48
Tables = tuple[tuple[str, ...], Table, Table]


class MessageHeaders:
    """The messages of a window, in their order."""

    def __init__(self, table: pa.Table) -> None:
        self.count = table.num_rows
        self.headers = table.to_pylist()
        self.rows = sum(own["rows"] for own in self.headers)
        keys = _keys(table)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def message_numbers(self, table: pa.Table) -> Ints:
        """Which message each row is of; -1 where it is of none of these."""
        keys = _keys(table)
        places = np.minimum(np.searchsorted(self._keys, keys), self.count - 1)
        return np.where(self._keys[places] == keys, self._order[places], -1)


def window_messages(
    heads: MessageHeaders, wide: Sequence[pa.Table], lanes: Sequence[pa.Table], metrics: Sequence[Metric]
) -> Iterator[Samples]:
    """The messages; `wide` have a column for each of `metrics`, `lanes` a row for each value."""
    names = NameTable()
    scalars = _Scalars(heads, wide, metrics, names)
    others = _Lanes(heads, lanes, names)
    for number, head in enumerate(heads.headers):
        own, delays = scalars.of(number)
        row, counters, gauges = _beside(own, others.of(number))
        yield Samples(
            head["device"], _SOURCES[head["source"]], head["collector"], head["collector_run"], head["sequence"],
            head["at_ns"], head["received_ns"], head["boot_id"], _ROW_KINDS[head["row_kind"]], row, 0,
            counters, gauges, delays,
        )  # fmt: skip


class _Scalars:
    """The rows of `samples` by message."""

    def __init__(
        self, heads: MessageHeaders, tables: Sequence[pa.Table], metrics: Sequence[Metric], names: NameTable
    ) -> None:
        self._names = names
        self._shared: dict[Any, Any] = {}
        self._heads = heads.headers
        table = _one(tables)
        self._count = 0 if table is None else table.num_rows
        if table is None or not table.num_rows:
            return
        number, self._row, order = _ordered(heads, table, names)
        self._at_ns = table["at_ns"].to_numpy()[order]
        self._bounds = np.searchsorted(number, np.arange(heads.count + 1))
        self._halves = [
            _Half([metric for metric in metrics if CATALOGUE[metric].counter is counter], table, order, self._bounds)
            for counter in (True, False)
        ]

    def of(self, number: int) -> tuple[Tables, tuple[int, ...]]:
        """The rows and tables of a message, and by how much its rows are later than it."""
        first, last = (int(self._bounds[number]), int(self._bounds[number + 1])) if self._count else (0, 0)
        if first == last:
            return _NOTHING, ()
        codes = self._row[first:last]
        key = codes.tobytes()
        if (row := self._shared.get(key)) is None:
            row = self._shared[key] = tuple(self._names.names[code] for code in codes.tolist())
        counters, gauges = (half.of(number, first, last) for half in self._halves)
        late = (self._at_ns[first:last] - self._heads[number]["at_ns"]) // 1000
        return (row, counters, gauges), tuple(late.tolist()) if late.any() else ()


class _Half:
    """The counters of all rows, or the gauges; a message has the columns of which it has any value."""

    def __init__(self, metrics: Sequence[Metric], table: pa.Table, order: Ints, bounds: Ints) -> None:
        counter = not metrics or CATALOGUE[metrics[0]].counter
        absent: Any = np.uint64(ABSENT_COUNTER) if counter else np.nan
        self._values: npt.NDArray[Any] = np.empty((len(metrics), len(order)), np.uint64 if counter else np.float64)
        there = np.zeros((len(bounds) - 1, len(metrics)), bool)
        used = np.flatnonzero(bounds[1:] > bounds[:-1])
        for place, metric in enumerate(metrics):
            column = table[metric.name.lower()]
            self._values[place] = column.fill_null(absent).to_numpy()[order]
            own = self._values[place] != absent if counter else ~np.isnan(self._values[place])
            if len(used):
                there[used, place] = np.logical_or.reduceat(own, bounds[used])
        self._metrics = metrics
        self._there = there
        self._known: dict[bytes, tuple[tuple[Metric, ...], tuple[int, ...], Ints]] = {}

    def of(self, number: int, first: int, last: int) -> Table:
        """The table of one message."""
        key = self._there[number].tobytes()
        if (known := self._known.get(key)) is None:
            places = np.flatnonzero(self._there[number])
            own = tuple(self._metrics[place] for place in places.tolist())
            known = self._known[key] = own, (NO_INDEX,) * len(own), places
        return Table(known[0], known[1], self._values[known[2], first:last])


class _Lanes:
    """The rows of `sample_lanes` by message."""

    def __init__(self, heads: MessageHeaders, tables: Sequence[pa.Table], names: NameTable) -> None:
        self._patterns = CellLayoutCache(names)
        table = _one(tables)
        self._count = 0 if table is None else table.num_rows
        if table is None or not table.num_rows:
            return
        number, self._row, order = _ordered(heads, table, names)
        metric = table["metric"].combine_chunks()
        # A dictionary of ClickHouse's begins with the empty word, used or not.
        own = np.array([BY_NAME.get(name, 0) for name in metric.dictionary.to_pylist()], np.int64)
        self._column = column_code(own[metric.indices.to_numpy()], table["index"].to_numpy().astype(np.int64))[order]
        counter = table["counter"].fill_null(0).to_numpy()
        gauge = table["gauge"].fill_null(np.nan).to_numpy().view(np.uint64)
        there = pc.is_valid(table["counter"]).to_numpy(zero_copy_only=False)
        self._words = np.where(there, counter, gauge)[order]
        self._bounds = np.searchsorted(number, np.arange(heads.count + 1))

    def of(self, number: int) -> Tables:
        """The rows and tables of a message."""
        first, last = (int(self._bounds[number]), int(self._bounds[number + 1])) if self._count else (0, 0)
        if first == last:
            return _NOTHING
        pattern = self._patterns.layout_of(self._row[first:last], self._column[first:last])
        return (pattern.row, *pattern.tables(self._words[first:last]))


def _keys(table: pa.Table) -> Ints:
    partition: Ints = table["kafka_partition"].to_numpy().astype(np.int64)
    keys: Ints = partition * _PARTITION + table["kafka_offset"].to_numpy()
    return keys


def _one(tables: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables).unify_dictionaries() if tables else None


def _ordered(heads: MessageHeaders, table: pa.Table, names: NameTable) -> tuple[Ints, Ints, Ints]:
    """Message and row of those that are of a message here, by message and the name of the row; where they stand."""
    row = table["row"].combine_chunks()
    codes = names.codes(row.dictionary.to_pylist())[row.indices.to_numpy()]
    numbers = heads.message_numbers(table)
    order = np.lexsort((names.sort_ranks[codes], numbers))
    order = order[np.searchsorted(numbers[order], 0) :]
    return numbers[order], codes[order], order


_NOTHING: Tables = (), Table((), (), np.empty((0, 0), np.uint64)), Table((), (), np.empty((0, 0), np.float64))


def _beside(one: Tables, other: Tables) -> Tables:
    """The columns of both, over the rows of both."""
    if not other[0]:
        return one
    if not one[0]:
        return other
    rows = one[0] if one[0] == other[0] else tuple(sorted({*one[0], *other[0]}))

    def both(a: Table, b: Table, absent: Any) -> Table:
        stacked: Any = np.concatenate([_over(rows, one[0], a, absent), _over(rows, other[0], b, absent)])
        return Table((*a.metric, *b.metric), (*a.index, *b.index), stacked)

    return rows, both(one[1], other[1], np.uint64(ABSENT_COUNTER)), both(one[2], other[2], np.float64(np.nan))


def _over(rows: tuple[str, ...], own: tuple[str, ...], table: Table, absent: Any) -> Any:
    if own == rows:
        return table.values
    place = {row: at for at, row in enumerate(rows)}
    values: Any = np.full((len(table.metric), len(rows)), absent)
    values[:, [place[row] for row in own]] = table.values
    return values
