"""How much of a job's network was seen: of each port of its hosts, by which sources, for which share of the job's time.

A port is seen while a source of its host reads it, or one of the switch at its other end: either end tells whether the
link is up. It is unseen between two readings further apart than telemetry/stale lets a source be silent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams.report.job.footprint import JobFootprint
from streams.report.job.intervals import Interval, intersect, merge, total_length
from streams.store.queries.job_history import LinkRow, SourceReadings


@dataclass(frozen=True, slots=True)
class SourceCoverage:
    """One source at one end of a port: the share of the job's time in which it read it."""

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
    """When nobody saw it."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """All of them."""

    ports: tuple[PortCoverage, ...]

    @property
    def share(self) -> float:
        """Of the time of all ports together; nothing of nothing."""
        return sum(port.share for port in self.ports) / len(self.ports) if self.ports else 0.0


Rows = Mapping[tuple[str, str], Mapping[str, int]]
Names = Mapping[tuple[str, str], set[str]]


def job_coverage(place: JobFootprint, reads: Iterable[SourceReadings], rows: Rows, names: Names) -> Coverage:
    """By what the tables say of the hosts and of the switches they hang on."""
    by_device: dict[str, list[SourceReadings]] = {}
    for read in reads:
        by_device.setdefault(read.device, []).append(read)
    return Coverage(tuple(_port_coverage(place, cable, by_device, rows, names) for cable in place.host_links))


def _port_coverage(
    place: JobFootprint, cable: LinkRow, reads: Mapping[str, list[SourceReadings]], rows: Rows, names: Names
) -> PortCoverage:
    stays = place.allocations[cable.lower]
    total = total_length(stays)
    by, unseen = [], list(stays)
    for device, port in ((cable.lower, cable.lower_port), (cable.upper, cable.upper_port)):
        for read in reads.get(device, ()):
            alike = names.get((device, port), {port})
            count = sum(rows.get((device, name), {}).get(read.source, 0) for name in alike)
            if not count:
                continue
            gaps = intersect(stays, _unread_intervals(read, place.window))
            by.append(SourceCoverage(read.source, device, _share(gaps, total)))
            unseen = intersect(unseen, gaps)
    return PortCoverage(cable, tuple(by), _share(unseen, total), tuple(unseen))


def _share(gaps: list[Interval], total: int) -> float:
    return 1 - total_length(gaps) / total if total else 0.0


def _unread_intervals(read: SourceReadings, span: Interval) -> list[Interval]:
    """When the source did not read the device: its pauses, and what is before its first and after its last reading."""
    edges = ((span[0], read.first_ns), (read.last_ns, span[1]))
    return merge([*read.gaps, *((begin, end) for begin, end in edges if end - begin > read.limit_ns)])
