"""Queries the jobs as schedulers and the inventory report them: one row for each run of a job on a host.

Of several records of one run on one host the newest applies. Raises Retry while ClickHouse is unavailable.
"""

from typing import NamedTuple

from streams.fabric.job_placement import FOREVER
from streams.store.query_client import QueryClient


class JobStay(NamedTuple):
    """One run of a job on one host; what the inventory's jobs do not have is empty."""

    job: str
    device: str
    start_ns: int
    end_ns: int
    run: int
    name: str
    user: str
    team: str
    tenant: str
    """That of the job, else that of the host."""
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
    """Return the stays, of one job or of all, that overlap [since, until)."""
    parameters = {"since": since_ns, "until": until_ns, "job": job, "forever": FOREVER}
    return [JobStay(*row)._replace(scheduler_ids=tuple(row[12])) for row in client.query(_STAYS, parameters)]
