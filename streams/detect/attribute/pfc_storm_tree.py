"""Which of many links held by pause is the root: who pauses whom, followed back over links and pods.

A link is held because its pausing device is itself paused elsewhere; where it is not, that port is the root, and all
that hang on it are its children. Where they pause each other in a circle, the first of the circle stands for it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from streams.detect.attribute.state import overlap
from streams.detect.detectors.congestion_pfc_storm.evaluate import paused_of, pauser_of
from streams.fabric.topology import Topology
from streams.wire.models import BlastRadius, Condition, Evidence, Finding

AtDevice = Callable[[str], list[Finding]]


def is_storm(finding: Finding) -> bool:
    """Whether it is one of these."""
    return finding.condition is Condition.CONGESTION_PFC_STORM


def root_storm(at_device: AtDevice, own: Finding) -> Finding | None:
    """The storm that holds this one's pausing device, followed to where nobody does; None where that is this one."""
    path = [own]
    while holders := list(_storms(at_device, pauser_of(path[-1]), path[-1], held=True)):
        first = min(holders, key=_first)
        known = next((place for place, storm in enumerate(path) if storm.id == first.id), None)
        if known is not None:
            root = min(path[known:], key=_first)
            return root if root.id != own.id else None
        path.append(first)
    return path[-1] if len(path) > 1 else None


def downstream(at_device: AtDevice, own: Finding) -> list[Finding]:
    """The storms that this one holds, and those that they hold."""
    found: dict[str, Finding] = {own.id: own}
    waiting = [own]
    while waiting:
        storm = waiting.pop()
        for held in _storms(at_device, paused_of(storm), storm, held=False):
            if held.id not in found:
                found[held.id] = held
                waiting.append(held)
    del found[own.id]
    return list(found.values())


def adds_victims(children: Sequence[Finding]) -> bool:
    """Whether the root is said anew for another child: each time that they have doubled, and in its final revision."""
    return not len(children) & (len(children) - 1)


def _first(storm: Finding) -> tuple[int, str]:
    return storm.started_at_ns, storm.subject.id


def _storms(at_device: AtDevice, device: str, beside: Finding, *, held: bool) -> Iterator[Finding]:
    """Storms at the same time in which a device is paused (`held`) or pauses."""
    for storm in at_device(device):
        if is_storm(storm) and storm.id != beside.id and overlap(storm, beside):
            who = paused_of(storm) if held else pauser_of(storm)
            # the two ends of one link that pause each other hold nobody else
            if who == device and storm.subject.id != beside.subject.id:
                yield storm


def with_victims(topology: Topology, own: Finding, children: Sequence[Finding], radius: BlastRadius | None) -> Finding:
    """A root with all whom it holds: which hosts and jobs, beside who runs where the pause comes from."""
    hosts = sorted({
        device
        for storm in (own, *children)
        if (device := paused_of(storm)) in topology.devices and topology.devices[device].kind == "host"
    })  # fmt: skip
    jobs = topology.jobs_on(hosts, own.started_at_ns)
    source = pauser_of(own)
    culprits = topology.jobs_on([source], own.started_at_ns)
    pods = {pod for storm in (own, *children) if (pod := storm.subject.pod)}
    said = [f"{source} is paused by nobody: the root of {len(children)} more links that are held, in {len(pods)} pods"]
    if culprits:
        said.append(f"job {', '.join(culprits)} runs on it")
    if hosts:
        said.append(f"{len(hosts)} hosts are held" + (f", of job {', '.join(jobs)}" if jobs else ""))
    evidence = Evidence("; ".join(said), comparison="peers", at=own.evidence[0].at, peers=len(children))
    everyone = sorted({*hosts, *(radius.hosts if radius is not None else ())})
    reach = BlastRadius(
        hosts=tuple(everyone),
        jobs=topology.jobs_on(everyone, own.started_at_ns),
        gpus=sum(topology.devices[host].gpus for host in everyone if host in topology.devices),
        capacity_lost_ratio=radius.capacity_lost_ratio if radius is not None else None,
    )
    return replace(own, evidence=(*own.evidence, evidence), blast_radius=reach)
