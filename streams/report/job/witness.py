"""NCCL as a witness of a job: what it reported on the job's hosts while it ran, with the rail where it named the HCA.

No detector reads these events: a report of NCCL is the end of a chain whose begin the detectors find. Transport errors
that no finding explains make the network of a job unknown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streams.fabric.intervals import overlaps_any
from streams.report.job.footprint import JobFootprint
from streams.store.queries.job_history import NcclEvent
from streams.wire.nccl_codes import is_transport_error


@dataclass(frozen=True, slots=True)
class WitnessReport:
    """One report of NCCL, at its first time; equal reports of several hosts are one."""

    at_ns: int
    host: str
    port: str
    rail: int | None
    code: int
    detail: str

    @property
    def is_transport_error(self) -> bool:
        """Return whether the network or an HCA failed; a dead peer or a straggler may have any cause."""
        return is_transport_error(self.code)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "at_ns": self.at_ns, "host": self.host, "port": self.port, "rail": self.rail, "code": self.code,
            "detail": self.detail,
        }  # fmt: skip


def witness_reports(
    footprint: JobFootprint, events: Iterable[NcclEvent], names: Mapping[tuple[str, str], set[str]]
) -> tuple[WitnessReport, ...]:
    """Return the reports on hosts of the job while it was on them; `names` are the other names of ports."""
    rails = {(link.lower, link.lower_port): link.rail for link in footprint.host_links}
    found: dict[tuple[int, str], WitnessReport] = {}
    for event in events:
        if not overlaps_any(footprint.allocations.get(event.device, []), (event.at_ns, event.at_ns + 1)):
            continue
        aliases = names.get((event.device, event.port), {event.port})
        rail = next((rails[event.device, name] for name in aliases if (event.device, name) in rails), None)
        report = WitnessReport(event.at_ns, event.device, event.port, rail, event.code, event.detail)
        found.setdefault((event.code, event.detail), report)
    return tuple(found.values())
