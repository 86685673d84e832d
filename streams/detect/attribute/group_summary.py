"""What the first of many says of all that began together: how many, where, how badly, and what they take away.

It stands for the others, which are its children: one page for one cause. So it is as severe as the worst of them.
"""

from collections.abc import Mapping
from dataclasses import replace

from streams.detect.attribute.blast_radius import BlastRadiusEstimator, HostImpact, SeverityRater
from streams.detect.attribute.case_index import CaseIndex, Group, root_rank
from streams.detect.attribute.state import Case
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Evidence, Finding, Severity

_CAUSES = {"plane": Cause.PLANE, "pod": Cause.POD}


def group_severity(
    severities: SeverityRater, cases: Mapping[str, Case], group: Group, reach: HostImpact | None
) -> Severity:
    """The worst of its members'; and of a pod or a plane that is gone, whether hosts keep their floor without it.

    What only a share of the fabric unseen makes bad is said by the root itself.
    """
    lost = reach.lost if reach is not None and group.key[0] in ("pod", "plane") else 0.0
    if group.root.resolved_at_ns is None and lost > 1 - severities.floor:
        return Severity.CRITICAL
    said = (cases[member.id].published for member in group.members if member.id != group.root.id)
    return max((finding.severity for finding in said if finding is not None), default=Severity.WARNING)


def group_impact(reaches: BlastRadiusEstimator, group: Group) -> HostImpact | None:
    """What goes with all of them; what is only silent goes nowhere."""
    gone = [f for f in group.members if f.condition is not Condition.TELEMETRY_STALE and f.id != group.root.id]
    if group.root.resolved_at_ns is None:
        # While it grows it is computed anew each time that it has doubled, and for all of them at its end.
        gone = sorted(gone, key=root_rank)[: (1 << (len(gone) + 1).bit_length() - 1) - 1]
    return reaches.estimate(group.root, gone)


def group_finding(topology: Topology, cases: CaseIndex, group: Group) -> Finding:
    """The root with a sentence on its group, and the cause where the group tells it."""
    own, count = group.root, len({f.subject.id for f in group.members})
    span_s = (max(f.started_at_ns for f in group.members) - min(f.started_at_ns for f in group.members)) / 1e9
    kind, name = group.key[0], group.key[1] if len(group.key) > 1 else ""
    known = topology.devices.get(name)
    whole = {
        "links": len(topology.links_of.get(name, ())),
        "pod": cases.device_count(group.key),
        "plane": cases.device_count(group.key),
        "unseen": len(topology.devices),
    }
    of = f" of {whole[kind]}" if whole.get(kind) else ""
    who = {
        "links": f"{count}{of} links of {name} went down",
        "pod": f"{count}{of} devices of pod {name} went away or fell silent",
        "plane": f"{count}{of} switches of plane {name} went away",
        "path": f"{count} devices of pod {name} are not read by {group.key[-1]} any more",
        "unseen": f"{count}{of} devices of the fabric are not read any more",
        "collector": f"{count} devices are not read any more, all by collector {name}",
    }[kind]
    evidence = Evidence(
        f"{who} within {span_s:.3g} s; this one was the first to be told, and stands for all",
        metric="together",
        at=own.subject.a,
        observed=float(count),
        expected=1.0,
        comparison="peers",
        peers=whole.get(kind) or count,
        window_start_ns=min(f.started_at_ns for f in group.members),
        window_end_ns=max(f.started_at_ns for f in group.members),
    )
    cause = _CAUSES.get(kind)
    if kind == "links" and known is not None and known.kind == "switch":
        cause = Cause.SWITCH
    summary = own.summary if kind == "collector" else f"{who} within {span_s:.3g} s; first: {own.summary}"
    cause = cause if cause and own.cause is Cause.UNKNOWN else own.cause
    return replace(own, summary=summary, cause=cause, evidence=(*own.evidence, evidence))
