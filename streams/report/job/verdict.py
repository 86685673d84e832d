"""Computes the verdict on the network of a job from the findings that affected it and from its coverage."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import orjson

from streams.detect.detector import JobDomain
from streams.detect.detectors.telemetry_stale import StaleParams
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval
from streams.report.job.footprint import Coverage, JobFootprint, Names, PortCoverage, job_coverage, job_footprint
from streams.report.job.impact import Impact, is_coverage_gap, job_impacts
from streams.report.job.summary import JobSummary, summaries
from streams.report.job.witness import PEERS_NS, CollectiveReport, WitnessReport, collective_reports, witness_reports
from streams.store.clickhouse import QueryClient
from streams.store.queries import job_history
from streams.store.queries.jobs import RailBandwidth, query_allocations, query_stays, rail_bandwidth
from streams.wire import codec
from streams.wire.models import Finding


class Conclusion(Enum):
    """The conclusions: the part of the cluster that affected the job, or that the coverage does not suffice."""

    NETWORK = "network"
    HOST = "host"
    UNKNOWN = "unknown"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict; `stale` has the findings that report missing data."""

    footprint: JobFootprint
    impacts: tuple[Impact, ...]
    stale: tuple[Finding, ...]
    coverage: Coverage
    min_coverage: float
    witness_reports: tuple[WitnessReport, ...] = ()
    summary: JobSummary | None = None
    """The description of the job; None if only older inventories have its allocations."""
    collectives: tuple[CollectiveReport, ...] = ()
    rails: tuple[RailBandwidth, ...] = ()
    """The shares of nominal bandwidth that its rails delivered; the verdict ignores them, as a job may send less."""

    def significant(self, domain: JobDomain) -> list[Impact]:
        """Return the significant impacts of a domain."""
        return [impact for impact in self.impacts if impact.is_significant and impact.domain is domain]

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion. A network finding is evidence with any coverage; its absence needs sufficient coverage."""
        if not self.is_clean:
            return Conclusion.NETWORK
        if not self.is_covered:
            return Conclusion.UNKNOWN
        if self.significant(JobDomain.HOST):
            return Conclusion.HOST
        return Conclusion.UNKNOWN if self.unexplained or self.slow_collectives else Conclusion.CLEAN

    @property
    def unexplained(self) -> list[WitnessReport]:
        """Transport errors of NCCL, if no finding explains any of them."""
        return [] if self._has_finding else [one for one in self.witness_reports if one.is_transport_error]

    @property
    def slow_collectives(self) -> list[CollectiveReport]:
        """Benchmarks that were slow or had wrong results, if no finding explains any of them."""
        return [] if self._has_finding else [one for one in self.collectives if one.is_witness]

    @property
    def _has_finding(self) -> bool:
        return any(impact.is_significant for impact in self.impacts)

    @property
    def is_clean(self) -> bool:
        """True if no significant finding about the network affected the job."""
        return not self.significant(JobDomain.NETWORK)

    @property
    def is_covered(self) -> bool:
        """True if the coverage suffices for a verdict: enough of all ports together, and some of each port."""
        return self.coverage.share >= self.min_coverage and all(port.share > 0 for port in self.coverage.ports)

    def is_of_tenant(self, tenant: str) -> bool:
        """Return whether the job is known to belong to a tenant."""
        return self.summary is not None and self.summary.tenant == tenant

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values; shares from 0 to 1, times in Unix ns."""
        footprint = self.footprint
        return {
            "job": footprint.job, "from_ns": footprint.window[0], "to_ns": footprint.window[1],
            "verdict": self.conclusion.value, "clean": self.is_clean, "covered": self.is_covered,
            "coverage": round(self.coverage.share, 6),
            "hosts": {host: [list(interval) for interval in own] for host, own in footprint.allocations.items()},
            "impacts": [_impact_as_dict(impact) for impact in self.impacts],
            "stale": [orjson.loads(codec.to_json(finding)) for finding in self.stale],
            "ports": [_port_as_dict(port) for port in self.coverage.ports],
            "nccl": [asdict(report) for report in self.witness_reports],
            "collectives": [report.as_dict() for report in self.collectives],
            "rails": [rail._asdict() for rail in self.rails],
            "summary": None if self.summary is None else asdict(self.summary),
        }  # fmt: skip


def _impact_as_dict(impact: Impact) -> dict[str, Any]:
    return {
        "finding": orjson.loads(codec.to_json(impact.finding)), "domain": impact.domain.value,
        "overlap_s": impact.overlap_ns / 1e9, "hosts": list(impact.hosts),
        "children": [_impact_as_dict(child) for child in impact.children],
    }  # fmt: skip


def _port_as_dict(port: PortCoverage) -> dict[str, Any]:
    return {
        "host": port.link.lower, "port": port.link.lower_port, "rail": port.link.rail,
        "coverage": round(port.share, 6), "gaps": [list(gap) for gap in port.gaps],
        "sources": [
            {"source": one.source, "device": one.device, "coverage": round(one.share, 6)} for one in port.sources
        ],
    }  # fmt: skip


def job_verdict(
    client: QueryClient, stale: StaleParams, job: str, requested: Interval, min_coverage: float
) -> Verdict | None:
    """Return the verdict from ClickHouse, clipped to the job's run time; None if the job did not run then."""
    since_ns, until_ns = requested
    allocations = query_allocations(client, since_ns, until_ns, job)
    if not allocations:
        return None
    began, ended = min(one.start_ns for one in allocations), max(one.end_ns for one in allocations)
    window = max(since_ns, began), min(until_ns, ended)
    footprint = job_footprint(client, job, window, allocations)
    near = job_history.findings_near(client, job, footprint.allocations, footprint.devices, footprint.pods, window)
    findings = _with_parents(client, near)
    impacts = job_impacts(footprint, [finding for finding in findings if not is_coverage_gap(finding)])
    gaps = job_impacts(footprint, [finding for finding in findings if is_coverage_gap(finding)])
    names = job_history.port_aliases(client, _ends(footprint))
    coverage = _coverage(client, stale, footprint, names)
    reported = witness_reports(footprint, job_history.nccl_events(client, footprint.allocations, window), names)
    summary = next(iter(summaries(query_stays(client, *window, job))), None)
    return Verdict(
        footprint, impacts, tuple(gap.finding for gap in gaps), coverage, min_coverage, reported, summary,
        _collectives(client, footprint), tuple(rail_bandwidth(client, job, window)),
    )  # fmt: skip


def _collectives(client: QueryClient, footprint: JobFootprint) -> tuple[CollectiveReport, ...]:
    begin_ns, end_ns = footprint.window
    interval = begin_ns - PEERS_NS, end_ns
    results = job_history.collective_results(client, footprint.allocations, begin_ns, interval)
    if not results:
        return ()
    gpus = job_history.benchmark_gpus(client, interval)
    return collective_reports(footprint, results, gpus, job_history.gpus_of_hosts(client, footprint.allocations))


def _with_parents(client: QueryClient, near: list[Finding]) -> list[Finding]:
    """Return the findings and their parents, which may be far from the job."""
    known = {finding.id for finding in near}
    return [*near, *job_history.findings_by_id(client, {f.parent_id for f in near if f.parent_id} - known)]


def _ends(footprint: JobFootprint) -> list[str]:
    """Return the hosts and their switches."""
    return sorted({*footprint.allocations, *(link.upper for link in footprint.host_links)})


def _coverage(client: QueryClient, stale: StaleParams, footprint: JobFootprint, names: Names) -> Coverage:
    window, devices = footprint.window, _ends(footprint)
    readings = list(job_history.source_readings(client, devices, window, stale.cadences, ns(stale.at_least_s)))
    rows = job_history.port_row_counts(client, devices, window)
    return job_coverage(footprint, readings, rows, names)
