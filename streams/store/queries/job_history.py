"""What ClickHouse knows of a stretch of time around some hosts: their links, the findings near them, who was read when.

Queries only; what follows from them is for whoever asks. Raises Retry where ClickHouse is away.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streams.store.query_client import QueryClient
from streams.wire import codec
from streams.wire.models import Finding

_DEVICES_AT_ONCE = 64
"""A day of readings each 10 s of so many devices is half a million times in the server's memory."""


class LinkRow(NamedTuple):
    """A link of the inventory; `lower` is the end nearer to the hosts."""

    id: str
    lower: str
    lower_port: str
    upper: str
    upper_port: str
    rail: int | None
    plane: int | None
    pod: str


class SourceReadings(NamedTuple):
    """When one source read one device: how often, the first and the last time, and each pause longer than its limit."""

    device: str
    source: str
    readings: int
    first_ns: int
    last_ns: int
    limit_ns: int
    gaps: tuple[tuple[int, int], ...]


_CABLES = (
    "SELECT DISTINCT id, a_device, a_port, z_device, z_port, rail, plane, pod FROM inventory_links"
    " WHERE a_device IN {devices:Array(String)} AND (digest, effective_at) = ("
    # The version in effect at the time; before the first, the first.
    "SELECT digest, effective_at FROM inventory_devices"
    " ORDER BY toUnixTimestamp64Nano(effective_at) <= {at:Int64} DESC,"
    " if(toUnixTimestamp64Nano(effective_at) <= {at:Int64}, toUnixTimestamp64Nano(effective_at), 0) DESC,"
    " effective_at LIMIT 1) ORDER BY a_device, rail, plane, a_port"
)
_NEAR = (
    "SELECT json FROM findings WHERE (id, revision) IN (SELECT id, max(revision) FROM findings GROUP BY id)"
    " AND toUnixTimestamp64Nano(started_at) < {until:Int64} AND status != 'retracted' AND NOT shadow"
    " AND (resolved_at IS NULL OR toUnixTimestamp64Nano(resolved_at) >= {since:Int64})"
    " AND (has(jobs, {job:String}) OR hasAny(hosts, {hosts:Array(String)})"
    " OR a_device IN {devices:Array(String)} OR z_device IN {devices:Array(String)}"
    " OR pod IN {pods:Array(String)} AND role IN ('pod', 'plane'))"
    " ORDER BY started_at, id LIMIT 1 BY id"
)
_BY_ID = "SELECT json FROM findings WHERE id IN {ids:Array(String)} ORDER BY id, revision DESC LIMIT 1 BY id"
_READ = (
    "SELECT device, source, length(at), at[1], at[-1], limit, arrayFilter(x -> x.2 - x.1 > limit, pairs) FROM ("
    "SELECT device, source, arraySort(groupUniqArray(toUnixTimestamp64Nano(sampled_at))) AS at,"
    " arrayZip(arrayPopBack(at), arrayPopFront(at)) AS pairs,"
    " if(length(at) > 1, toInt64(arrayReduce('medianExact', arrayMap(x -> x.2 - x.1, pairs))), 0) AS cadence,"
    " greatest(toInt64({cadences:Float64} * cadence), {least:Int64}) AS limit FROM sample_messages"
    " WHERE device IN {devices:Array(String)} AND sampled_at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
    " AND sampled_at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') GROUP BY device, source) ORDER BY device, source"
)
_ROWS = (
    "SELECT device, row, source, count() FROM samples WHERE device IN {devices:Array(String)}"
    " AND sampled_at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
    " AND sampled_at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') GROUP BY device, row, source"
)
_ALIASES = (
    "SELECT device, components.name, components.alias FROM facts WHERE device IN {devices:Array(String)}"
    " ORDER BY observed_at DESC LIMIT 1 BY device, source"
)


def links_below(asks: QueryClient, lower: Iterable[str], at_ns: int) -> list[LinkRow]:
    """The links on which these devices are the lower end, in the inventory that was in effect."""
    return [LinkRow(*row) for row in asks.query(_CABLES, {"devices": sorted(lower), "at": at_ns})]


def findings_near(
    asks: QueryClient,
    job: str,
    hosts: Iterable[str],
    devices: Iterable[str],
    pods: Iterable[str],
    span: tuple[int, int],
) -> list[Finding]:
    """The last revisions of what stood in the span and names the job, its hosts or these devices."""
    asked = {
        "job": job, "hosts": sorted(hosts), "devices": sorted(devices), "pods": sorted(pods),
        "since": span[0], "until": span[1],
    }  # fmt: skip
    return [codec.from_json(Finding, json) for (json,) in asks.query(_NEAR, asked)]


def findings_by_id(asks: QueryClient, ids: Iterable[str]) -> list[Finding]:
    """The last revisions of these."""
    wanted = sorted(ids)
    return [codec.from_json(Finding, json) for (json,) in asks.query(_BY_ID, {"ids": wanted})] if wanted else []


def source_readings(
    asks: QueryClient, devices: Sequence[str], span: tuple[int, int], cadences: float, least_ns: int
) -> Iterator[SourceReadings]:
    """When each was read; a pause is longer than so many cadences of it, and than `least_ns`."""
    for own in _some(devices):
        asked = {"devices": own, "since": span[0], "until": span[1], "cadences": cadences, "least": least_ns}
        for device, source, count, first_ns, last_ns, limit_ns, pauses in asks.query(_READ, asked):
            longer = tuple((int(begin), int(end)) for begin, end in pauses)
            yield SourceReadings(device, source, count, first_ns, last_ns, limit_ns, longer)


def port_row_counts(
    asks: QueryClient, devices: Sequence[str], span: tuple[int, int]
) -> dict[tuple[str, str], dict[str, int]]:
    """How many rows each port has of each source, by device and the name that the source gives it."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for own in _some(devices):
        for device, row, source, count in asks.query(_ROWS, {"devices": own, "since": span[0], "until": span[1]}):
            found.setdefault((device, row), {})[source] = count
    return found


def port_aliases(asks: QueryClient, devices: Sequence[str]) -> dict[tuple[str, str], set[str]]:
    """All names of a port that a device gave of itself, by each of them."""
    found: dict[tuple[str, str], set[str]] = {}
    for own in _some(devices):
        for device, names, aliases in asks.query(_ALIASES, {"devices": own}):
            for name, others in zip(names, aliases, strict=True):
                alike = {name, *others}.union(*(found.get((device, one), ()) for one in (name, *others)))
                found.update({(device, one): alike for one in alike})
    return found


def _some(devices: Sequence[str]) -> Iterator[list[str]]:
    for first in range(0, len(devices), _DEVICES_AT_ONCE):
        yield list(devices[first : first + _DEVICES_AT_ONCE])
