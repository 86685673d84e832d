"""Summarizes a group in its root finding: how many findings, where, how severe, and what they affect together.

The other findings are children of the root: one page for one cause. So the root is as severe as the worst child.
"""

from collections.abc import Mapping
from dataclasses import replace

from streams.detect.attribute.blast_radius import BlastRadiusEstimator, CapacityImpact
from streams.detect.attribute.grouping import Group, GroupIndex, root_rank
from streams.detect.attribute.severity import SeverityRater
from streams.detect.attribute.sides import fabric_side
from streams.detect.attribute.state import Case
from streams.detect.fabric_side import CapacityEffect, GroupKind
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Evidence, Finding, Severity

_CAUSES = {GroupKind.PLANE: Cause.PLANE, GroupKind.POD: Cause.POD}


def group_severity(
    severities: SeverityRater, cases: Mapping[str, Case], group: Group, impact: CapacityImpact | None
) -> Severity:
    """Return the highest severity of the members that the root explains; others are children of a larger group.

    A pod or plane that is out is CRITICAL if hosts lose more than the floor allows. The share of silent devices is
    rated at the root itself.
    """
    is_location = group.key.kind in (GroupKind.POD, GroupKind.PLANE)
    lost_ratio = impact.lost_ratio if impact is not None and is_location else 0.0
    if group.root.resolved_at_ns is None and lost_ratio > 1 - severities.floor:
        return Severity.CRITICAL
    published = (cases[member.id].published for member in group.members)
    return max(
        (finding.severity for finding in published if finding is not None and finding.parent_id == group.root_id),
        default=Severity.WARNING,
    )


def group_impact(estimator: BlastRadiusEstimator, group: Group) -> CapacityImpact | None:
    """Return the impact of all members; missing data and wrong clocks have none."""
    lost = [one for one in group.members if one.id != group.root_id and _takes_capacity(one)]
    if group.root.resolved_at_ns is None:
        # While the group grows, computed each time that it has doubled, and for all members at its end.
        lost = sorted(lost, key=root_rank)[: (1 << (len(lost) + 1).bit_length() - 1) - 1]
    return estimator.estimate(group.root, lost)


def _takes_capacity(finding: Finding) -> bool:
    return fabric_side(finding).capacity is not CapacityEffect.NONE


def group_finding(topology: Topology, groups: GroupIndex, group: Group) -> Finding:
    """Return the root with the group in its evidence and summary, and with the cause that the group implies."""
    root = group.root
    members = group.members
    first_ns, last_ns = members[0].started_at_ns, members[-1].started_at_ns
    count = len({member.subject.id for member in members})
    total = _total(topology, groups, group)
    statement = f"{_count_statement(group, count, total)} within {(last_ns - first_ns) / 1e9:.3g} s"
    evidence = Evidence(
        f"{statement}; this finding was detected first and represents the group",
        metric="group",
        at=root.subject.a,
        observed=float(count),
        expected=1.0,
        comparison="peers",
        peers=total or count,
        window_start_ns=first_ns,
        window_end_ns=last_ns,
    )
    summary = root.summary if group.key.kind is GroupKind.COLLECTOR else f"{statement}; first: {root.summary}"
    cause = _cause(topology, group) if root.cause is Cause.UNKNOWN else None
    return replace(
        root,
        summary=summary,
        cause=root.cause if cause is None else cause,
        evidence=(*root.evidence, evidence),
    )


def _total(topology: Topology, groups: GroupIndex, group: Group) -> int:
    """Return how many members the group could have; 0 where that is no fixed number."""
    match group.key.kind:
        case GroupKind.LINKS:
            return len(topology.links_of.get(group.key.name, ()))
        case GroupKind.POD | GroupKind.PLANE | GroupKind.CLOCKS:
            return groups.device_count(group.key)
        case GroupKind.FABRIC:
            return len(topology.devices)
        case _:
            return 0


def _count_statement(group: Group, count: int, total: int) -> str:
    of = f" of {total}" if total else ""
    name = group.key.name
    match group.key.kind:
        case GroupKind.LINKS:
            return f"{count}{of} links of {name} went down"
        case GroupKind.POD:
            return f"{count}{of} devices of pod {name} went down or became silent"
        case GroupKind.PLANE:
            return f"{count}{of} switches of plane {name} went down"
        case GroupKind.PATH:
            return f"{count} devices of pod {name} are no longer read by {group.key.source.label}"
        case GroupKind.COLLECTOR:
            return f"{count} devices are no longer read, all by collector {name}"
        case GroupKind.CLOCKS:
            return f"the clocks of {count}{of} devices{f' of site {name}' if name else ''} became wrong"
        case _:
            return f"{count}{of} devices of the fabric are no longer read"


def _cause(topology: Topology, group: Group) -> Cause | None:
    device = topology.devices.get(group.key.name)
    if group.key.kind is GroupKind.LINKS and device is not None and device.kind == "switch":
        return Cause.SWITCH
    return _CAUSES.get(group.key.kind)
