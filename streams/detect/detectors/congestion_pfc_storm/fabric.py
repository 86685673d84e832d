"""The fabric-wide side of congestion/pfc-storm: storms downstream are children of the root, which names the victims.

A storm of a switch pages once the root would be known, which may be reported later: see `_is_critical`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streams.detect.fabric_side import Cases, FabricSide, SeverityContext
from streams.detect.pfc_storm_tree import downstream, is_storm, paused_device, pausing_device, root_storm
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology
from streams.wire.models import BlastRadius, Cause, Evidence, Finding


def _explain(storm: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    root = root_storm(cases, storm)
    if root is not None:
        return storm, root
    return _with_victims(cases.topology, storm, downstream(cases, storm)), None


def _affected_by(changed: Finding, cases: Cases) -> Iterable[str]:
    """Yield the storms downstream, and the root each time that its storms have doubled."""
    if not is_storm(changed):
        return
    yield from (storm.id for storm in downstream(cases, changed))
    root = root_storm(cases, changed)
    if root is not None and _is_power_of_two(len(downstream(cases, root))):
        yield root.id


def _is_power_of_two(count: int) -> bool:
    return not count & (count - 1)


def _child_cause(parent: Finding, child: Finding) -> Cause | None:
    return parent.cause if is_storm(child) else None


def _with_victims(topology: Topology, root: Finding, children: Sequence[Finding]) -> Finding:
    """Return a root with the hosts and jobs that it pauses, and the jobs at the origin of the pause."""
    storms = (root, *children)
    paused = {paused_device(storm) for storm in storms}
    hosts = sorted(device for device in paused if (known := topology.devices.get(device)) and known.kind == "host")
    jobs = topology.jobs_on(hosts, root.started_at_ns)
    origin = pausing_device(root)
    origin_jobs = topology.jobs_on([origin], root.started_at_ns)
    pods = {pod for storm in storms if (pod := storm.subject.pod)}
    parts = [f"{origin} is not paused by any device: the root of {len(children)} more paused links in {len(pods)} pods"]
    if origin_jobs:
        parts.append(f"job {', '.join(origin_jobs)} runs on it")
    if hosts:
        parts.append(f"{len(hosts)} hosts are paused" + (f", of job {', '.join(jobs)}" if jobs else ""))
    evidence = Evidence(
        "; ".join(parts), comparison="peers", at=root.evidence[0].at if root.evidence else None, peers=len(children)
    )
    radius = root.blast_radius
    affected = sorted({*hosts, *(radius.hosts if radius is not None else ())})
    return replace(
        root,
        evidence=(*root.evidence, evidence),
        blast_radius=BlastRadius(
            hosts=tuple(affected),
            jobs=topology.jobs_on(affected, root.started_at_ns),
            gpus=sum(topology.devices[host].gpus for host in affected if host in topology.devices),
            capacity_lost_ratio=radius.capacity_lost_ratio if radius is not None else None,
        ),
    )


def _is_critical(storm: Finding, context: SeverityContext) -> bool:
    """Rate a storm CRITICAL: one of a host at once, one of a switch once the root would be known.

    A switch that pauses may be paused by the root, which shows later: its port is polled later, or traffic passed in
    the rest of the interval in which the storm began, unlike at an idle port.
    """
    return context.watermark_ns >= _root_known_ns(None, storm) or context.was_critical(storm)


def _root_known_ns(_params: object, storm: Finding) -> int:
    """Return the watermark at which the root of a storm has been reported; 0 for the storm of a host, which is a root.

    The storm took one interval between two readings to be detected; so does the root from then on. All live sources
    have sent a reading by that watermark.
    """
    origin = storm.evidence[0].at if storm.evidence else None
    if storm.subject.role == HOST_LINK and origin == storm.subject.a:
        return 0
    detected_ns = storm.detected_at_ns or storm.started_at_ns
    return 2 * detected_ns - storm.started_at_ns


FABRIC = FabricSide(
    is_critical=_is_critical,
    severity_due_ns=_root_known_ns,
    explain=_explain,
    affected_by=_affected_by,
    child_cause=_child_cause,
)
