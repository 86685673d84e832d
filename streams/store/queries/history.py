"""Restores the messages behind stored rows, as the history for a backtest.

Restores samples message by message, by their origin in Kafka; absent cells stay absent. Reads windows of event time
with about `WINDOW_ROWS` rows, so that the memory does not grow with the history.
Raises Retry while ClickHouse is unavailable.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any

import orjson

from streams.fabric.catalogue import Metric
from streams.store.clickhouse import ClickHouse
from streams.store.enum_labels import SOURCE_OF_LABEL, enum_label
from streams.store.queries.sample_history import MessageHeaders, window_messages
from streams.store.rows.sample_layout import column_name, is_scalar
from streams.wire import models as m

WINDOW_ROWS = 1_000_000
"""A window has a quarter of a gigabyte with 24 metrics. Smaller windows cost more, as the server reads more rows."""

PLAN_AHEAD_NS = 600_000_000_000
"""The period for which windows are planned at once."""

_MAX_DELAY_NS = 60_000_000_000
"""The rows of a message are at most this much later than the message, because one poll takes no longer."""

_EVENT_KINDS = {enum_label(kind): kind for kind in m.EventKind}
_CONTROL_KINDS = {enum_label(kind): kind for kind in m.ControlKind}
_SCALARS = tuple(metric for metric in Metric if is_scalar(metric))


def _within(column: str) -> str:
    return (
        f"{column} >= fromUnixTimestamp64Nano({{since:Int64}}, 'UTC')"
        f" AND {column} < fromUnixTimestamp64Nano({{until:Int64}}, 'UTC')"
    )


_ROW_COUNTS = (
    "SELECT toUnixTimestamp(toStartOfSecond(sampled_at)) AS second, sum(rows) FROM sample_messages"
    f" WHERE {_within('sampled_at')} GROUP BY second ORDER BY second"
)
_PRESENT_COUNTS = (
    f"SELECT {', '.join(f'countIf({column_name(m)} IS NOT NULL)' for m in _SCALARS)} FROM samples WHERE "
    + _within("sampled_at")
)
_HEADERS = (
    "SELECT kafka_partition, kafka_offset, device, source, row_kind, collector, collector_run, sequence,"
    " toInt64(toUnixTimestamp64Nano(sampled_at)) AS at_ns, toUnixTimestamp64Nano(received_at) AS received_ns, boot_id,"
    f" rows FROM sample_messages WHERE {_within('sampled_at')} ORDER BY at_ns, device, source, sequence"
)
_ORIGIN = "kafka_partition, kafka_offset, row, toUnixTimestamp64Nano(sampled_at) AS at_ns"
_LANES = f"SELECT {_ORIGIN}, metric, `index`, counter, gauge FROM sample_lanes WHERE {_within('sampled_at')}"
_AFTER_WINDOW = (
    "sampled_at >= fromUnixTimestamp64Nano({until:Int64}, 'UTC') AND sampled_at < fromUnixTimestamp64Nano({end:Int64},"
    " 'UTC') AND (kafka_partition, kafka_offset) IN (SELECT kafka_partition, kafka_offset FROM sample_messages WHERE "
    f"{_within('sampled_at')})"
)
_EVENT_ROWS = (
    "SELECT device, port, kind, toUnixTimestamp64Nano(at) AS at_ns, toUnixTimestamp64Nano(received_at), source,"
    f" collector, collector_run, sequence, detail, code FROM events WHERE {_within('at')}"
    " ORDER BY at_ns, device, source"
)
_STATUS_ROWS = (
    "SELECT collector, collector_run, source, device, toUnixTimestamp64Nano(at) AS at_ns, reachable, error,"
    " ifNull(toUnixTimestamp64Nano(last_sample_at), 0), clock_offset_ns, cadence_ns"
    f" FROM collector_status WHERE {_within('at')} ORDER BY at_ns, device, source"
)
_FACT_ROWS = (
    "SELECT device, toUnixTimestamp64Nano(observed_at) AS at_ns, source, vendor, model, os_version,"
    " ifNull(toUnixTimestamp64Nano(booted_at), 0), serial, components.name, components.kind, components.part_number,"
    " components.serial, components.firmware, components.alias, components.limits, neighbors.port,"
    f" neighbors.remote_device, neighbors.remote_port FROM facts WHERE {_within('observed_at')} ORDER BY at_ns, device"
)
_FACTS_BEFORE = (
    f"{_FACT_ROWS.partition(' WHERE ')[0]} WHERE observed_at < fromUnixTimestamp64Nano({{since:Int64}}, 'UTC')"
    " ORDER BY at_ns DESC LIMIT 1 BY device, source"
)
_CONTROL_ROWS = (
    "SELECT id, kind, subject_id, toUnixTimestamp64Nano(at) AS at_ns, toUnixTimestamp64Nano(until), actor, reason"
    " FROM controls WHERE at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') ORDER BY at_ns, kafka_offset"
)

HistoryMessage = m.Samples | m.Event | m.Facts | m.CollectorStatus | m.Control


def messages(client: ClickHouse, since_ns: int, until_ns: int) -> Iterator[HistoryMessage]:
    """Yield the messages of devices, collectors and people in [since, until), in the order (time, device, source).

    The controls and facts in effect at the start are first, with their own times.
    """
    parameters = {"since": since_ns, "until": until_ns}
    yield from sorted(map(_facts, client.query(_FACTS_BEFORE, parameters)), key=_sort_key)
    controls = [_control(row) for row in client.query(_CONTROL_ROWS, parameters)]
    yield from (control for control in controls if (control.at_ns or 0) < since_ns)
    streams: list[Iterator[HistoryMessage]] = [
        _telemetry(client, since_ns, until_ns),
        (control for control in controls if (control.at_ns or 0) >= since_ns),
    ]
    yield from merge(*streams, key=_sort_key)


def _sort_key(message: HistoryMessage) -> tuple[int, str, int]:
    """Return the sort key of a backtest; see streams.replay.driver."""
    match message:
        case m.Samples(sampled_at_ns=at, device=device, source=source):
            return at, device, source
        case m.Facts(observed_at_ns=at, device=device, source=source):
            return at, device, source
        case m.Control(at_ns=at):
            return at or 0, "", 0
        case (
            m.Event(at_ns=at, device=device, source=source) | m.CollectorStatus(at_ns=at, device=device, source=source)
        ):
            return at, device, source


def _telemetry(client: ClickHouse, since_ns: int, until_ns: int) -> Iterator[HistoryMessage]:
    for begin in range(since_ns, until_ns, PLAN_AHEAD_NS):
        period = {"since": begin, "until": min(begin + PLAN_AHEAD_NS, until_ns)}
        windows = _windows(client, period)
        # The rows of a message may be later than the message, and therefore in a later period.
        present = client.query(_PRESENT_COUNTS, period | {"until": period["until"] + _MAX_DELAY_NS})[0]
        metrics = [metric for metric, count in zip(_SCALARS, present, strict=True) if count]
        for window in windows:
            streams: list[Iterator[HistoryMessage]] = [
                _samples(client, window, metrics),
                map(_event, client.query(_EVENT_ROWS, window)),
                map(_status, client.query(_STATUS_ROWS, window)),
                map(_facts, client.query(_FACT_ROWS, window)),
            ]
            yield from merge(*streams, key=_sort_key)


def _windows(client: ClickHouse, period: dict[str, int]) -> list[dict[str, int]]:
    """Return the period in windows of whole seconds, with at most WINDOW_ROWS rows unless one second has more."""
    windows, begin, rows = [], period["since"], 0
    for second, count in client.query(_ROW_COUNTS, period):
        if rows and rows + count > WINDOW_ROWS and (at := int(second) * 1_000_000_000) > begin:
            windows.append({"since": begin, "until": at})
            begin, rows = at, 0
        rows += count
    return [*windows, {"since": begin, "until": period["until"]}]


def _samples(client: ClickHouse, window: dict[str, int], metrics: Sequence[Metric]) -> Iterator[m.Samples]:
    headers = MessageHeaders(client.table(_HEADERS, window))
    if not headers.count:
        return
    columns = "".join(f", {column_name(metric)}" for metric in metrics)
    rows = f"SELECT {_ORIGIN}{columns} FROM samples WHERE {_within('sampled_at')}"
    scalar_tables = [client.table(rows, window)] if metrics else []
    lane_tables = [client.table(_LANES, window)]
    if headers.rows > sum(table.num_rows for table in scalar_tables):
        # The rows of a message may be later than the message, even after the window's end.
        after = window | {"end": window["until"] + _MAX_DELAY_NS}
        later_rows = f"SELECT {_ORIGIN}{columns} FROM samples WHERE {_AFTER_WINDOW}"
        scalar_tables += [client.table(later_rows, after)] if metrics else []
        lane_tables.append(client.table(f"{_LANES.partition(' WHERE ')[0]} WHERE {_AFTER_WINDOW}", after))
    yield from window_messages(headers, scalar_tables, lane_tables, metrics)


def _event(row: Sequence[Any]) -> m.Event:
    device, port, kind, at, received, source, *rest = row
    return m.Event(device, port, _EVENT_KINDS[kind], at, received, SOURCE_OF_LABEL[source], *rest)


def _status(row: Sequence[Any]) -> m.CollectorStatus:
    collector, run, source, *rest = row
    return m.CollectorStatus(collector, run, SOURCE_OF_LABEL[source], *rest)


def _control(row: Sequence[Any]) -> m.Control:
    identity, kind, *rest = row
    return m.Control(identity, _CONTROL_KINDS[kind], *rest)


def _facts(row: Sequence[Any]) -> m.Facts:
    device, at_ns, source, vendor, model, system, booted_ns, serial, *nested = row
    components = (
        m.Component(name, kind, part, component_serial, firmware, tuple(alias), orjson.loads(limits))
        for name, kind, part, component_serial, firmware, alias, limits in zip(*nested[:7], strict=True)
    )
    neighbors = (m.Neighbor(*row) for row in zip(*nested[7:], strict=True))
    return m.Facts(
        device,
        at_ns,
        SOURCE_OF_LABEL[source],
        vendor,
        model,
        system,
        booted_ns,
        serial,
        tuple(components),
        tuple(neighbors),
    )
