"""What was read of one port around a stretch of time, and which events it told: what stands behind a finding.

Raises Retry where ClickHouse is away.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from streams.fabric.catalogue import Metric
from streams.store.query_client import QueryClient
from streams.store.sample_layout import column_name, is_scalar

READINGS_BEFORE, READINGS_AFTER = 3, 2
"""Readings on either side that show what it was like without."""
_MOST_INSIDE = 10_000
"""An hour of readings each half second, with room."""
_BESIDE_NS = 3_600_000_000_000
"""Nothing an hour away is beside it; so far the server need look."""


class ReadingRow(NamedTuple):
    """One value of one metric; `lane` is its index, -1 where it has none."""

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
_BESIDE = (
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
    asks: QueryClient, device: str, rows: Iterable[str], metric: Metric, span: tuple[int, int]
) -> list[ReadingRow]:
    """The values of a metric in the span and those beside it, by source, index and time."""
    select = _SCALAR.replace("COLUMN", column_name(metric)) if is_scalar(metric) else _LANE
    asked = {
        "device": device, "rows": sorted(rows), "metric": column_name(metric), "begin": span[0], "end": span[1],
    }  # fmt: skip
    inside = asks.query(select + _INSIDE, asked | {"most": _MOST_INSIDE})
    before = asks.query(
        select + _BESIDE.replace("ORDER LIMIT", "DESC LIMIT"),
        asked | {"first": span[0] - _BESIDE_NS, "last": span[0], "most": READINGS_BEFORE},
    )
    after = asks.query(
        select + _BESIDE.replace("ORDER LIMIT", "ASC LIMIT"),
        asked | {"first": span[1], "last": span[1] + _BESIDE_NS, "most": READINGS_AFTER},
    )
    return sorted((ReadingRow(*row) for row in (*before, *inside, *after)), key=lambda r: (r.source, r.lane, r.at_ns))


def query_events(
    asks: QueryClient, device: str, rows: Iterable[str], span: tuple[int, int], most: int
) -> list[EventRow]:
    """What the port told in the span; of a device, what it told of itself."""
    asked = {"device": device, "rows": sorted(rows), "begin": span[0], "end": span[1], "most": most}
    return [EventRow(*row) for row in asks.query(_EVENTS, asked)]


def group_by_lane(found: Iterable[ReadingRow]) -> list[tuple[tuple[str, int], list[ReadingRow]]]:
    """The readings of each source and index."""
    return [(key, list(own)) for key, own in groupby(found, key=lambda r: (r.source, r.lane))]
