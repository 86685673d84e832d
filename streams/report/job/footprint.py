"""Where a job ran: its hosts with their stays, the ports of these hosts, and what its traffic may have passed.

With one leaf the traffic stays at it; with several it passes their uplinks, and with several pods those above as well.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from streams.fabric.job_placement import JobAllocation
from streams.report.job.intervals import Interval, merge
from streams.store.queries import job_history
from streams.store.queries.job_history import LinkRow
from streams.store.query_client import QueryClient


@dataclass(frozen=True, slots=True)
class JobFootprint:
    """A job in a stretch of time."""

    job: str
    window: Interval
    allocations: dict[str, list[Interval]]
    """By host, cut to the span."""
    host_links: tuple[LinkRow, ...]
    """The hosts' own links."""
    path_links: frozenset[str]
    """Ids of the links that its traffic may have passed."""
    devices: frozenset[str]
    """Hosts and switches on these."""
    pods: frozenset[str]


def job_footprint(asks: QueryClient, job: str, span: Interval, stays: Iterable[JobAllocation]) -> JobFootprint:
    """Put it together from the inventory that was in effect at the end."""
    own: dict[str, list[Interval]] = defaultdict(list)
    for stay in stays:
        own[stay.device].append((max(stay.start_ns, span[0]), min(stay.end_ns, span[1])))
    at_ns = span[1]
    ports = [cable for cable in job_history.links_below(asks, own, at_ns) if cable.lower in own]
    leaves, pods = {cable.upper for cable in ports}, {cable.pod for cable in ports}
    above = job_history.links_below(asks, leaves, at_ns) if len(leaves) > 1 else []
    if above and len(pods) > 1:
        above += job_history.links_below(asks, {cable.upper for cable in above} - leaves, at_ns)
    passed = [*ports, *above]
    return JobFootprint(
        job,
        span,
        {host: merge(spans) for host, spans in sorted(own.items())},
        tuple(ports),
        frozenset(cable.id for cable in passed),
        frozenset({*own, *(cable.upper for cable in passed), *(cable.lower for cable in passed)}),
        frozenset(pods),
    )
