"""The fabric-wide side of congestion/pfc-storm: the root of many paused links, followed over links and pods.

A link is paused because its pausing device is itself paused elsewhere; where it is not, that port is the root, and the
findings downstream are its children. Where devices pause each other in a cycle, the first of the cycle is the root.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from streams.detect.fabric_side import Cases, FabricSide, always, are_concurrent
from streams.fabric.topology import Topology
from streams.wire.models import BlastRadius, Cause, Condition, Evidence, Finding


def pausing_device(storm: Finding) -> str:
    """Return the device that pauses: that of the storm's first evidence."""
    at = storm.evidence[0].at if storm.evidence else None
    return at.device if at is not None else ""


def paused_device(storm: Finding) -> str:
    """Return the device that is paused: the other end of the link."""
    ends = [end.device for end in (storm.subject.a, storm.subject.z) if end is not None]
    return next((device for device in ends if device != pausing_device(storm)), "")


def root_storm(cases: Cases, storm: Finding) -> Finding | None:
    """Return the storm at the root of this one; None if it is the root."""
    path = [storm]
    while upstream := list(_storms_at(cases, pausing_device(path[-1]), path[-1], is_paused=True)):
        first = min(upstream, key=_order)
        known = next((index for index, other in enumerate(path) if other.id == first.id), None)
        if known is not None:
            root = min(path[known:], key=_order)
            return root if root.id != storm.id else None
        path.append(first)
    return path[-1] if len(path) > 1 else None


def downstream(cases: Cases, storm: Finding) -> list[Finding]:
    """Return the storms that this one causes, and those that they cause."""
    found: dict[str, Finding] = {storm.id: storm}
    pending = [storm]
    while pending:
        one = pending.pop()
        for caused in _storms_at(cases, paused_device(one), one, is_paused=False):
            if caused.id not in found:
                found[caused.id] = caused
                pending.append(caused)
    del found[storm.id]
    return list(found.values())


def _order(storm: Finding) -> tuple[int, str]:
    return storm.started_at_ns, storm.subject.id


def _storms_at(cases: Cases, device: str, storm: Finding, *, is_paused: bool) -> Iterator[Finding]:
    """Yield the concurrent storms in which a device is paused, or in which it pauses."""
    for other in cases.findings_at(device):
        if not is_storm(other) or other.id == storm.id or not are_concurrent(other, storm):
            continue
        end = paused_device(other) if is_paused else pausing_device(other)
        # the two ends of one link that pause each other pause nothing else
        if end == device and other.subject.id != storm.subject.id:
            yield other


def is_storm(finding: Finding) -> bool:
    """Return whether a finding is of this detector."""
    return finding.condition is Condition.CONGESTION_PFC_STORM


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
    evidence = Evidence("; ".join(parts), comparison="peers", at=root.evidence[0].at, peers=len(children))
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


FABRIC = FabricSide(is_critical=always, explain=_explain, affected_by=_affected_by, child_cause=_child_cause)
