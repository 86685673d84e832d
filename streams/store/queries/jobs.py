"""Queries the allocations of jobs, and the share of nominal bandwidth that a job's host links delivered, by rail.

If there are several records of one job, host and start, or of one run on one host, the newest applies. Raises Retry
while ClickHouse is unavailable.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from streams.fabric.intervals import Interval
from streams.fabric.job_placement import FOREVER, JobAllocation
from streams.store.clickhouse import QueryClient

_ALLOCATIONS = (
    "SELECT job, device, toUnixTimestamp64Nano(start) AS start_ns,"
    " argMax(ifNull(toUnixTimestamp64Nano(end), {forever:Int64}), (rank, kafka_offset)) AS end_ns FROM ("
    "SELECT job, device, start, end, 0 AS rank, kafka_offset FROM inventory_jobs"
    " UNION ALL SELECT job, device, start, end, 1 AS rank, kafka_offset FROM jobs"
    ") WHERE {job:String} IN ('', job) GROUP BY job, device, start"
    " HAVING start_ns < {until:Int64} AND end_ns > {since:Int64} AND end_ns > start_ns ORDER BY job, device, start_ns"
)


def query_allocations(client: QueryClient, since_ns: int, until_ns: int, job: str = "") -> list[JobAllocation]:
    """Return the allocations of one job or all jobs that overlap [since, until)."""
    parameters = {"since": since_ns, "until": until_ns, "job": job, "forever": FOREVER}
    return [JobAllocation(*row) for row in client.query(_ALLOCATIONS, parameters)]


class JobStay(NamedTuple):
    """One run of a job on one host; fields that the inventory's jobs lack are empty."""

    job: str
    device: str
    start_ns: int
    end_ns: int
    run: int
    name: str
    user: str
    team: str
    tenant: str
    """The tenant of the job, else of the host."""
    gpus: int | None
    state: str
    scheduler: str
    scheduler_ids: tuple[str, ...]
    array_job: str
    stale_since_ns: int | None


_STAYS = (
    "SELECT job, device, toUnixTimestamp64Nano(start) AS start_ns,"
    " toInt64(ifNull(toUnixTimestamp64Nano(end), {forever:Int64})) AS end_ns, run, stays.name, user, team,"
    " if(stays.tenant = '', hosts.tenant, stays.tenant) AS owner, gpus, state, scheduler, scheduler_ids, array_job,"
    " toUnixTimestamp64Nano(stale_since) FROM ("
    "SELECT job, device, start, end, run, name, user, team, tenant, gpus, state, scheduler, scheduler_ids, array_job,"
    " stale_since FROM jobs WHERE {job:String} IN ('', job) ORDER BY kafka_offset DESC LIMIT 1 BY job, device, run"
    " UNION ALL SELECT job, device, start, end, 0, '', '', '', tenant, NULL, '', '', [], '', NULL FROM inventory_jobs"
    " WHERE {job:String} IN ('', job) AND (digest, effective_at) = ("
    "SELECT digest, effective_at FROM inventory_devices ORDER BY effective_at DESC LIMIT 1)"
    " AND (job, device) NOT IN (SELECT job, device FROM jobs)"
    ") AS stays LEFT JOIN (SELECT name, tenant FROM inventory_devices WHERE (digest, effective_at) = ("
    "SELECT digest, effective_at FROM inventory_devices ORDER BY effective_at DESC LIMIT 1)"
    ") AS hosts ON hosts.name = stays.device"
    " WHERE start_ns < {until:Int64} AND end_ns > {since:Int64} ORDER BY job, run, device"
)


def query_stays(client: QueryClient, since_ns: int, until_ns: int, job: str = "") -> list[JobStay]:
    """Return the stays of one job or all jobs that overlap [since, until)."""
    parameters = {"since": since_ns, "until": until_ns, "job": job, "forever": FOREVER}
    return [JobStay(*row)._replace(scheduler_ids=tuple(row[12])) for row in client.query(_STAYS, parameters)]


_BY_MINUTE_NS = 86_400 * 10**9
"""Up to this length the rollups by minute are read, above it the rollups by hour (choice)."""
_RAILS = (
    "SELECT rail, ports, nominal_bps, delivered_ratio, slowest_device, slowest_ratio FROM rail_bandwidth_{size}"
    "(job = {{job:String}}, since = {{since:DateTime('UTC')}}, until = {{until:DateTime('UTC')}})"
    " WHERE rail IS NOT NULL AND delivered_ratio IS NOT NULL AND slowest_ratio IS NOT NULL"
)


class RailBandwidth(NamedTuple):
    """One rail of a job: the mean of its ports over the time, in the direction with more traffic."""

    rail: int
    ports: int
    nominal_bps: float
    delivered_ratio: float
    """The delivered share of the nominal bandwidth."""
    slowest_host: str
    slowest_ratio: float


def rail_bandwidth(client: QueryClient, job: str, window: Interval) -> list[RailBandwidth]:
    """Return the rails of a job with readings in a window, by number; omit rails without a nominal speed."""
    size = "1m" if window[1] - window[0] <= _BY_MINUTE_NS else "1h"
    since, until = (str(datetime.fromtimestamp(at_ns // 10**9, UTC).replace(tzinfo=None)) for at_ns in window)
    rows = client.query(_RAILS.format(size=size), {"job": job, "since": since, "until": until})
    return sorted(RailBandwidth(*row) for row in rows)
