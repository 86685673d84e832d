"""Selects the findings that affected a job: open while it ran, at its hosts, links or paths; worst first.

A finding that only reports missing data belongs to the coverage. A fault of a host can stop a job too, but only a fault
of the network makes the network of the job unclean.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from streams.detect.detector import JobDomain
from streams.detect.detectors import DETECTORS
from streams.detect.fabric_side import devices_of
from streams.fabric.intervals import intersect, merge_intervals, overlaps_any, total_length
from streams.report.job.footprint import JobFootprint
from streams.wire.models import Cause, Condition, Finding, Severity

HOST_CONDITIONS = frozenset(one.condition for one in DETECTORS if one.job_domain is JobDomain.HOST)
NEUTRAL_CONDITIONS = frozenset(one.condition for one in DETECTORS if one.job_domain is JobDomain.NEITHER)
"""Conditions of the observation and of versions, which stop no traffic."""
HOST_CAUSES = frozenset(
    {
        Cause.HOST, Cause.PCIE, Cause.PCIE_WIDTH, Cause.PCIE_SPEED, Cause.GPU, Cause.GPU_MEMORY, Cause.GPU_OFF_BUS,
        Cause.NVLINK, Cause.POWER,
    }
)  # fmt: skip
"""Causes within a host, also of a slow rail. The congestion that they cause is a network fault for the other jobs."""


def domain_of(finding: Finding) -> JobDomain:
    """Return the domain of a finding by its detector and its cause."""
    condition = finding.condition
    if condition in NEUTRAL_CONDITIONS:
        return JobDomain.NEITHER
    is_host_down = condition is Condition.DEVICE_DOWN and finding.subject.role == "host"
    is_within_host = finding.cause in HOST_CAUSES and not condition.is_congestion
    return JobDomain.HOST if condition in HOST_CONDITIONS or is_host_down or is_within_host else JobDomain.NETWORK


@dataclass(frozen=True, slots=True)
class Impact:
    """A finding with its overlap with the job, the job's affected hosts, and its child findings."""

    finding: Finding
    overlap_ns: int
    hosts: tuple[str, ...]
    """The affected hosts of the job; empty for a finding on one of its paths."""
    children: tuple["Impact", ...] = ()

    @property
    def is_significant(self) -> bool:
        """True if it may have slowed or stopped the job; INFO is only listed."""
        return self.finding.severity >= Severity.WARNING or any(child.is_significant for child in self.children)

    @property
    def domain(self) -> JobDomain:
        """The domain of the root finding; for a neutral root, the domain of its children."""
        if (own := domain_of(self.finding)) is not JobDomain.NEITHER:
            return own
        below = {child.domain for child in self.children if child.is_significant}
        return next((domain for domain in (JobDomain.NETWORK, JobDomain.HOST) if domain in below), JobDomain.NEITHER)


def job_impacts(footprint: JobFootprint, findings: Iterable[Finding]) -> tuple[Impact, ...]:
    """Return the findings that affected the job, children below their parents, by severity, hosts and duration."""
    by_id = {finding.id: finding for finding in findings}
    found = {id_: impact for id_, finding in by_id.items() if (impact := _impact(footprint, finding)) is not None}
    for parent in [by_id[i.finding.parent_id] for i in found.values() if i.finding.parent_id in by_id]:
        # The parent of an impact is listed with it, even if it is far from the job.
        found.setdefault(parent.id, Impact(parent, 0, ()))
    children: dict[str, list[Impact]] = {}
    for impact in found.values():
        children.setdefault(impact.finding.parent_id, []).append(impact)

    def with_children(impact: Impact, above: frozenset[str]) -> Impact:
        path = above | {impact.finding.id}
        below = [child for child in children.get(impact.finding.id, ()) if child.finding.id not in path]
        return replace(impact, children=_sort_by_severity(with_children(child, path) for child in below))

    roots = [impact for impact in found.values() if impact.finding.parent_id not in found]
    return _sort_by_severity(with_children(impact, frozenset()) for impact in roots)


def is_coverage_gap(finding: Finding) -> bool:
    """Return whether the finding only reports missing data."""
    return finding.condition is Condition.TELEMETRY_STALE


def _sort_by_severity(impacts: Iterable[Impact]) -> tuple[Impact, ...]:
    def rank(impact: Impact) -> tuple[int, int, int, int, str]:
        finding = impact.finding
        severity = max([finding.severity, *(child.finding.severity for child in impact.children)])
        return -severity, -len(impact.hosts), -impact.overlap_ns, finding.started_at_ns, finding.id

    return tuple(sorted(impacts, key=rank))


def _impact(footprint: JobFootprint, finding: Finding) -> Impact | None:
    begin, end = finding.started_at_ns, finding.resolved_at_ns or footprint.window[1]
    # A finding without a duration still occurs at one time.
    occurred = begin, max(end, begin + 1)
    radius = finding.blast_radius
    affected = {*devices_of(finding), *(radius.hosts if radius else ())} & footprint.allocations.keys()
    hosts = tuple(sorted(host for host in affected if overlaps_any(footprint.allocations[host], occurred)))
    allocated = merge_intervals(interval for intervals in footprint.allocations.values() for interval in intervals)
    if not overlaps_any(allocated, occurred):
        return None
    is_named = radius is not None and footprint.job in radius.jobs
    if not (is_named or hosts or _is_on_path(footprint, finding)):
        return None
    return Impact(finding, total_length(intersect([(begin, max(end, begin))], allocated)), hosts)


def _is_on_path(footprint: JobFootprint, finding: Finding) -> bool:
    subject = finding.subject
    if subject.z is not None:
        return subject.id in footprint.path_links or not footprint.path_links.isdisjoint(subject.former_ids)
    if subject.a is not None:
        # A port without a known link, or a device; hosts of other jobs are on no path.
        return subject.a.device in footprint.devices
    return subject.is_pod and subject.pod in footprint.pods
