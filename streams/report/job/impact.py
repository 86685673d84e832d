"""What hurt a job: the findings that stood while it ran and touch its hosts, its links or its paths, the worst first.

A finding that only says that something was not seen hurts nobody: it is for what was not seen.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from streams.report.job.footprint import JobFootprint
from streams.report.job.intervals import intersect, merge, overlaps_any, total_length
from streams.wire.models import Condition, Finding, Severity


@dataclass(frozen=True, slots=True)
class Impact:
    """A finding, for how long of the job it stood, which of its hosts it hit, and what it explains."""

    finding: Finding
    overlap_ns: int
    hosts: tuple[str, ...]
    """Of the job; empty where it is on a path of it."""
    children: tuple["Impact", ...] = ()

    @property
    def is_significant(self) -> bool:
        """Whether it speaks against the network: what is INFO is for the record."""
        return self.finding.severity >= Severity.WARNING or any(child.is_significant for child in self.children)


def job_impacts(place: JobFootprint, findings: Iterable[Finding]) -> tuple[Impact, ...]:
    """Those that touch the job, parents before what they explain, by severity, hosts hit and time."""
    all_ = {finding.id: finding for finding in findings}
    found = {id_: harm for id_, finding in all_.items() if (harm := _impact(place, finding)) is not None}
    for parent in [all_[h.finding.parent_id] for h in found.values() if h.finding.parent_id in all_]:
        # What explains a harm is said with it, however far from the job it is.
        found.setdefault(parent.id, Impact(parent, 0, ()))
    children: dict[str, list[Impact]] = {}
    for harm in found.values():
        children.setdefault(harm.finding.parent_id, []).append(harm)

    def whole(harm: Impact, above: frozenset[str]) -> Impact:
        inside = above | {harm.finding.id}
        own = [child for child in children.get(harm.finding.id, ()) if child.finding.id not in inside]
        return replace(harm, children=_sort_by_severity(whole(child, inside) for child in own))

    roots = [h for h in found.values() if h.finding.parent_id not in found]
    return _sort_by_severity(whole(harm, frozenset()) for harm in roots)


def is_coverage_gap(finding: Finding) -> bool:
    """Whether it says only that something was not seen."""
    return finding.condition is Condition.TELEMETRY_STALE


def _sort_by_severity(harm: Iterable[Impact]) -> tuple[Impact, ...]:
    def worst(one: Impact) -> tuple[int, int, int, int, str]:
        severity = max([one.finding.severity, *(child.finding.severity for child in one.children)])
        return -severity, -len(one.hosts), -one.overlap_ns, one.finding.started_at_ns, one.finding.id

    return tuple(sorted(harm, key=worst))


def _impact(place: JobFootprint, finding: Finding) -> Impact | None:
    begin, end = finding.started_at_ns, finding.resolved_at_ns or place.window[1]
    radius = finding.blast_radius
    ends = [end_.device for end_ in (finding.subject.a, finding.subject.z) if end_ is not None]
    named = {*ends, *(radius.hosts if radius else ())}
    hosts = tuple(
        sorted(host for host in named & place.allocations.keys() if overlaps_any(place.allocations[host], begin, end))
    )
    there = merge(span for spans in place.allocations.values() for span in spans)
    if not overlaps_any(there, begin, end):
        return None
    own = radius is not None and place.job in radius.jobs
    if not (own or hosts or _is_on_path(place, finding)):
        return None
    return Impact(finding, total_length(intersect([(begin, max(end, begin))], there)), hosts)


def _is_on_path(place: JobFootprint, finding: Finding) -> bool:
    subject = finding.subject
    if subject.z is not None:
        return subject.id in place.path_links or not place.path_links.isdisjoint(subject.former_ids)
    if subject.a is not None:
        # A port without a known link, or a device: a host of somebody else's is on no path.
        return subject.a.device in place.devices
    kind, _, name = subject.id.partition(":")
    return kind == "pod" and name in place.pods
