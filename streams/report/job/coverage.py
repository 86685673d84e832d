"""Coverage of a job's network: for each port of its hosts, the sources that read it and their share of the job's time.

A port is covered while a source of its host reads it, or a source of the switch at its far end: either end reports
whether the link is up. It is not covered between two readings that are further apart than the timeout of
telemetry/stale.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams.fabric.intervals import Interval, intersect, merge_intervals, total_length
from streams.report.job.footprint import JobFootprint
from streams.store.queries.job_history import LinkRow, SourceReadings


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
    """Return the coverage by the readings of the hosts and of the switches that they are connected to."""
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
    """Return the gaps between the source's readings, and those before its first and after its last reading."""
    edges = ((window[0], reading.first_ns), (reading.last_ns, window[1]))
    return merge_intervals([*reading.gaps, *((begin, end) for begin, end in edges if end - begin > reading.limit_ns)])
