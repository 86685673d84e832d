"""Estimates who is affected by a broken link or device, and how much capacity hosts lose.

The loss is computed in fabric/capacity.py alone, over planes and rails: one plane of two lost is degraded, not down.
"""

from collections.abc import Sequence
from typing import NamedTuple

from streams.detect.attribute.outages import Outages
from streams.detect.attribute.severity import jobs_during, link_at
from streams.detect.attribute.sides import fabric_side
from streams.detect.fabric_side import CapacityEffect, Loss
from streams.fabric.capacity import CapacityLoss, Impact, capacity_loss
from streams.fabric.graph import NO_LINKS
from streams.fabric.subject_links import links_of_subject, links_of_subjects
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import BlastRadius, Evidence, Finding

_MIN_NAMED_SHARE = 0.01
"""Hosts and jobs are named that lose this share: one of 64 spines takes 1.6 % from a pod, one of its cables none."""

_MAX_NAMED = 1024
"""Hosts by name, a pod of the largest fabric twice over; `gpus` and the evidence count all of them."""

_CACHE_SIZE = 4096


class CapacityImpact(NamedTuple):
    """The capacity that hosts lose without a subject, given the links that are broken already."""

    hosts: tuple[str, ...]
    gpus: int
    lost_ratio: float
    statement: str

    def blast_radius(self, topology: Topology, finding: Finding, watermark_ns: int) -> BlastRadius:
        """Return the hosts, with those that the detector names, and the jobs that ran on them."""
        named = finding.blast_radius.hosts if finding.blast_radius is not None else ()
        hosts = tuple(sorted({*self.hosts, *named})) if named else self.hosts
        jobs = jobs_during(topology, hosts, finding, watermark_ns)
        gpus = 1 if finding.subject.role == "gpu" else self.gpus
        gpus += sum(topology.devices[host].gpus for host in set(named) - set(self.hosts) if host in topology.devices)
        lost_ratio = self.lost_ratio if fabric_side(finding).capacity is CapacityEffect.COMPUTED else None
        return BlastRadius(hosts[:_MAX_NAMED], jobs, gpus if hosts else None, lost_ratio)

    def evidence(self, finding: Finding) -> tuple[Evidence, ...]:
        """Return the lost capacity as evidence, where a link or device carries nothing; a slow link still carries."""
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
        """Return the impact of a finding and of `others` of its group; None if the inventory has none of the subjects.

        The impact of a single link is what is lost beyond the uplinks of its lower end that were broken already.
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
    """Return the id of what is lost: the link at the finding's port, else the device."""
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
