"""Queries the results of collective benchmarks (nccl-tests) that ran on hosts, and those that they compare with.

Draws no conclusions from the rows. Raises Retry while ClickHouse is unavailable.
"""

from collections.abc import Iterable
from typing import NamedTuple

from streams.store.query_client import QueryClient

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
    """Return all results of the interval whose rows benchmarks on these hosts have since `began_ns`, by time."""
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
