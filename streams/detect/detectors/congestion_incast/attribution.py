"""Names the senders and the victims of an incast in its pod, if counters and the placement of jobs show them.

A NIC does not count to which host it sends. Senders are hosts of the receiving job that CNPs throttle or lost packets
slow at the same time. If the receiver has no known job, or none of its hosts is slowed, the evidence names no sender.
Victims are hosts of other jobs at the same leaf, or on the same rail and plane at other leaves of the pod, that are
throttled and send far less meanwhile. `attribute` names the hosts in other pods (`OtherPodsState`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streams.detect.evidence.spells import Began, LinkSpells, Spell
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Endpoint, Evidence, Symptom, SymptomsReplaced
from streams.wire.symptoms import CnpThrottledBegan, CongestionEnded, SlowedByLossBegan, ThrottledBegan

_NAMED = 8
"""The most hosts that a sentence names."""


class ConcurrentSpells(NamedTuple):
    """Links of hosts, by subject id, that are throttled in a pod with an incast."""

    cnp_throttled: Mapping[str, LinkSpells[CnpThrottledBegan]]
    slowed: Mapping[str, LinkSpells[ThrottledBegan]]


def attribute_incast(
    topology: Topology, receiver: TopologyLink, span: tuple[int, int], concurrent: ConcurrentSpells
) -> tuple[tuple[str, ...], tuple[Evidence, ...]]:
    """Return the victims of an incast at one link during `span`, and the evidence of its senders and victims."""
    host, pod = receiver.lower.device, receiver.pod
    own = set(topology.jobs_on([host], span[0]))
    others = {other for job in own for other in topology.placement.hosts_of(job, span[0])} - {host}
    throttled = {
        cable.lower.device: max(spell.began.cnp_per_s for spell in spells)
        for cable, spells in _during(topology, concurrent.cnp_throttled.values(), span)
        if cable.rail == receiver.rail and cable.lower.device != host
    }
    losing = {
        cable.lower.device: most
        for cable, spells in _during(topology, concurrent.slowed.values(), span)
        if cable.rail == receiver.rail and (most := most_losses(spells))
    }
    senders = tuple(sorted((throttled.keys() | losing.keys()) & others))
    slowed = [cable for cable, _ in _during(topology, concurrent.slowed.values(), span)]
    near = {cable.lower.device for cable in slowed if cable.upper.device == receiver.upper.device}
    place = receiver.rail, receiver.plane
    far_away = {cable.lower.device for cable in slowed if (cable.rail, cable.plane) == place != (None, None)}
    foreign = (one for one in (near | far_away) - others - {host} if set(topology.jobs_on([one], span[0])) - own)
    victims = tuple(sorted(foreign))
    at_leaf = [victim for victim in victims if victim in near]
    at = Endpoint(*receiver.lower)
    far = sum(topology.pod_of(other) != pod for other in others)
    found = (
        *_sender_evidence(topology, at, span, (own, others, far), throttled, senders),
        *loss_evidence(at, {host: losing[host] for host in senders if host in losing}),
        *victim_evidence(topology, at, span, at_leaf, "at the same leaf"),
        *victim_evidence(
            topology, at, span, [one for one in victims if one not in at_leaf], "at other leaves of the same rail"
        ),
    )
    return victims, found


def most_losses(spells: Iterable[Spell[Any]]) -> int:
    """Return the most lost packets per second that a host retransmitted; 0 if losses do not slow it."""
    return max((s.began.retransmits_per_s for s in spells if isinstance(s.began, SlowedByLossBegan)), default=0)


def _during(
    topology: Topology, links: Iterable[LinkSpells[Began]], span: tuple[int, int]
) -> Iterator[tuple[TopologyLink, list[Spell[Began]]]]:
    """Yield the links with spells during `span`, and those spells."""
    for link in links:
        cable = topology.links.get(link.subject.id)
        spells = [s for s in link.spells if s.begin_ns <= span[1] and span[0] <= s.end_ns]
        if cable is not None and spells:
            yield cable, spells


def _sender_evidence(
    topology: Topology,
    at: Endpoint,
    span: tuple[int, int],
    group: tuple[set[str], set[str], int],
    throttled: Mapping[str, int],
    senders: tuple[str, ...],
) -> Iterator[Evidence]:
    own, others, far = group
    job = ", ".join(sorted(own))
    near = len(others) - far
    if not own:
        seen = f"throttled at the same time on this rail: {_named(throttled)}" if throttled else "no host is throttled"
        yield Evidence(f"no job is known on {at.device}: its senders are not known; {seen}", at=at)
    elif senders:
        yield sender_evidence(f"job {job} receives on {at.device}; most likely senders", at, senders, throttled, near)
    else:
        none = f"none of the {near} in its pod is throttled" if far else "none is throttled"
        yield Evidence(
            f"job {job} receives on {at.device}: the senders are among its {len(others)} other hosts; "
            f"which of them is not known, because {none}",
            at=at, peers=len(others),
        )  # fmt: skip
    if foreign := sorted(throttled.keys() - others) if own else []:
        jobs = ", ".join(topology.jobs_on(foreign, span[0])) or "no job"
        yield Evidence(f"throttled as well, but no senders, because they run {jobs}: {_named(foreign)}", at=at)


def sender_evidence(
    label: str, at: Endpoint, senders: Sequence[str], throttled: Mapping[str, int], compared: int
) -> Evidence:
    """Return evidence of the senders; `throttled` has their congestion notifications per second, if any."""
    most = max((throttled[sender] for sender in senders if sender in throttled), default=0)
    how = f"throttled by up to {most} congestion notifications a second" if most else "slowed by losses"
    return Evidence(
        f"{label}: {_named(senders)}, {how} meanwhile", metric="cnp_handled" if most else "packet_sequence_errors",
        at=at, observed=float(len(senders)), comparison="peers", peers=compared,
    )  # fmt: skip


def loss_evidence(at: Endpoint, losing: Mapping[str, int]) -> Iterator[Evidence]:
    """Yield evidence of the lost packets that senders retransmit, by host; nothing if losses slow none."""
    if losing:
        yield Evidence(
            f"{_named(losing)} repeat up to {max(losing.values())} lost packets a second and send far less meanwhile",
            metric="packet_sequence_errors", at=at, observed=float(max(losing.values())), comparison="threshold",
        )  # fmt: skip


def victim_evidence(
    topology: Topology, at: Endpoint, span: tuple[int, int], victims: Sequence[str], place: str
) -> Iterator[Evidence]:
    """Yield evidence of the victims at a place, with their jobs; nothing if there are none."""
    if victims:
        jobs = ", ".join(topology.jobs_on(victims, span[0]))
        yield Evidence(
            f"victims: {_named(victims)} of job {jobs} {place}, throttled and sending far less meanwhile",
            metric="tx_bytes", at=at, observed=float(len(victims)), comparison="peers",
        )  # fmt: skip


def _named(hosts: Iterable[str]) -> str:
    names = sorted(hosts)
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def concerns_other_pods(
    topology: Topology, observed: Symptom | SymptomsReplaced, before: LinkSpells[Began], after: LinkSpells[Began]
) -> bool:
    """Return whether `attribute` needs an observation that changes the spells of a host's link from `before`."""
    changed = set(before.spells) ^ set(after.spells)
    if not changed:
        return _ends_unknown(observed, before)
    return any(_has_hosts_elsewhere(topology, observed.device, spell.begin_ns) for spell in changed)


def _ends_unknown(observed: Symptom | SymptomsReplaced, known: LinkSpells[Began]) -> bool:
    """Return whether a state ends that began in another pod, whose owner forwarded the start."""
    if not isinstance(observed, Symptom) or not isinstance(observed.payload, CongestionEnded):
        return False
    state, last_ns = observed.payload.state, observed.payload.last_active_ns
    return not any(spell.began.state is state and spell.end_ns >= last_ns for spell in known.spells)


def _has_hosts_elsewhere(topology: Topology, host: str, at_ns: int) -> bool:
    """Return whether a job on a host at a time has hosts in several pods.

    If any jobs are known, a host without a known job counts as running one that will be published later.
    """
    jobs = topology.jobs_on([host], at_ns)
    return any(len(topology.pods_of_job(job)) > 1 for job in jobs) if jobs else bool(topology.jobs)
