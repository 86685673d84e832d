"""Queries findings and remediations that are no longer in Kafka, and the readings and events of one port around an
interval, as evidence of a finding. Raises Retry while ClickHouse is unavailable.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from streams.fabric.catalogue import Metric
from streams.store.clickhouse import QueryClient
from streams.store.rows.sample_layout import column_name, is_scalar
from streams.wire import codec
from streams.wire.models import Finding, Remediation

_FINDINGS = (
    "SELECT json FROM findings WHERE startsWith(id, {id:String}) OR startsWith(parent_id, {id:String})"
    " ORDER BY revision, id LIMIT 1 BY id, revision"
)
_REMEDIATIONS = (
    "SELECT json FROM remediations WHERE arrayExists(f -> startsWith(f, {id:String}), finding_ids)"
    " ORDER BY id, revision DESC LIMIT 1 BY id"
)

_PAST = (
    "SELECT json FROM findings_latest WHERE (a_device = {device:String} OR z_device = {device:String})"
    " AND resolved_at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC') AND status = 'resolved'"
    " ORDER BY started_at DESC, id LIMIT 100"
)


def query_past_findings(client: QueryClient, device: str, since_ns: int) -> list[Finding]:
    """Return the findings at a device or one of its links that ended since a time, newest first, 100 at most."""
    rows = client.query(_PAST, {"device": device, "since": since_ns})
    return [codec.from_json(Finding, json) for (json,) in rows]


def by_id_prefix(client: QueryClient, prefix: str) -> tuple[list[Finding], list[Remediation]]:
    """Return all revisions of the findings with this prefix of the id or parent id, and their remediations."""
    findings = [codec.from_json(Finding, json) for (json,) in client.query(_FINDINGS, {"id": prefix})]
    remediations = [codec.from_json(Remediation, json) for (json,) in client.query(_REMEDIATIONS, {"id": prefix})]
    return findings, remediations


READINGS_BEFORE, READINGS_AFTER = 3, 2
"""Readings outside of the interval on either side, for comparison."""
_MAX_INSIDE = 10_000
"""The limit of readings inside the interval: more than an hour of readings each half second."""
_MAX_DISTANCE_NS = 3_600_000_000_000
"""Readings more than an hour outside are ignored, which limits the rows that the server reads."""


class ReadingRow(NamedTuple):
    """One value of one metric; `lane` is its index, or -1 without one."""

    at_ns: int
    source: str
    lane: int
    value: float


class EventRow(NamedTuple):
    """An event."""

    at_ns: int
    kind: str
    source: str
    code: int
    detail: str


_SCALAR = (
    "SELECT toUnixTimestamp64Nano(sampled_at) AS at_ns, source, toInt32(-1) AS `index`, toFloat64(COLUMN) AS value"
    " FROM samples WHERE device = {device:String} AND row IN {rows:Array(String)} AND COLUMN IS NOT NULL"
)
_LANE = (
    "SELECT toUnixTimestamp64Nano(sampled_at) AS at_ns, source, `index`, sample_lanes.value AS value"
    " FROM sample_lanes WHERE device = {device:String} AND row IN {rows:Array(String)} AND metric = {metric:String}"
)
_INSIDE = (
    " AND sampled_at >= fromUnixTimestamp64Nano({begin:Int64}, 'UTC')"
    " AND sampled_at <= fromUnixTimestamp64Nano({end:Int64}, 'UTC') ORDER BY at_ns, source, `index` LIMIT {most:UInt32}"
)
_OUTSIDE = (
    " AND sampled_at > fromUnixTimestamp64Nano({first:Int64}, 'UTC')"
    " AND sampled_at < fromUnixTimestamp64Nano({last:Int64}, 'UTC')"
    " ORDER BY at_ns ORDER LIMIT {most:UInt32} BY source, `index`"
)
_EVENTS = (
    "SELECT toUnixTimestamp64Nano(at) AS at_ns, kind, source, code, detail FROM events WHERE device = {device:String}"
    " AND port IN {rows:Array(String)} AND at >= fromUnixTimestamp64Nano({begin:Int64}, 'UTC')"
    " AND at <= fromUnixTimestamp64Nano({end:Int64}, 'UTC') ORDER BY at_ns LIMIT {most:UInt32}"
)


def query_readings(
    client: QueryClient, device: str, rows: Iterable[str], metric: Metric, interval: tuple[int, int]
) -> list[ReadingRow]:
    """Return the values of a metric in and next to the interval, by source, index and time."""
    select = _SCALAR.replace("COLUMN", column_name(metric)) if is_scalar(metric) else _LANE
    parameters = {
        "device": device, "rows": sorted(rows), "metric": column_name(metric), "begin": interval[0], "end": interval[1],
    }  # fmt: skip
    inside = client.query(select + _INSIDE, parameters | {"most": _MAX_INSIDE})
    before = client.query(
        select + _OUTSIDE.replace("ORDER LIMIT", "DESC LIMIT"),
        parameters | {"first": interval[0] - _MAX_DISTANCE_NS, "last": interval[0], "most": READINGS_BEFORE},
    )
    after = client.query(
        select + _OUTSIDE.replace("ORDER LIMIT", "ASC LIMIT"),
        parameters | {"first": interval[1], "last": interval[1] + _MAX_DISTANCE_NS, "most": READINGS_AFTER},
    )
    return sorted((ReadingRow(*row) for row in (*before, *inside, *after)), key=lambda r: (r.source, r.lane, r.at_ns))


def query_events(
    client: QueryClient, device: str, rows: Iterable[str], interval: tuple[int, int], limit: int
) -> list[EventRow]:
    """Return the events of the rows in the interval; without rows, the device's own events."""
    parameters = {"device": device, "rows": sorted(rows), "begin": interval[0], "end": interval[1], "most": limit}
    return [EventRow(*row) for row in client.query(_EVENTS, parameters)]


def group_by_lane(readings: Iterable[ReadingRow]) -> list[tuple[tuple[str, int], list[ReadingRow]]]:
    """Return the readings of each source and index."""
    return [(key, list(group)) for key, group in groupby(readings, key=lambda r: (r.source, r.lane))]
