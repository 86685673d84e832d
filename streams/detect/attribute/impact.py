"""Estimates the hosts and jobs that a broken link or device affects, and the capacity that hosts lose.

fabric/capacity.py computes the loss over planes and rails: with one plane of two lost, a host is degraded, not down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from streams.detect.attribute.grouping import Group, GroupIndex, root_rank
from streams.detect.attribute.outages import Outages, jobs_during, link_at
from streams.detect.attribute.sides import fabric_side
from streams.detect.attribute.state import Case
from streams.detect.evidence.episodes import evidence_of
from streams.detect.fabric_side import CapacityEffect, GroupKind, Loss
from streams.fabric.capacity import CapacityLoss, Impact, capacity_loss
from streams.fabric.graph import NO_LINKS
from streams.fabric.topology import Topology, TopologyLink, links_of_subject, links_of_subjects
from streams.wire.models import BlastRadius, Cause, Evidence, Finding, Severity

_MIN_NAMED_SHARE = 0.01
"""Hosts and jobs that lose at least this share are named: one of 64 spines costs a pod 1.6 %, one of its links less."""

_MAX_NAMED = 1024
"""The most named hosts: two pods of the largest fabric; `gpus` and the evidence count all hosts."""

_CACHE_SIZE = 4096


class CapacityImpact(NamedTuple):
    """The capacity that hosts lose without a subject, given the links that are already broken."""

    hosts: tuple[str, ...]
    gpus: int
    lost_ratio: float
    statement: str

    def blast_radius(self, topology: Topology, finding: Finding, watermark_ns: int) -> BlastRadius:
        """Return the affected hosts, including those that the detector names, and the jobs that ran on them."""
        named = finding.blast_radius.hosts if finding.blast_radius is not None else ()
        hosts = tuple(sorted({*self.hosts, *named})) if named else self.hosts
        jobs = jobs_during(topology, hosts, finding, watermark_ns)
        gpus = 1 if finding.subject.role == "gpu" else self.gpus
        gpus += sum(topology.devices[host].gpus for host in set(named) - set(self.hosts) if host in topology.devices)
        lost_ratio = self.lost_ratio if fabric_side(finding).capacity is CapacityEffect.COMPUTED else None
        return BlastRadius(hosts[:_MAX_NAMED], jobs, gpus if hosts else None, lost_ratio)

    def evidence(self, finding: Finding) -> tuple[Evidence, ...]:
        """Return the lost capacity as evidence if a link or device carries nothing; a slow link still carries."""
        if fabric_side(finding).loss not in (Loss.LINK, Loss.DEVICE) or not self.statement:
            return ()
        return (Evidence(self.statement, "capacity", finding.subject.a, self.lost_ratio, 0.0, "threshold"),)


class BlastRadiusEstimator:
    """Computes the impact of subjects, once for each."""

    def __init__(self, topology: Topology, outages: Outages) -> None:
        self._topology = topology
        self._outages = outages
        self._cache: dict[tuple[tuple[str, ...], tuple[str, ...]], CapacityImpact] = {}

    def estimate(self, finding: Finding, others: Sequence[Finding] = ()) -> CapacityImpact | None:
        """Return the impact of a finding and of `others` in its group; None if the inventory has none of the subjects.

        The impact of a single link excludes the loss from uplinks of its lower end that were already broken.
        """
        if fabric_side(finding).capacity is CapacityEffect.BY_DETECTOR:
            return None
        link = link_at(self._topology, finding.subject)
        device = finding.subject.a.device if finding.subject.a else ""
        if link is None and device not in self._topology.devices:
            return None
        subjects = tuple(sorted({_lost_subject(self._topology, one) for one in (finding, *others)}))
        broken = self._broken_uplinks(link, finding) if link is not None and not others else ()
        impact = self._cache.get((subjects, broken))
        if impact is None:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            impact = self._cache[subjects, broken] = self._compute(subjects, broken)
        return impact

    def _broken_uplinks(self, link: TopologyLink, finding: Finding) -> tuple[str, ...]:
        uplinks = self._topology.uplinks_of.get(link.lower.device, ())
        at_ns = finding.detected_at_ns or finding.started_at_ns
        return tuple(sorted(other.id for other in self._outages.broken_at(uplinks, at_ns) if other.id != link.id))

    def _compute(self, subjects: Sequence[str], broken: Sequence[str]) -> CapacityImpact:
        graph = self._topology.graph
        if len(subjects) == 1:
            links = links_of_subject(self._topology, subjects[0])
        else:
            links = links_of_subjects(self._topology, subjects)
        loss = capacity_loss(graph, links, links_of_subjects(self._topology, broken) if broken else NO_LINKS)
        hosts = loss.hosts(_MIN_NAMED_SHARE)
        gpus = int(graph.gpus[[graph.number[host] for host in hosts]].sum()) if hosts else 0
        return CapacityImpact(hosts, gpus, loss.affected_ratio, _statement(loss))


def _lost_subject(topology: Topology, finding: Finding) -> str:
    """Return the id of the lost subject: the link at the finding's port, else the device."""
    link = link_at(topology, finding.subject)
    if link is not None:
        return link.id
    return f"device:{finding.subject.a.device}" if finding.subject.a else finding.subject.id


def _statement(loss: CapacityLoss) -> str:
    """Return the loss in one sentence."""
    if loss.impact is Impact.NONE:
        return ""
    count = len(loss.host)
    is_one = count == 1
    who = loss.hosts()[0] if is_one else f"{count} hosts"
    lost = f"{who} lose{'s' * is_one} {_percent(loss.affected_ratio)} of what {'it has' if is_one else 'they have'}"
    if not is_one:
        lost += f", {_percent(loss.fabric_ratio)} of the fabric"
    planes = loss.ratio_by("plane")
    planes.pop(-1, None)
    if planes and len(planes) <= 4:
        lost += f" ({', '.join(f'{_percent(share)} of plane {plane}' for plane, share in sorted(planes.items()))})"
    if loss.impact is Impact.DOWN:
        rails = len(loss.rails_down)
        named = f"rail {loss.lost_rails[0][1]}" if rails == 1 else f"{rails} of {'its' if is_one else 'their'} rails"
        return f"{lost}; {named} keep{'s' * (rails == 1)} no plane: down"
    return f"{lost}; every rail keeps a plane: degraded, not down"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g} %".replace(" ", "")


_CAUSE_OF_PART = {
    "cage": Cause.OPTIC, "module": Cause.OPTIC, "laser": Cause.OPTIC, "engine": Cause.OPTIC, "trunk": Cause.CABLE,
    "line-card": Cause.DEVICE, "feed": Cause.DEVICE,
}  # fmt: skip
_CAUSES = {GroupKind.PLANE: Cause.PLANE, GroupKind.POD: Cause.POD}


def takes_more_than_the_floor(floor: float, group: Group, impact: CapacityImpact | None) -> bool:
    """Return whether the outage of a pod or a plane is CRITICAL: hosts lose more than the floor allows."""
    is_location = group.key.kind in (GroupKind.POD, GroupKind.PLANE) and group.root.resolved_at_ns is None
    return is_location and impact is not None and impact.lost_ratio > 1 - floor


def severity_of_children(cases: Mapping[str, Case], root_id: str, members: Iterable[Finding]) -> Severity:
    """Return the highest severity of the children among the members, at least WARNING; a child does not page."""
    published = (cases[member.id].published for member in members)
    return max(
        (finding.severity for finding in published if finding is not None and finding.parent_id == root_id),
        default=Severity.WARNING,
    )


def group_impact(estimator: BlastRadiusEstimator, group: Group) -> CapacityImpact | None:
    """Return the impact of all members; missing data and wrong clocks have none."""
    takers = (one for one in group.members if fabric_side(one).capacity is not CapacityEffect.NONE)
    lost = [one for one in takers if one.id != group.root_id]
    if group.root.resolved_at_ns is None:
        # While the group grows, compute it whenever the size has doubled, and for all members at the end.
        lost = sorted(lost, key=root_rank)[: (1 << (len(lost) + 1).bit_length() - 1) - 1]
    return estimator.estimate(group.root, lost)


def group_finding(topology: Topology, groups: GroupIndex, group: Group) -> Finding:
    """Return the root with the group in its evidence and summary, and with the cause that the group implies."""
    root = group.root
    members = group.members
    first_ns, last_ns = members[0].started_at_ns, members[-1].started_at_ns
    count = len({member.subject.id for member in members})
    total = _total(topology, groups, group)
    statement = f"{_count_statement(topology, group, count, total)} within {(last_ns - first_ns) / 1e9:.3g} s"
    evidence = evidence_of(
        f"{statement}; this finding was detected first and represents the group", "group", root.subject.a,
        (first_ns, last_ns), float(count), 1.0, "peers", total or count,
    )  # fmt: skip
    summary = root.summary if group.key.kind is GroupKind.COLLECTOR else f"{statement}; first: {root.summary}"
    cause = _group_cause(topology, group) if root.cause is Cause.UNKNOWN else None
    return replace(
        root, summary=summary, cause=root.cause if cause is None else cause, evidence=(*root.evidence, evidence)
    )


def _total(topology: Topology, groups: GroupIndex, group: Group) -> int:
    """Return the largest possible number of members of the group; 0 if there is no fixed number."""
    if group.key.kind is GroupKind.LINKS:
        return topology.links_of.count(group.key.name)
    if group.key.kind is GroupKind.PART:
        return len(topology.links_of_part.get(group.key.name, ()))
    return len(topology.devices) if group.key.kind is GroupKind.FABRIC else groups.device_count(group.key)


def _count_statement(topology: Topology, group: Group, count: int, total: int) -> str:
    (_, name, source, _), of = group.key, f"{count} of {total}" if total else f"{count}"
    if group.key.kind is GroupKind.PART:
        return f"{of} links of {topology.parts[name].label} failed together"
    return {
        GroupKind.LINKS: f"{of} links of {name} went down",
        GroupKind.BOARD: f"{of} rails and GPUs' NVLinks of {name} failed",
        GroupKind.POD: f"{of} devices of pod {name} went down or became silent",
        GroupKind.PLANE: f"{of} switches of plane {name} went down",
        GroupKind.PATH: f"{of} devices of pod {name} are no longer read by {source.label}",
        GroupKind.COLLECTOR: f"{of} devices are no longer read, all by collector {name}",
        GroupKind.CLOCKS: f"the clocks of {of} devices{f' of site {name}' if name else ''} became wrong",
        GroupKind.FABRIC: f"{of} devices of the fabric are no longer read",
    }[group.key.kind]


def _group_cause(topology: Topology, group: Group) -> Cause | None:
    if group.key.kind is GroupKind.PART:
        return _CAUSE_OF_PART[topology.parts[group.key.name].kind]
    device = topology.devices.get(group.key.name)
    if group.key.kind is GroupKind.LINKS and device is not None and device.kind == "switch":
        return Cause.SWITCH
    return _CAUSES.get(group.key.kind)
