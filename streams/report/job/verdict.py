"""Was the network clean for a job: what hurt it, what was seen of it, and what was not."""

from dataclasses import dataclass
from typing import Any

import orjson

from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.thresholds import ns
from streams.report.job.coverage import Coverage, job_coverage
from streams.report.job.footprint import JobFootprint, job_footprint
from streams.report.job.impact import Impact, is_coverage_gap, job_impacts
from streams.report.job.intervals import Interval
from streams.store.queries import job_allocations, job_history
from streams.store.query_client import QueryClient
from streams.wire import codec
from streams.wire.models import Finding


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer; `stale` are the findings of what was not seen."""

    footprint: JobFootprint
    impacts: tuple[Impact, ...]
    stale: tuple[Finding, ...]
    coverage: Coverage
    min_coverage: float

    @property
    def is_clean(self) -> bool:
        """Nothing speaks against the network."""
        return not any(harm.is_significant for harm in self.impacts)

    @property
    def is_covered(self) -> bool:
        """Whether that says anything: enough of all, and something of each port."""
        return self.coverage.share >= self.min_coverage and all(port.share > 0 for port in self.coverage.ports)

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it; shares from 0 to 1, times in Unix ns."""
        return {
            "job": self.footprint.job, "from_ns": self.footprint.window[0], "to_ns": self.footprint.window[1],
            "clean": self.is_clean, "enough_seen": self.is_covered, "seen": round(self.coverage.share, 6),
            "hosts": {host: [list(span) for span in spans] for host, spans in self.footprint.allocations.items()},
            "hurt": [_harm(harm) for harm in self.impacts],
            "stale": [orjson.loads(codec.to_json(finding)) for finding in self.stale],
            "ports": [
                {
                    "host": port.link.lower, "port": port.link.lower_port, "rail": port.link.rail,
                    "seen": round(port.share, 6), "gaps": [list(gap) for gap in port.gaps],
                    "by": [{"source": by.source, "at": by.device, "seen": round(by.share, 6)} for by in port.sources],
                }
                for port in self.coverage.ports
            ],
        }  # fmt: skip


def _harm(harm: Impact) -> dict[str, Any]:
    return {
        "finding": orjson.loads(codec.to_json(harm.finding)), "lasted_s": harm.overlap_ns / 1e9,
        "hosts": list(harm.hosts), "explains": [_harm(child) for child in harm.children],
    }  # fmt: skip


def job_verdict(asks: QueryClient, silent: StaleParams, job: str, asked: Interval, enough: float) -> Verdict | None:
    """What ClickHouse says of a job in a span, cut to when it ran; None where it did not run then."""
    since_ns, until_ns = asked
    stays = job_allocations.query_allocations(asks, since_ns, until_ns, job)
    if not stays:
        return None
    span = max(since_ns, min(stay.start_ns for stay in stays)), min(until_ns, max(stay.end_ns for stay in stays))
    place = job_footprint(asks, job, span, stays)
    near = _with_parents(asks, job_history.findings_near(asks, job, place.allocations, place.devices, place.pods, span))
    hurt = job_impacts(place, [finding for finding in near if not is_coverage_gap(finding)])
    stale = job_impacts(place, [finding for finding in near if is_coverage_gap(finding)])
    return Verdict(place, hurt, tuple(harm.finding for harm in stale), _coverage(asks, silent, place, span), enough)


def _with_parents(asks: QueryClient, near: list[Finding]) -> list[Finding]:
    """And what explains them, though it be far from the job."""
    known = {finding.id for finding in near}
    return [*near, *job_history.findings_by_id(asks, {f.parent_id for f in near if f.parent_id} - known)]


def _coverage(asks: QueryClient, silent: StaleParams, place: JobFootprint, span: Interval) -> Coverage:
    devices = sorted({*place.allocations, *(cable.upper for cable in place.host_links)})
    reads = list(job_history.source_readings(asks, devices, span, silent.cadences, ns(silent.at_least_s)))
    return job_coverage(
        place, reads, job_history.port_row_counts(asks, devices, span), job_history.port_aliases(asks, devices)
    )
