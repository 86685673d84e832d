"""Computes the network of a job (the links of its hosts and paths), and the covered share of its time.

With one leaf the traffic stays at the leaf; with several it may use their uplinks, and with several pods also the links
above. A port is covered while a source of its host or of its switch reads it, because either end reports whether the
link is up. It is not covered between two readings with a distance above the timeout of telemetry/stale.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams.fabric.intervals import Interval, clip, intersect, merge_intervals, total_length
from streams.fabric.job_placement import JobAllocation
from streams.store.clickhouse import QueryClient
from streams.store.queries import job_history
from streams.store.queries.job_history import LinkRow, SourceReadings


@dataclass(frozen=True, slots=True)
class JobFootprint:
    """A job within a time window."""

    job: str
    window: Interval
    allocations: dict[str, list[Interval]]
    """Host -> its intervals, clipped to the window."""
    host_links: tuple[LinkRow, ...]
    """The hosts' own links."""
    path_links: frozenset[str]
    """Ids of the links that its traffic may use."""
    devices: frozenset[str]
    """The hosts and switches at these links."""
    pods: frozenset[str]


def job_footprint(
    client: QueryClient, job: str, window: Interval, allocations: Iterable[JobAllocation]
) -> JobFootprint:
    """Return the footprint by the inventory in effect at the window's end."""
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


@dataclass(frozen=True, slots=True)
class SourceCoverage:
    """One source at one end of a port: its share of the job's time."""

    source: str
    device: str
    share: float


@dataclass(frozen=True, slots=True)
class PortCoverage:
    """One port of one host of the job."""

    link: LinkRow
    sources: tuple[SourceCoverage, ...]
    share: float
    gaps: tuple[Interval, ...]
    """Intervals in which no source read it."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """All ports of the job's hosts."""

    ports: tuple[PortCoverage, ...]

    @property
    def share(self) -> float:
        """The mean over all ports; 0 without ports."""
        return sum(port.share for port in self.ports) / len(self.ports) if self.ports else 0.0


Rows = Mapping[tuple[str, str], Mapping[str, int]]
Names = Mapping[tuple[str, str], set[str]]


def job_coverage(footprint: JobFootprint, readings: Iterable[SourceReadings], rows: Rows, names: Names) -> Coverage:
    """Return the coverage by the readings of the hosts and of their switches."""
    by_device: dict[str, list[SourceReadings]] = {}
    for reading in readings:
        by_device.setdefault(reading.device, []).append(reading)
    return Coverage(tuple(_port_coverage(footprint, link, by_device, rows, names) for link in footprint.host_links))


def _port_coverage(
    footprint: JobFootprint, link: LinkRow, readings: Mapping[str, list[SourceReadings]], rows: Rows, names: Names
) -> PortCoverage:
    allocated = footprint.allocations[link.lower]
    total = total_length(allocated)
    sources, uncovered = [], list(allocated)
    for device, port in ((link.lower, link.lower_port), (link.upper, link.upper_port)):
        for reading in readings.get(device, ()):
            aliases = names.get((device, port), {port})
            if not sum(rows.get((device, alias), {}).get(reading.source, 0) for alias in aliases):
                continue
            gaps = intersect(allocated, _unread_intervals(reading, footprint.window))
            sources.append(SourceCoverage(reading.source, device, _share(gaps, total)))
            uncovered = intersect(uncovered, gaps)
    return PortCoverage(link, tuple(sources), _share(uncovered, total), tuple(uncovered))


def _share(gaps: list[Interval], total: int) -> float:
    return 1 - total_length(gaps) / total if total else 0.0


def _unread_intervals(reading: SourceReadings, window: Interval) -> list[Interval]:
    """Return the gaps between a source's readings, before its first and after its last reading."""
    edges = ((window[0], reading.first_ns), (reading.last_ns, window[1]))
    return merge_intervals([*reading.gaps, *((begin, end) for begin, end in edges if end - begin > reading.limit_ns)])
