"""Who is hit by a broken link or device, and how badly: severities and blast radius from the topology alone.

The table of severities is DETECTION's; a set of broken links says what else is missing at that moment.
"""

from collections.abc import Collection
from dataclasses import replace

from streams.detect.link_degrading import loses_traffic
from streams.fabric.ids import Port
from streams.fabric.topology import Cable, Topology
from streams.wire.models import BlastRadius, Condition, Finding, Severity, Subject

HOST_LINK = "host-link"


def cable_of(topology: Topology, subject: Subject) -> Cable | None:
    """The link of a subject, under the inventory in effect."""
    return topology.cable_at(Port(subject.a.device, subject.a.port)) if subject.a and subject.a.port else None


def keeps_another_plane(topology: Topology, cable: Cable, broken: Collection[str]) -> bool:
    """Whether the host still has another plane of that rail."""
    return any(
        other.rail == cable.rail and other.plane != cable.plane and other.id != cable.id and other.id not in broken
        for other in topology.uplinks_of.get(cable.lower.device, ())
        if other.role == HOST_LINK
    )


def paths_kept(topology: Topology, device: str, broken: Collection[str]) -> float:
    """The share of its paths upwards that a device still has; 1 where it has none by design."""
    uplinks = topology.uplinks_of.get(device, ())
    return sum(cable.id not in broken for cable in uplinks) / len(uplinks) if uplinks else 1.0


def severity(topology: Topology, finding: Finding, broken: frozenset[str], floor: float, unseen: bool) -> Severity:
    """The severity of a finding, given which links are broken and the share of the fabric that is unseen."""
    cable = cable_of(topology, finding.subject)
    critical = False
    if finding.condition is Condition.LINK_DOWN and cable is not None:
        critical = not _keeps(topology, cable, broken | {cable.id}, floor)
    elif finding.condition is Condition.LINK_FLAP and cable is not None and cable.role == HOST_LINK:
        busy = bool(topology.jobs_on([cable.lower.device], finding.started_at_ns))
        critical = busy and not keeps_another_plane(topology, cable, broken)
    elif finding.condition is Condition.LINK_DEGRADING:
        if finding.severity is Severity.INFO:
            return Severity.INFO
        on_host = cable is not None and cable.role == HOST_LINK and loses_traffic(finding)
        critical = on_host and bool(topology.jobs_on([cable.lower.device], finding.started_at_ns)) if cable else False
    elif finding.condition is Condition.HOST_GPU_FAULT:
        return finding.severity
    elif finding.condition in (Condition.RAIL_DEGRADED, Condition.HOST_PCIE_DEGRADED):
        critical = (
            bool(topology.jobs_on([finding.subject.a.device], finding.started_at_ns)) if finding.subject.a else False
        )
    elif finding.condition is Condition.CONGESTION_PFC_STORM:
        critical = True
    elif finding.condition is Condition.DEVICE_DOWN:
        critical = finding.resolved_at_ns is None and _isolates(topology, finding, broken, floor)
    elif finding.condition is Condition.TELEMETRY_STALE:
        critical = finding.cause == "collector" or unseen
    return Severity.CRITICAL if critical else Severity.WARNING


def _keeps(topology: Topology, cable: Cable, broken: Collection[str], floor: float) -> bool:
    """Whether who hangs on this link's lower end still has what it needs without it."""
    if cable.role == HOST_LINK:
        return keeps_another_plane(topology, cable, broken)
    return paths_kept(topology, cable.lower.device, broken) >= floor


def _isolates(topology: Topology, finding: Finding, broken: Collection[str], floor: float) -> bool:
    """Whether a dead switch leaves a neighbour below its floor, or a host without a rail."""
    device = finding.subject.a.device if finding.subject.a else ""
    known = topology.devices.get(device)
    if known is None or known.kind == "host":
        return False
    cables = topology.cables_of.get(device, ())
    without = set(broken) | {cable.id for cable in cables}
    return any(not _keeps(topology, cable, without, floor) for cable in cables if cable.upper.device == device)


def blast_radius(topology: Topology, finding: Finding) -> BlastRadius | None:
    """Hosts, jobs and GPUs behind the subject; None where the inventory does not know it.

    Of a link between switches, and of a switch, these are the hosts at the lower switch; above the leaves nobody is
    cut off by one failure, so that no hosts are named there.
    """
    cable = cable_of(topology, finding.subject)
    device = finding.subject.a.device if finding.subject.a else ""
    if cable is None and device not in topology.devices:
        return None
    at = cable.lower.device if cable is not None else device
    hosts = [at] if topology.devices[at].kind == "host" else _hosts_below(topology, at)
    lost = _capacity_lost(topology, cable, at)
    radius = BlastRadius(
        hosts=tuple(sorted(hosts)), jobs=topology.jobs_on(hosts, finding.started_at_ns), capacity_lost_ratio=lost
    )
    if finding.subject.role == "gpu":
        return replace(radius, gpus=1)
    return replace(radius, gpus=sum(topology.devices[host].gpus for host in hosts)) if hosts else radius


def _hosts_below(topology: Topology, switch: str) -> list[str]:
    return sorted(
        {c.lower.device for c in topology.cables_of.get(switch, ()) if c.role == HOST_LINK and c.upper.device == switch}
    )


def _capacity_lost(topology: Topology, cable: Cable | None, device: str) -> float | None:
    if cable is not None:
        return 1 / len(topology.uplinks_of[device])
    hosts = _hosts_below(topology, device)
    links = [c for host in hosts for c in topology.uplinks_of[host]]
    return sum(c.upper.device == device for c in links) / len(links) if links else None
