"""Queries which job was on which host: from the inventory, and from messages at the start and end of jobs.

Of several records of one job, host and start the newest applies. Raises Retry while ClickHouse is unavailable.
"""

from streams.fabric.job_placement import FOREVER, JobAllocation
from streams.store.query_client import QueryClient

_ALLOCATIONS = (
    "SELECT job, device, toUnixTimestamp64Nano(start) AS start_ns,"
    " argMax(ifNull(toUnixTimestamp64Nano(end), {forever:Int64}), (rank, kafka_offset)) AS end_ns FROM ("
    "SELECT job, device, start, end, 0 AS rank, kafka_offset FROM inventory_jobs"
    " UNION ALL SELECT job, device, start, end, 1 AS rank, kafka_offset FROM jobs"
    ") WHERE {job:String} IN ('', job) GROUP BY job, device, start"
    " HAVING start_ns < {until:Int64} AND end_ns > {since:Int64} AND end_ns > start_ns ORDER BY job, device, start_ns"
)


def query_allocations(client: QueryClient, since_ns: int, until_ns: int, job: str = "") -> list[JobAllocation]:
    """Return the allocations, of one job or of all, that overlap [since, until)."""
    parameters = {"since": since_ns, "until": until_ns, "job": job, "forever": FOREVER}
    return [JobAllocation(*row) for row in client.query(_ALLOCATIONS, parameters)]
