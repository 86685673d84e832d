"""What ClickHouse holds, back as the messages that made it: the past for a backtest.

Samples come back a message at a time, as their origin in Kafka tells; absent cells stay absent. Reads slices of time,
so that a long stretch is not one query. Raises Retry where ClickHouse is away.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from streams.fabric.catalogue import CATALOGUE, Metric
from streams.store.layout import column_of, is_scalar
from streams.store.names import spelled
from streams.wire.models import (
    ABSENT_COUNTER,
    NO_INDEX,
    CollectorStatus,
    Event,
    EventKind,
    RowKind,
    Samples,
    Source,
    Table,
)

SLICE_NS = 60_000_000_000
"""A minute of the largest fabric is 4.7 M rows."""

_SCALARS = tuple(metric for metric in Metric if is_scalar(metric))
_SOURCES = {spelled(source): source for source in Source}
_ROW_KINDS = {spelled(kind): kind for kind in RowKind}
_EVENTS = {spelled(kind): kind for kind in EventKind}

_WHEN = (
    "{at} >= fromUnixTimestamp64Nano({{since:Int64}}, 'UTC') AND {at} < fromUnixTimestamp64Nano({{until:Int64}}, 'UTC')"
)
_SAMPLES = (
    "SELECT kafka_partition, kafka_offset, device, source, row_kind, collector, collector_run, sequence,"
    " toUnixTimestamp64Nano(sampled_at) AS at_ns, toUnixTimestamp64Nano(received_at), boot_id, row, "
    + ", ".join(column_of(metric) for metric in _SCALARS)
    + f" FROM samples WHERE {_WHEN.format(at='sampled_at')} ORDER BY at_ns, kafka_partition, kafka_offset, row"
)
_LANES = (
    "SELECT kafka_partition, kafka_offset, row, metric, `index`, counter, gauge"
    f" FROM sample_lanes WHERE {_WHEN.format(at='sampled_at')}"
)
_EVENT_ROWS = (
    "SELECT device, port, kind, toUnixTimestamp64Nano(at) AS at_ns, toUnixTimestamp64Nano(received_at), source,"
    f" collector, collector_run, sequence, detail, code FROM events WHERE {_WHEN.format(at='at')} ORDER BY at_ns"
)
_STATUS_ROWS = (
    "SELECT collector, collector_run, source, device, toUnixTimestamp64Nano(at) AS at_ns, reachable, error,"
    " ifNull(toUnixTimestamp64Nano(last_sample_at), 0), clock_offset_ns, cadence_ns"
    f" FROM collector_status WHERE {_WHEN.format(at='at')} ORDER BY at_ns"
)

Row = Sequence[Any]


class Asks(Protocol):
    """Answers a query with its rows."""

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> Sequence[Row]: ...


def messages(asks: Asks, since_ns: int, until_ns: int) -> Iterator[Samples | Event | CollectorStatus]:
    """All that devices and collectors said in [since, until), event time, slice by slice."""
    for begin in range(since_ns, until_ns, SLICE_NS):
        within = {"since": begin, "until": min(begin + SLICE_NS, until_ns)}
        yield from _samples(asks, within)
        for device, port, kind, at, received, source, *rest in asks.query(_EVENT_ROWS, within):
            yield Event(device, port, _EVENTS[kind], at, received, _SOURCES[source], *rest)
        for collector, run, source, *rest in asks.query(_STATUS_ROWS, within):
            yield CollectorStatus(collector, run, _SOURCES[source], *rest)


def _samples(asks: Asks, within: dict[str, int]) -> Iterator[Samples]:
    lanes: dict[tuple[int, int], list[Row]] = {}
    for partition, offset, *lane in asks.query(_LANES, within):
        lanes.setdefault((partition, offset), []).append(lane)
    rows = asks.query(_SAMPLES, within)
    for origin, group in groupby(rows, key=lambda row: (row[0], row[1])):
        yield _message(list(group), lanes.get(origin, []))


def _message(rows: list[Row], lanes: list[Row]) -> Samples:
    _, _, device, source, kind, collector, run, sequence, at_ns, received_ns, boot_id, *_ = rows[0]
    names = tuple(row[11] for row in rows)
    cells: dict[tuple[Metric, int], dict[int, Any]] = {}
    for place, row in enumerate(rows):
        for metric, value in zip(_SCALARS, row[12:], strict=True):
            if value is not None:
                cells.setdefault((metric, NO_INDEX), {})[place] = value
    places = {name: place for place, name in enumerate(names)}
    for name, metric_name, index, counter, gauge in lanes:
        value = gauge if counter is None else counter
        if value is not None and name in places:
            cells.setdefault((Metric[metric_name.upper()], index), {})[places[name]] = value
    return Samples(
        device, _SOURCES[source], collector, run, sequence, at_ns, received_ns, boot_id, _ROW_KINDS[kind], names, 0,
        _table(cells, len(names), counter=True), _table(cells, len(names), counter=False),
    )  # fmt: skip


def _table(cells: dict[tuple[Metric, int], dict[int, Any]], rows: int, *, counter: bool) -> Table:
    own = {column: values for column, values in cells.items() if CATALOGUE[column[0]].counter is counter}
    shape = (len(own), rows)
    values: Any = np.full(shape, ABSENT_COUNTER, np.uint64) if counter else np.full(shape, np.nan)
    for place, column in enumerate(own.values()):
        for row, value in column.items():
            values[place, row] = value
    return Table(tuple(metric for metric, _ in own), tuple(index for _, index in own), values)
