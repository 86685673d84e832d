"""Queries the links of hosts, the findings near them, the readings of each source, and results of collective benchmarks
(nccl-tests), for an interval, without conclusions. Raises Retry while ClickHouse is unavailable.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streams.store.clickhouse import QueryClient
from streams.wire import codec
from streams.wire.models import Finding

_DEVICES_PER_QUERY = 64
"""A day of readings each 10 s from 64 devices has half a million timestamps in the server's memory."""


class LinkRow(NamedTuple):
    """A link of the inventory; `lower` is the endpoint nearer to the hosts."""

    id: str
    lower: str
    lower_port: str
    upper: str
    upper_port: str
    rail: int | None
    plane: int | None
    pod: str


class SourceReadings(NamedTuple):
    """The readings of one device by one source: their number, first and last time, and the gaps above the limit."""

    device: str
    source: str
    readings: int
    first_ns: int
    last_ns: int
    limit_ns: int
    gaps: tuple[tuple[int, int], ...]


_LINKS = (
    "SELECT DISTINCT id, a_device, a_port, z_device, z_port, rail, plane, pod FROM inventory_links"
    " WHERE a_device IN {devices:Array(String)} AND (digest, effective_at) = ("
    # The version in effect at that time; before the first version, the first.
    "SELECT digest, effective_at FROM inventory_devices"
    " ORDER BY toUnixTimestamp64Nano(effective_at) <= {at:Int64} DESC,"
    " if(toUnixTimestamp64Nano(effective_at) <= {at:Int64}, toUnixTimestamp64Nano(effective_at), 0) DESC,"
    " effective_at LIMIT 1) ORDER BY a_device, rail, plane, a_port"
)
_FINDINGS_NEAR = (
    "SELECT json FROM findings WHERE (id, revision) IN (SELECT id, max(revision) FROM findings GROUP BY id)"
    " AND toUnixTimestamp64Nano(started_at) < {until:Int64} AND status != 'retracted' AND NOT shadow"
    " AND (resolved_at IS NULL OR toUnixTimestamp64Nano(resolved_at) >= {since:Int64})"
    " AND (has(jobs, {job:String}) OR hasAny(hosts, {hosts:Array(String)})"
    " OR a_device IN {devices:Array(String)} OR z_device IN {devices:Array(String)}"
    " OR pod IN {pods:Array(String)} AND role IN ('pod', 'plane'))"
    " ORDER BY started_at, id LIMIT 1 BY id"
)
_FINDINGS_BY_ID = "SELECT json FROM findings WHERE id IN {ids:Array(String)} ORDER BY id, revision DESC LIMIT 1 BY id"
_SOURCE_READINGS = (
    "SELECT device, source, length(at), at[1], at[-1], limit, arrayFilter(x -> x.2 - x.1 > limit, pairs) FROM ("
    "SELECT device, source, arraySort(groupUniqArray(toUnixTimestamp64Nano(sampled_at))) AS at,"
    " arrayZip(arrayPopBack(at), arrayPopFront(at)) AS pairs,"
    " if(length(at) > 1, toInt64(arrayReduce('medianExact', arrayMap(x -> x.2 - x.1, pairs))), 0) AS cadence,"
    " greatest(toInt64({cadences:Float64} * cadence), {least:Int64}) AS limit FROM sample_messages"
    " WHERE device IN {devices:Array(String)} AND sampled_at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
    " AND sampled_at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') GROUP BY device, source) ORDER BY device, source"
)
_ROW_COUNTS = (
    "SELECT device, row, source, count() FROM samples WHERE device IN {devices:Array(String)}"
    " AND sampled_at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
    " AND sampled_at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') GROUP BY device, row, source"
)
_NCCL_EVENTS = (
    "SELECT device, port, min(toUnixTimestamp64Nano(at)) AS first_ns, code, detail FROM events"
    " WHERE kind = 'nccl' AND device IN {hosts:Array(String)} AND at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
    " AND at < fromUnixTimestamp64Nano({until:Int64}, 'UTC') GROUP BY device, port, code, detail"
    " ORDER BY first_ns, device, port, code, detail LIMIT 1000"
)
_ALIASES = (
    "SELECT device, components.name, components.alias FROM facts WHERE device IN {devices:Array(String)}"
    " ORDER BY observed_at DESC LIMIT 1 BY device, source"
)


def links_below(client: QueryClient, lower: Iterable[str], at_ns: int) -> list[LinkRow]:
    """Return the links with a lower endpoint at one of these devices, in the inventory in effect at that time."""
    return [LinkRow(*row) for row in client.query(_LINKS, {"devices": sorted(lower), "at": at_ns})]


def findings_near(
    client: QueryClient,
    job: str,
    hosts: Iterable[str],
    devices: Iterable[str],
    pods: Iterable[str],
    interval: tuple[int, int],
) -> list[Finding]:
    """Return the last revisions of findings that overlap the interval and name the job, its hosts or these devices."""
    parameters = {
        "job": job, "hosts": sorted(hosts), "devices": sorted(devices), "pods": sorted(pods),
        "since": interval[0], "until": interval[1],
    }  # fmt: skip
    return [codec.from_json(Finding, json) for (json,) in client.query(_FINDINGS_NEAR, parameters)]


def findings_by_id(client: QueryClient, ids: Iterable[str]) -> list[Finding]:
    """Return the last revisions of these findings."""
    sorted_ids = sorted(ids)
    return (
        [codec.from_json(Finding, json) for (json,) in client.query(_FINDINGS_BY_ID, {"ids": sorted_ids})]
        if sorted_ids
        else []
    )


def source_readings(
    client: QueryClient, devices: Sequence[str], interval: tuple[int, int], cadences: float, min_gap_ns: int
) -> Iterator[SourceReadings]:
    """Yield the readings of each device; a gap is longer than `cadences` times its cadence and than `min_gap_ns`."""
    for batch in batches(devices):
        parameters = {
            "devices": batch,
            "since": interval[0],
            "until": interval[1],
            "cadences": cadences,
            "least": min_gap_ns,
        }
        for device, source, count, first_ns, last_ns, limit_ns, pairs in client.query(_SOURCE_READINGS, parameters):
            gaps = tuple((int(begin), int(end)) for begin, end in pairs)
            yield SourceReadings(device, source, count, first_ns, last_ns, limit_ns, gaps)


def port_row_counts(
    client: QueryClient, devices: Sequence[str], interval: tuple[int, int]
) -> dict[tuple[str, str], dict[str, int]]:
    """Return the number of rows of each port by source, by device and the port name that the source uses."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for batch in batches(devices):
        for device, row, source, count in client.query(
            _ROW_COUNTS, {"devices": batch, "since": interval[0], "until": interval[1]}
        ):
            found.setdefault((device, row), {})[source] = count
    return found


class NcclEvent(NamedTuple):
    """A report of NCCL on a host; `port` is empty if it names no HCA."""

    device: str
    port: str
    at_ns: int
    code: int
    detail: str


def nccl_events(client: QueryClient, hosts: Iterable[str], interval: tuple[int, int]) -> list[NcclEvent]:
    """Return the first events of NCCL of each kind and place on these hosts, in order of time."""
    parameters = {"hosts": sorted(hosts), "since": interval[0], "until": interval[1]}
    return [NcclEvent(*row) for row in client.query(_NCCL_EVENTS, parameters)]


def port_aliases(client: QueryClient, devices: Sequence[str]) -> dict[tuple[str, str], set[str]]:
    """Return, for each reported name of a port, all its reported names."""
    found: dict[tuple[str, str], set[str]] = {}
    for batch in batches(devices):
        for device, component_names, aliases in client.query(_ALIASES, {"devices": batch}):
            for name, other_names in zip(component_names, aliases, strict=True):
                names = {name, *other_names}.union(*(found.get((device, one), ()) for one in (name, *other_names)))
                found.update({(device, one): names for one in names})
    return found


def batches(devices: Sequence[str]) -> Iterator[list[str]]:
    """Yield the devices in batches for one query each."""
    for first in range(0, len(devices), _DEVICES_PER_QUERY):
        yield list(devices[first : first + _DEVICES_PER_QUERY])


_IN = (
    "sampled_at >= fromUnixTimestamp64Nano({%s:Int64}, 'UTC')"
    " AND sampled_at < fromUnixTimestamp64Nano({until:Int64}, 'UTC')"
)
_HOSTS = f"(SELECT DISTINCT device FROM sample_messages WHERE source = 'benchmark' AND {_IN % 'since'})"
_RESULTS = (
    "SELECT toUnixTimestamp64Nano(sampled_at) AS at_ns, row, `index`, arraySort(groupUniqArray(device)),"
    " anyIf(gauge, metric = 'collective_size_bytes'), anyIf(gauge, metric = 'collective_ranks'),"
    " anyIf(gauge, metric = 'collective_bus_bytes_per_s'), anyIf(gauge, metric = 'collective_wrong_elements')"
    f" FROM sample_lanes WHERE source = 'benchmark' AND row_kind = 'collective' AND device IN {_HOSTS} AND row IN ("
    "SELECT DISTINCT row FROM sample_lanes WHERE source = 'benchmark' AND row_kind = 'collective'"
    f" AND device IN {{hosts:Array(String)}} AND {_IN % 'began'}) AND {_IN % 'since'}"
    " GROUP BY sampled_at, row, `index` ORDER BY sampled_at, row, `index` LIMIT 100000"
)
_GPUS = (
    "SELECT toUnixTimestamp64Nano(sampled_at) AS at_ns, device, arraySort(groupUniqArray(row)) FROM sample_lanes"
    f" WHERE source = 'benchmark' AND row_kind = 'gpu' AND metric = 'collective_rank' AND device IN {_HOSTS}"
    f" AND {_IN % 'since'} GROUP BY sampled_at, device ORDER BY sampled_at, device LIMIT 1000000"
)
_KNOWN_GPUS = (
    "SELECT device, arraySort(arrayFilter((name, kind) -> kind = 'gpu', components.name, components.kind)) FROM facts"
    " WHERE device IN {hosts:Array(String)} AND has(components.kind, 'gpu')"
    " ORDER BY observed_at DESC LIMIT 1 BY device"
)


class CollectiveResult(NamedTuple):
    """A result of a benchmark, which `at_ns` identifies; `placement` is 0 out of place and 1 in place."""

    at_ns: int
    row: str
    placement: int
    hosts: tuple[str, ...]
    size_bytes: float | None
    ranks: float | None
    bus_bytes_per_s: float | None
    wrong: float | None


def collective_results(
    client: QueryClient, hosts: Iterable[str], began_ns: int, interval: tuple[int, int]
) -> list[CollectiveResult]:
    """Return all results of the interval with the rows of benchmarks on these hosts since `began_ns`, by time."""
    parameters = {"hosts": sorted(hosts), "began": began_ns, "since": interval[0], "until": interval[1]}
    rows = client.query(_RESULTS, parameters)
    return [CollectiveResult(at_ns, row, index, tuple(found), *values) for at_ns, row, index, found, *values in rows]


def benchmark_gpus(client: QueryClient, interval: tuple[int, int]) -> dict[int, dict[str, tuple[str, ...]]]:
    """Return the GPUs of each benchmark of the interval by host."""
    found: dict[int, dict[str, tuple[str, ...]]] = {}
    for at_ns, host, gpus in client.query(_GPUS, {"since": interval[0], "until": interval[1]}):
        found.setdefault(at_ns, {})[host] = tuple(gpus)
    return found


def gpus_of_hosts(client: QueryClient, hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the PCI addresses of the GPUs that each host reports, in order."""
    return {host: tuple(gpus) for host, gpus in client.query(_KNOWN_GPUS, {"hosts": sorted(hosts)})}
