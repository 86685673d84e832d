"""How much of a job's network was seen: of each port of its hosts, by which sources, for which share of the job's time.

A port is seen while a source of its host reads it, or one of the switch at its other end: either end tells whether the
link is up. It is unseen between two readings further apart than telemetry/stale lets a source be silent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams.report.job.place import Place
from streams.report.job.spans import Span, both, joined, length
from streams.store.queries.job_history import LinkRow, SourceReadings


@dataclass(frozen=True, slots=True)
class By:
    """One source at one end of a port: the share of the job's time in which it read it."""

    source: str
    at: str
    share: float


@dataclass(frozen=True, slots=True)
class PortSeen:
    """One port of one host of the job."""

    cable: LinkRow
    by: tuple[By, ...]
    share: float
    gaps: tuple[Span, ...]
    """When nobody saw it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All of them."""

    ports: tuple[PortSeen, ...]

    @property
    def share(self) -> float:
        """Of the time of all ports together; nothing of nothing."""
        return sum(port.share for port in self.ports) / len(self.ports) if self.ports else 0.0


Rows = Mapping[tuple[str, str], Mapping[str, int]]
Names = Mapping[tuple[str, str], set[str]]


def seen_of(place: Place, reads: Iterable[SourceReadings], rows: Rows, names: Names) -> Seen:
    """By what the tables say of the hosts and of the switches they hang on."""
    by_device: dict[str, list[SourceReadings]] = {}
    for read in reads:
        by_device.setdefault(read.device, []).append(read)
    return Seen(tuple(_port(place, cable, by_device, rows, names) for cable in place.ports))


def _port(
    place: Place, cable: LinkRow, reads: Mapping[str, list[SourceReadings]], rows: Rows, names: Names
) -> PortSeen:
    stays = place.stays[cable.lower]
    total = length(stays)
    by, unseen = [], list(stays)
    for device, port in ((cable.lower, cable.lower_port), (cable.upper, cable.upper_port)):
        for read in reads.get(device, ()):
            alike = names.get((device, port), {port})
            count = sum(rows.get((device, name), {}).get(read.source, 0) for name in alike)
            if not count:
                continue
            gaps = both(stays, _unread(read, place.span))
            by.append(By(read.source, device, _share(gaps, total)))
            unseen = both(unseen, gaps)
    return PortSeen(cable, tuple(by), _share(unseen, total), tuple(unseen))


def _share(gaps: list[Span], total: int) -> float:
    return 1 - length(gaps) / total if total else 0.0


def _unread(read: SourceReadings, span: Span) -> list[Span]:
    """When the source did not read the device: its pauses, and what is before its first and after its last reading."""
    edges = ((span[0], read.first_ns), (read.last_ns, span[1]))
    return joined([*read.gaps, *((begin, end) for begin, end in edges if end - begin > read.limit_ns)])
