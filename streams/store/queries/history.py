"""What ClickHouse holds, back as the messages that made it: the past for a backtest.

Samples come back a message at a time, as their origin in Kafka tells; absent cells stay absent. Reads windows of event
time that hold about `WINDOW_ROWS` rows, so that a long stretch takes no more memory than a short one.
Raises Retry where ClickHouse is away.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from streams.fabric.catalogue import Metric
from streams.store.enum_labels import enum_label
from streams.store.queries.sample_history import MessageHeaders, window_messages
from streams.store.sample_layout import column_name, is_scalar
from streams.wire.models import (
    CollectorStatus,
    Component,
    Control,
    ControlKind,
    Event,
    EventKind,
    Facts,
    Neighbor,
    Samples,
    Source,
)

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW_ROWS = 1_000_000
"""A quarter of a gigabyte with 24 metrics. Fewer cost the server more: it reads what lies between them as well."""

PLAN_AHEAD_NS = 600_000_000_000
"""How far ahead windows are planned."""

_DELAY_NS = 60_000_000_000
"""A message's rows are at most so much later than the message: they are of one round of reading."""

_SOURCES = {enum_label(source): source for source in Source}
_EVENTS = {enum_label(kind): kind for kind in EventKind}
_CONTROLS = {enum_label(kind): kind for kind in ControlKind}
_SCALARS = tuple(metric for metric in Metric if is_scalar(metric))


def _when(column: str) -> str:
    return (
        f"{column} >= fromUnixTimestamp64Nano({{since:Int64}}, 'UTC')"
        f" AND {column} < fromUnixTimestamp64Nano({{until:Int64}}, 'UTC')"
    )


_COUNTS = (
    "SELECT toUnixTimestamp(toStartOfSecond(sampled_at)) AS second, sum(rows) FROM sample_messages"
    f" WHERE {_when('sampled_at')} GROUP BY second ORDER BY second"
)
_PRESENT = (
    f"SELECT {', '.join(f'countIf({column_name(m)} IS NOT NULL)' for m in _SCALARS)} FROM samples WHERE "
    + _when("sampled_at")
)
_HEADS = (
    "SELECT kafka_partition, kafka_offset, device, source, row_kind, collector, collector_run, sequence,"
    " toInt64(toUnixTimestamp64Nano(sampled_at)) AS at_ns, toUnixTimestamp64Nano(received_at) AS received_ns, boot_id,"
    f" rows FROM sample_messages WHERE {_when('sampled_at')} ORDER BY at_ns, device, source, sequence"
)
_ORIGIN = "kafka_partition, kafka_offset, row, toUnixTimestamp64Nano(sampled_at) AS at_ns"
_LANES = f"SELECT {_ORIGIN}, metric, `index`, counter, gauge FROM sample_lanes WHERE {_when('sampled_at')}"
_LATER = (
    "sampled_at >= fromUnixTimestamp64Nano({until:Int64}, 'UTC') AND sampled_at < fromUnixTimestamp64Nano({end:Int64},"
    " 'UTC') AND (kafka_partition, kafka_offset) IN (SELECT kafka_partition, kafka_offset FROM sample_messages WHERE "
    f"{_when('sampled_at')})"
)
_EVENT_ROWS = (
    "SELECT device, port, kind, toUnixTimestamp64Nano(at) AS at_ns, toUnixTimestamp64Nano(received_at), source,"
    f" collector, collector_run, sequence, detail, code FROM events WHERE {_when('at')} ORDER BY at_ns, device, source"
)
_STATUS_ROWS = (
    "SELECT collector, collector_run, source, device, toUnixTimestamp64Nano(at) AS at_ns, reachable, error,"
    " ifNull(toUnixTimestamp64Nano(last_sample_at), 0), clock_offset_ns, cadence_ns"
    f" FROM collector_status WHERE {_when('at')} ORDER BY at_ns, device, source"
)
_FACT_ROWS = (
    "SELECT device, toUnixTimestamp64Nano(observed_at) AS at_ns, source, vendor, model, os_version,"
    " ifNull(toUnixTimestamp64Nano(booted_at), 0), serial, components.name, components.kind, components.part_number,"
    " components.serial, components.firmware, components.alias, components.limits, neighbors.port,"
    f" neighbors.remote_device, neighbors.remote_port FROM facts WHERE {_when('observed_at')} ORDER BY at_ns, device"
)
_KNOWN_FACTS = (
    f"{_FACT_ROWS.partition(' WHERE ')[0]} WHERE observed_at < fromUnixTimestamp64Nano({{since:Int64}}, 'UTC')"
    " ORDER BY at_ns DESC LIMIT 1 BY device, source"
)
_CONTROL_ROWS = (
    "SELECT id, kind, subject_id, toUnixTimestamp64Nano(at) AS at_ns, toUnixTimestamp64Nano(until), actor, reason"
    " FROM controls WHERE at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') ORDER BY at_ns, kafka_offset"
)

HistoryMessage = Samples | Event | Facts | CollectorStatus | Control


class TableClient(Protocol):
    """Answers a query with its rows, or with a table."""

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]: ...

    def table(self, sql: str, parameters: dict[str, Any] | None = None) -> "pa.Table": ...


def messages(asks: TableClient, since_ns: int, until_ns: int) -> Iterator[HistoryMessage]:
    """All that devices, collectors and people said in [since, until), in the order (time, device, source).

    Before it come the controls and the facts that held when it began, with the times of their own.
    """
    within = {"since": since_ns, "until": until_ns}
    yield from sorted(map(_facts, asks.query(_KNOWN_FACTS, within)), key=_time)
    controls = [_control(row) for row in asks.query(_CONTROL_ROWS, within)]
    yield from (control for control in controls if (control.at_ns or 0) < since_ns)
    said: list[Iterator[HistoryMessage]] = [
        _telemetry(asks, since_ns, until_ns),
        (control for control in controls if (control.at_ns or 0) >= since_ns),
    ]
    yield from merge(*said, key=_time)


def _time(message: HistoryMessage) -> tuple[int, str, int]:
    """The order of a backtest; streams.replay.driver says why."""
    match message:
        case Samples(sampled_at_ns=at, device=device, source=source):
            return at, device, source
        case Facts(observed_at_ns=at, device=device, source=source):
            return at, device, source
        case Control(at_ns=at):
            return at or 0, "", 0
        case Event(at_ns=at, device=device, source=source) | CollectorStatus(at_ns=at, device=device, source=source):
            return at, device, source


def _telemetry(asks: TableClient, since_ns: int, until_ns: int) -> Iterator[HistoryMessage]:
    for begin in range(since_ns, until_ns, PLAN_AHEAD_NS):
        span = {"since": begin, "until": min(begin + PLAN_AHEAD_NS, until_ns)}
        windows = _windows(asks, span)
        # Rows of a message may be later than it, and then of a later span.
        present = asks.query(_PRESENT, span | {"until": span["until"] + _DELAY_NS})[0]
        metrics = [metric for metric, count in zip(_SCALARS, present, strict=True) if count]
        for window in windows:
            said: list[Iterator[HistoryMessage]] = [
                _samples(asks, window, metrics),
                map(_event, asks.query(_EVENT_ROWS, window)),
                map(_status, asks.query(_STATUS_ROWS, window)),
                map(_facts, asks.query(_FACT_ROWS, window)),
            ]
            yield from merge(*said, key=_time)


def _windows(asks: TableClient, span: dict[str, int]) -> list[dict[str, int]]:
    """The span in pieces of some seconds, of no more than WINDOW_ROWS rows each unless a second has more."""
    windows, begin, rows = [], span["since"], 0
    for second, count in asks.query(_COUNTS, span):
        if rows and rows + count > WINDOW_ROWS and (at := int(second) * 1_000_000_000) > begin:
            windows.append({"since": begin, "until": at})
            begin, rows = at, 0
        rows += count
    return [*windows, {"since": begin, "until": span["until"]}]


def _samples(asks: TableClient, window: dict[str, int], metrics: Sequence[Metric]) -> Iterator[Samples]:
    heads = MessageHeaders(asks.table(_HEADS, window))
    if not heads.count:
        return
    columns = "".join(f", {column_name(metric)}" for metric in metrics)
    rows = f"SELECT {_ORIGIN}{columns} FROM samples WHERE {_when('sampled_at')}"
    wide = [asks.table(rows, window)] if metrics else []
    lanes = [asks.table(_LANES, window)]
    if heads.rows > sum(table.num_rows for table in wide):
        # Rows of a message may be later than it (or it has none here): those past the window's end are ours too.
        after = window | {"end": window["until"] + _DELAY_NS}
        wide += [asks.table(f"SELECT {_ORIGIN}{columns} FROM samples WHERE {_LATER}", after)] if metrics else []
        lanes.append(asks.table(f"{_LANES.partition(' WHERE ')[0]} WHERE {_LATER}", after))
    yield from window_messages(heads, wide, lanes, metrics)


def _event(row: Sequence[Any]) -> Event:
    device, port, kind, at, received, source, *rest = row
    return Event(device, port, _EVENTS[kind], at, received, _SOURCES[source], *rest)


def _status(row: Sequence[Any]) -> CollectorStatus:
    collector, run, source, *rest = row
    return CollectorStatus(collector, run, _SOURCES[source], *rest)


def _control(row: Sequence[Any]) -> Control:
    identity, kind, *rest = row
    return Control(identity, _CONTROLS[kind], *rest)


def _facts(row: Sequence[Any]) -> Facts:
    device, at_ns, source, vendor, model, system, booted_ns, serial, *nested = row
    components = (
        Component(name, kind, part, own_serial, firmware, tuple(alias), orjson.loads(limits))
        for name, kind, part, own_serial, firmware, alias, limits in zip(*nested[:7], strict=True)
    )
    neighbors = (Neighbor(*own) for own in zip(*nested[7:], strict=True))
    return Facts(
        device, at_ns, _SOURCES[source], vendor, model, system, booted_ns, serial, tuple(components), tuple(neighbors)
    )
