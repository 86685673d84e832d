"""Who is hit by a broken link or device, and how badly: severities and blast radius.

The table of severities is DETECTION's; what is broken beside, and when, is in outages.py. What hosts lose is computed
in fabric/capacity.py alone, over planes and rails: one plane of two lost is degraded, not down.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from streams.detect.attribute.outages import Outages, span_of
from streams.detect.detectors.link_degrading.evaluate import loses_traffic
from streams.fabric.capacity import CapacityLoss, Impact, capacity_loss
from streams.fabric.graph import NO_LINKS
from streams.fabric.ids import Port
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.subject_links import links_of_subject, links_of_subjects
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import BlastRadius, Cause, Condition, Evidence, Finding, Severity, Subject

_NAMED_FROM = 0.01
"""Hosts and jobs are named that lose this share: one of 64 spines takes 1.6 % from a pod, and a cable of it nothing."""

_NAMED = 1024
"""At most so many hosts by name, a pod of the largest fabric twice over; `gpus` and the evidence count all of them."""

_KEPT = 4096
_TAKES_AWAY = (Condition.LINK_DOWN, Condition.DEVICE_DOWN)
_SAID_BY_ITS_DETECTOR = (Condition.HOST_GPU_FAULT, Condition.LINK_MISCABLED, Condition.FLEET_VERSION_DRIFT)
_NOTHING_LOST = (
    Condition.TELEMETRY_STALE, Condition.HOST_GPU_FAULT, Condition.LINK_MISCABLED, Condition.CONGESTION_INCAST,
    Condition.CONGESTION_IMBALANCE,
)  # fmt: skip


def cable_of(topology: Topology, subject: Subject) -> TopologyLink | None:
    """The link of a subject, under the inventory in effect."""
    return topology.link_at(Port(subject.a.device, subject.a.port)) if subject.a and subject.a.port else None


class SeverityRater:
    """The table of severities over the outages of one moment."""

    def __init__(self, topology: Topology, outages: Outages, floor: float) -> None:
        self.topology = topology
        self._outages = outages
        self.floor = floor
        self.now_ns = 0

    def rate(self, finding: Finding, unseen: bool = False) -> Severity:
        """The worst that a finding was while it was so; `unseen`: a large share of the fabric was silent then."""
        if finding.condition in _SAID_BY_ITS_DETECTOR or finding.severity is Severity.INFO:
            return finding.severity
        return Severity.CRITICAL if self._is_critical(finding, unseen) else Severity.WARNING

    def _is_critical(self, finding: Finding, unseen: bool) -> bool:
        cable = cable_of(self.topology, finding.subject)
        device = finding.subject.a.device if finding.subject.a else ""
        match finding.condition:
            case Condition.LINK_DOWN:
                return cable is not None and not self._keeps(cable.lower.device, {cable.id: cable}, finding)
            case Condition.LINK_FLAP:
                if cable is None or cable.role != HOST_LINK or not self._busy(cable.lower.device, finding):
                    return False
                return not self._keeps(cable.lower.device, {cable.id: cable}, finding)
            case Condition.LINK_DEGRADING:
                on_host = cable is not None and cable.role == HOST_LINK and loses_traffic(finding)
                return on_host and cable is not None and self._busy(cable.lower.device, finding)
            case Condition.RAIL_DEGRADED | Condition.HOST_PCIE_DEGRADED:
                return self._busy(device, finding)
            case Condition.DEVICE_DOWN:
                return finding.resolved_at_ns is None and self._isolates(device, finding)
            case Condition.TELEMETRY_STALE:
                return finding.cause is Cause.COLLECTOR or unseen
            case other:
                return other in (Condition.CONGESTION_PFC_STORM, Condition.CONGESTION_COLLAPSE)

    def _busy(self, host: str, finding: Finding) -> bool:
        """A job ran on it when it began, or while it was so."""
        return bool(jobs_of(self.topology, [host], finding, self.now_ns))

    def _keeps(self, device: str, without: dict[str, TopologyLink], finding: Finding) -> bool:
        """Whether a device keeps what it needs without these of its links upwards, at all times while it was so."""
        begin_ns, end_ns = span_of(finding)
        own = self.topology.uplinks_of.get(device, ())
        if all(cable.role == HOST_LINK for cable in without.values()):
            return all(self._keeps_a_plane(own, gone, without, begin_ns, end_ns) for gone in without.values())
        others = [cable.id for cable in own if cable.id not in without]
        kept = len(others) - self._outages.at_once(device, others, begin_ns, end_ns)
        return kept >= self.floor * len(own)

    def _keeps_a_plane(
        self, own: Sequence[TopologyLink], gone: TopologyLink, without: Collection[str], begin_ns: int, end_ns: int
    ) -> bool:
        """Whether the host always has another plane of that link's rail."""
        others = [
            cable.id
            for cable in own
            if cable.role == HOST_LINK
            and cable.rail == gone.rail
            and cable.plane != gone.plane
            and cable.id not in without
        ]
        return len(others) > self._outages.at_once(gone.lower.device, others, begin_ns, end_ns)

    def _isolates(self, device: str, finding: Finding) -> bool:
        """Whether a dead switch leaves a neighbour below its floor, or a host without a rail."""
        known = self.topology.devices.get(device)
        if known is None or known.kind == "host":
            return False
        below: dict[str, dict[str, TopologyLink]] = {}
        for cable in self.topology.links_of.get(device, ()):
            if cable.upper.device == device:
                below.setdefault(cable.lower.device, {})[cable.id] = cable
        return any(not self._keeps(lower, cables, finding) for lower, cables in below.items())


class HostImpact(NamedTuple):
    """What a thing takes from hosts when it goes: the same whenever it goes, for a state of what is broken beside."""

    hosts: tuple[str, ...]
    gpus: int
    lost: float
    said: str

    def blast_radius(self, topology: Topology, finding: Finding, now_ns: int) -> BlastRadius:
        """With those that its detector names, and the jobs that ran on the hosts when it began or while it was so."""
        victims = finding.blast_radius.hosts if finding.blast_radius is not None else ()
        hosts = tuple(sorted({*self.hosts, *victims})) if victims else self.hosts
        jobs = jobs_of(topology, hosts, finding, now_ns)
        gpus = 1 if finding.subject.role == "gpu" else self.gpus
        gpus += sum(topology.devices[host].gpus for host in set(victims) - set(self.hosts) if host in topology.devices)
        lost = None if finding.condition in _NOTHING_LOST else self.lost
        return BlastRadius(hosts[:_NAMED], jobs, gpus if hosts else None, lost)

    def evidence(self, finding: Finding) -> tuple[Evidence, ...]:
        """What it takes away, where it takes away anything: a link that is slow or flaps still carries."""
        if finding.condition not in _TAKES_AWAY or not self.said:
            return ()
        return (Evidence(self.said, "capacity", finding.subject.a, self.lost, 0.0, "threshold"),)


class BlastRadiusEstimator:
    """What things take away, computed once for each."""

    def __init__(self, topology: Topology, outages: Outages) -> None:
        self._topology = topology
        self._outages = outages
        self._made: dict[tuple[str, ...], HostImpact] = {}

    def estimate(self, finding: Finding, others: Sequence[Finding] = ()) -> HostImpact | None:
        """Of a finding's subject, and of those of `others` that went with it; None where the inventory has none of it.

        Of a link it is what goes beside that which was broken at its end already.
        """
        cable = cable_of(self._topology, finding.subject)
        device = finding.subject.a.device if finding.subject.a else ""
        if finding.condition is Condition.FLEET_VERSION_DRIFT:
            return None  # its subject is many devices, which it names itself
        if cable is None and device not in self._topology.devices:
            return None
        things = tuple(sorted({_thing(self._topology, f) for f in (finding, *others)}))
        beside: tuple[str, ...] = ()
        if cable is not None and not others:
            own = self._topology.uplinks_of.get(cable.lower.device, ())
            at_ns = finding.detected_at_ns or finding.started_at_ns
            beside = tuple(sorted(c.id for c in self._outages.broken(own, at_ns) if c.id != cable.id))
        key = (*things, "beside", *beside)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= _KEPT:
                self._made.clear()
            made = self._made[key] = self._reach(things, beside)
        return made

    def _reach(self, things: Sequence[str], beside: Sequence[str]) -> HostImpact:
        graph = self._topology.graph
        links = (
            links_of_subject(self._topology, things[0])
            if len(things) == 1
            else links_of_subjects(self._topology, things)
        )
        loss = capacity_loss(graph, links, links_of_subjects(self._topology, beside) if beside else NO_LINKS)
        hosts = loss.hosts(_NAMED_FROM)
        gpus = int(graph.gpus[[graph.number[host] for host in hosts]].sum()) if hosts else 0
        return HostImpact(hosts, gpus, loss.affected_ratio, _said(loss))


def _thing(topology: Topology, finding: Finding) -> str:
    """What goes: the link at its port, else the device."""
    cable = cable_of(topology, finding.subject)
    if cable is not None:
        return cable.id
    return f"device:{finding.subject.a.device}" if finding.subject.a else finding.subject.id


def _said(loss: CapacityLoss) -> str:
    """The loss in one sentence."""
    if loss.impact is Impact.NONE:
        return ""
    count = len(loss.host)
    who = loss.hosts()[0] if count == 1 else f"{count} hosts"
    had = "it has" if count == 1 else "they have"
    lost = f"{who} lose{'s' * (count == 1)} {_percent(loss.affected_ratio)} of what {had}"
    if count > 1:
        lost += f", {_percent(loss.fabric_ratio)} of the fabric"
    planes = loss.ratio_by("plane")
    planes.pop(-1, None)
    if planes and len(planes) <= 4:
        lost += f" ({', '.join(f'{_percent(share)} of plane {plane}' for plane, share in sorted(planes.items()))})"
    if loss.impact is Impact.DOWN:
        rails = len(loss.rails_down)
        named = (
            f"rail {loss.lost_rails[0][1]}" if rails == 1 else f"{rails} of {'its' if count == 1 else 'their'} rails"
        )
        return f"{lost}; {named} keep{'s' * (rails == 1)} no plane: down"
    return f"{lost}; every rail keeps a plane: degraded, not down"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g} %".replace(" ", "")


def jobs_of(topology: Topology, hosts: Sequence[str], finding: Finding, now_ns: int) -> tuple[str, ...]:
    """The jobs that ran on any of these hosts when it began or while it was so, which may go on."""
    end_ns = finding.resolved_at_ns
    if end_ns is None:
        end_ns = max(now_ns, finding.detected_at_ns or 0)
    return topology.jobs_between(hosts, finding.started_at_ns, end_ns)
