"""The fabric-wide side of congestion/collapse: collapses that share a job, and the storm that causes them.

Collapses that share a job and a time are one incident, with the first detected as its root. Where a storm pauses the
pod or the job since before a collapse was detected, the storm's root is the parent of all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streams.detect.fabric_side import Cases, FabricSide, always, are_concurrent, detection_order
from streams.detect.pfc_storm_tree import is_storm, paused_device, pausing_device, root_storm
from streams.fabric.topology import Topology
from streams.wire.models import BlastRadius, Condition, Evidence, Finding

_MAX_NAMED = 1024
"""Hosts by name, as many as any blast radius names."""


def _explain(collapse: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    members = _incident(cases, collapse)
    if (storm := _causing_storm(cases, members)) is not None:
        return collapse, storm
    root = min(members, key=detection_order)
    if root.id != collapse.id:
        return collapse, root
    return (_summarized(collapse, members) if len(members) > 1 else collapse), None


def _affected_by(changed: Finding, cases: Cases) -> Iterable[str]:
    if changed.condition is Condition.CONGESTION_COLLAPSE or is_storm(changed):
        for collapse in cases.findings_of(Condition.CONGESTION_COLLAPSE):
            if collapse.id != changed.id and are_concurrent(collapse, changed):
                yield collapse.id


def _incident(cases: Cases, collapse: Finding) -> list[Finding]:
    """Return the collapses that share a job and a time with this one, directly or through others."""
    found, pending = {collapse.id: collapse}, [collapse]
    while pending:
        one = pending.pop()
        for other in cases.findings_of(Condition.CONGESTION_COLLAPSE):
            is_new = other.id not in found and are_concurrent(one, other)
            if is_new and not _jobs(one).isdisjoint(_jobs(other)):
                found[other.id] = other
                pending.append(other)
    return list(found.values())


def _causing_storm(cases: Cases, members: Sequence[Finding]) -> Finding | None:
    """Return the root of the first storm that pauses one of these pods or jobs since before their detection."""
    roots = [
        root_storm(cases, storm) or storm
        for storm in cases.findings_of(Condition.CONGESTION_PFC_STORM)
        for collapse in members
        if _can_cause(cases.topology, storm, collapse)
    ]
    return min(roots, key=detection_order, default=None)


def _can_cause(topology: Topology, storm: Finding, collapse: Finding) -> bool:
    detected_ns = collapse.detected_at_ns or collapse.started_at_ns
    if not are_concurrent(storm, collapse) or storm.started_at_ns > detected_ns:
        return False
    if storm.subject.pod == collapse.subject.pod:
        return True
    jobs = topology.jobs_on([pausing_device(storm), paused_device(storm)], storm.started_at_ns)
    return not _jobs(collapse).isdisjoint(jobs)


def _jobs(finding: Finding) -> frozenset[str]:
    return frozenset(finding.blast_radius.jobs if finding.blast_radius is not None else ())


def _summarized(root: Finding, members: Iterable[Finding]) -> Finding:
    """Return the root with the pods, hosts and jobs of all members."""
    radii = [member.blast_radius for member in members if member.blast_radius is not None]
    pods = sorted({member.subject.pod for member in members})
    jobs = tuple(sorted({job for radius in radii for job in radius.jobs}))
    hosts = sorted({host for radius in radii for host in radius.hosts})
    named = ", ".join(jobs)
    statement = f"{len(pods)} pods collapsed at the same time ({', '.join(pods[:8])}); job {named} runs on their hosts"
    evidence = Evidence(statement, metric="group", observed=float(len(pods)), comparison="peers", peers=len(pods))
    return replace(
        root,
        summary=f"{len(pods)} pods of job {named} collapsed; first: {root.summary}",
        evidence=(*root.evidence, evidence),
        blast_radius=BlastRadius(tuple(hosts[:_MAX_NAMED]), jobs, sum(radius.gpus or 0 for radius in radii)),
    )


FABRIC = FabricSide(explained_by_outages=False, is_critical=always, explain=_explain, affected_by=_affected_by)
