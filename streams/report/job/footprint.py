"""The network of a job: its hosts with their allocations, the links of these hosts, and the links of its paths.

With one leaf the traffic stays at the leaf; with several it may take their uplinks, and with several pods also the
links above those.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from streams.fabric.intervals import Interval, clip, merge_intervals
from streams.fabric.job_placement import JobAllocation
from streams.store.clickhouse import QueryClient
from streams.store.queries import job_history
from streams.store.queries.job_history import LinkRow


@dataclass(frozen=True, slots=True)
class JobFootprint:
    """A job within a time window."""

    job: str
    window: Interval
    allocations: dict[str, list[Interval]]
    """By host, clipped to the window."""
    host_links: tuple[LinkRow, ...]
    """The hosts' own links."""
    path_links: frozenset[str]
    """Ids of the links that its traffic may take."""
    devices: frozenset[str]
    """Hosts and switches at these links."""
    pods: frozenset[str]


def job_footprint(
    client: QueryClient, job: str, window: Interval, allocations: Iterable[JobAllocation]
) -> JobFootprint:
    """Return the footprint by the inventory that was in effect at the window's end."""
    by_host: dict[str, list[Interval]] = defaultdict(list)
    for allocation in allocations:
        by_host[allocation.device].append((allocation.start_ns, allocation.end_ns))
    at_ns = window[1]
    host_links = [link for link in job_history.links_below(client, by_host, at_ns) if link.lower in by_host]
    leaves, pods = {link.upper for link in host_links}, {link.pod for link in host_links}
    above = job_history.links_below(client, leaves, at_ns) if len(leaves) > 1 else []
    if above and len(pods) > 1:
        above += job_history.links_below(client, {link.upper for link in above} - leaves, at_ns)
    path = [*host_links, *above]
    return JobFootprint(
        job,
        window,
        {host: merge_intervals(clip(intervals, window)) for host, intervals in sorted(by_host.items())},
        tuple(host_links),
        frozenset(link.id for link in path),
        frozenset({*by_host, *(link.upper for link in path), *(link.lower for link in path)}),
        frozenset(pods),
    )
