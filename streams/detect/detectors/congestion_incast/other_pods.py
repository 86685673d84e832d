"""Names the senders and the victims of an incast in other pods, from the symptoms that `correlate` forwards.

Senders are hosts of the receiving job on the receiver's rail and plane that CNPs throttle, or that lost packets slow,
at the same time. Victims are hosts of other jobs there that send half of their rate or less, and whose jobs have hosts
in the receiver's pod: only their traffic shares paths with the incast. Those in its own pod are in attribution.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streams.detect.detectors.congestion_incast.attribution import (
    loss_evidence,
    most_losses,
    sender_evidence,
    victim_evidence,
)
from streams.detect.detectors.congestion_incast.params import IncastParams
from streams.detect.detectors.congestion_incast.report import congestion_state
from streams.detect.evidence.congestion_spells import LinkSpells, Spell
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.thresholds import ns
from streams.fabric.ids import Port, port_id
from streams.fabric.intervals import Interval
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    BlastRadius,
    Condition,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Message,
    Status,
    Subject,
    Symptom,
    SymptomsReplaced,
)
from streams.wire.symptoms import CnpThrottledBegan, CongestionState, ThrottledBegan

SlowedBegan = CnpThrottledBegan | ThrottledBegan

_STATES = frozenset(
    {
        CongestionState.CNP_THROTTLED, CongestionState.SLOWED_BY_CNP, CongestionState.SLOWED_BY_LOSS,
        CongestionState.THROTTLED_BY_PAUSE,
    }
)  # fmt: skip

_BATCH_NS = ns(10)
"""Incasts are completed at this interval, as the pods evaluate them: their senders are reported one by one."""


@dataclass(slots=True)
class OtherPodsState:
    """The throttled hosts of jobs in several pods, and the incasts that they may explain."""

    ports: dict[str, LinkSpells[SlowedBegan]] = field(default_factory=dict)
    """By id of the host's port."""
    changed: dict[str, Endpoint] = field(default_factory=dict)
    """Those with symptoms since the last batch."""
    incasts: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By finding id, those that are not final: the id of the receiver's link, and the begin."""
    batch: int = 0
    """The number of the last interval of `_BATCH_NS` that began."""


def add_message(state: OtherPodsState, message: Message) -> None:
    """Add the begin or the end of a throttled state."""
    if not isinstance(message, Symptom | SymptomsReplaced) or congestion_state(message) not in _STATES:
        return
    port = port_id(Port(message.device, message.port))
    known = state.ports.get(port) or LinkSpells(Subject(port))
    spells = known.observe(message)
    if spells is not known:
        state.ports[port] = spells
        state.changed[port] = Endpoint(message.device, message.port)


def add_published(state: OtherPodsState, finding: Finding) -> None:
    """Follow the incasts until they are final."""
    if finding.condition is not Condition.CONGESTION_INCAST:
        return
    if finding.final:
        state.incasts.pop(finding.id, None)
    else:
        state.incasts[finding.id] = finding.subject.id, finding.started_at_ns


def evaluate(*_: object) -> list[Episode]:
    """Return nothing: the incasts themselves are evaluated by pod."""
    return []


def incomplete(
    params: IncastParams, _: SharedSettings, state: OtherPodsState, topology: Topology, watermark_ns: int
) -> list[str]:
    """Return the incasts on a rail and plane on which hosts began or ended to be throttled; prune old spells."""
    last, state.batch = state.batch, watermark_ns // _BATCH_NS
    if state.batch == last or not state.ports:
        return []
    places = {_place(link) for port in state.changed.values() if (link := _link_at(topology, port)) is not None}
    state.changed = {}
    begins_ns = (begin_ns for _, begin_ns in state.incasts.values())
    old_ns = min((watermark_ns - ns(params.remember_s), *begins_ns))
    recent = {port: spells.retain(lambda spell: spell.end_ns >= old_ns) for port, spells in state.ports.items()}
    state.ports = {port: own for port, own in recent.items() if own.spells and _link_of(topology, own) is not None}
    receivers = ((identity, topology.links.get(link)) for identity, (link, _) in state.incasts.items())
    return [identity for identity, link in receivers if link is not None and _place(link) in places]


def _link_of(topology: Topology, known: LinkSpells[SlowedBegan]) -> TopologyLink | None:
    return _link_at(topology, known.spells[0].reporter)


def _link_at(topology: Topology, at: Endpoint) -> TopologyLink | None:
    """Return the link of a host's port; None where the inventory has it no longer."""
    return topology.host_link_at(Port(at.device, at.port))


def _place(link: TopologyLink) -> tuple[int | None, int | None]:
    """Return the rail and the plane: traffic keeps both between pods."""
    return link.rail, link.plane


class _Slowed(NamedTuple):
    """A host in another pod, and its spells during an incast."""

    host: str
    spells: list[Spell[SlowedBegan]]


def complete(state: OtherPodsState, finding: Finding, topology: Topology) -> Finding:
    """Return an incast with its senders and victims in other pods."""
    receiver = topology.links.get(finding.subject.id)
    if receiver is None or finding.status is Status.RETRACTED:
        return finding
    begin_ns = finding.started_at_ns
    span = begin_ns, FOREVER if finding.resolved_at_ns is None else finding.resolved_at_ns
    own = topology.jobs_on([receiver.lower.device], begin_ns)
    away = {
        host
        for job in own
        for host in topology.placement.hosts_of(job, begin_ns)
        if topology.pod_of(host) != receiver.pod
    }
    slowed = list(_slowed(state.ports, topology, receiver, span))
    at = Endpoint(*receiver.lower)
    victims = tuple(sorted(_victims(topology, receiver.pod, begin_ns, (one for one in slowed if one.host not in away))))
    found = (
        *_sender_evidence(at, ", ".join(own), [one for one in slowed if one.host in away], len(away)),
        *victim_evidence(topology, at, span, victims, "in other pods on the same rail"),
    )
    if not found:
        return finding
    radius = finding.blast_radius or BlastRadius()
    if victims:
        radius = replace(radius, hosts=tuple(sorted({*radius.hosts, *victims})))
    return replace(finding, evidence=(*finding.evidence, *found), blast_radius=radius if radius.hosts else None)


def _slowed(
    ports: dict[str, LinkSpells[SlowedBegan]], topology: Topology, receiver: TopologyLink, span: Interval
) -> Iterator[_Slowed]:
    """Yield the hosts of other pods that are throttled on the receiver's rail and plane during a span."""
    for known in ports.values():
        spells = [spell for spell in known.spells if spell.begin_ns <= span[1] and span[0] <= spell.end_ns]
        link = _link_of(topology, known) if spells else None
        if link is not None and link.pod != receiver.pod and _place(link) == _place(receiver):
            yield _Slowed(link.lower.device, spells)


def _sender_evidence(at: Endpoint, job: str, slowed: Iterable[_Slowed], away: int) -> Iterator[Evidence]:
    """Yield the senders among the job's hosts in other pods, of which there are `away`."""
    throttled = {
        one.host: max(cnps)
        for one in slowed
        if (cnps := [s.began.cnp_per_s for s in one.spells if isinstance(s.began, CnpThrottledBegan)])
    }
    losing = {one.host: most for one in slowed if (most := most_losses(one.spells))}
    senders = sorted(throttled.keys() | losing.keys())
    if senders:
        yield sender_evidence("most likely senders in other pods", at, senders, throttled, away)
        yield from loss_evidence(at, losing)
    elif away:
        yield Evidence(f"none of the {away} hosts of job {job} in other pods is throttled on this rail", at=at)


def _victims(topology: Topology, pod: str, at_ns: int, slowed: Iterable[_Slowed]) -> Iterator[str]:
    """Yield the hosts that send far less and run a job that has hosts in a pod as well."""
    in_pod: dict[str, bool] = {}
    for one in slowed:
        if not any(isinstance(spell.began, ThrottledBegan) for spell in one.spells):
            continue
        for job in topology.jobs_on([one.host], at_ns):
            if job not in in_pod:
                in_pod[job] = any(topology.pod_of(host) == pod for host in topology.placement.hosts_of(job, at_ns))
            if in_pod[job]:
                yield one.host
                break
