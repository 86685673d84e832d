"""Who sends to a crowded port, and whose traffic waits for it, as far as counters and the placement of jobs say.

A NIC does not count to whom it sends. Senders are hosts of the receiving job that the fabric slows at the same time;
where no job is known there, or none of it is seen to be slowed, that is said and nobody is named for it. Victims are
hosts of other jobs at the same leaf that are paused and send far less meanwhile.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from streams.detect.evidence.congestion_spells import Began, LinkSpells, Spell
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Endpoint, Evidence
from streams.wire.symptoms import CnpThrottledBegan, ThrottledByPauseBegan

_NAMED = 8

Slowed = Mapping[str, LinkSpells[CnpThrottledBegan]]
Stifled = Mapping[str, LinkSpells[ThrottledByPauseBegan]]
"""Subject id -> what is known of a host's link."""


class ConcurrentSpells(NamedTuple):
    """What else goes on in a pod that has a crowded port: links that are slowed, and that are stifled."""

    cnp_throttled: Slowed
    pause_throttled: Stifled


NO_CONCURRENT = ConcurrentSpells({}, {})


class IncastCause(NamedTuple):
    """Names for the finding, and what it says about them."""

    senders: tuple[str, ...]
    victims: tuple[str, ...]
    evidence: tuple[Evidence, ...]


def attribute_incast(
    topology: Topology, receiver: TopologyLink, span: tuple[int, int], beside: ConcurrentSpells
) -> IncastCause:
    """Of one crowded link in a time."""
    host, pod = receiver.lower.device, receiver.pod
    own = set(topology.jobs_on([host], span[0]))
    others = {other for job in own for other in topology.placement.hosts_of(job, span[0])} - {host}
    slowed = {
        cable.lower.device: max(spell.began.cnp_per_s for spell in spells)
        for cable, spells in _during(topology, beside.cnp_throttled.values(), span)
        if cable.rail == receiver.rail and cable.lower.device != host
    }
    senders = tuple(sorted(slowed.keys() & others))
    near = {
        cable.lower.device
        for cable, _ in _during(topology, beside.pause_throttled.values(), span)
        if cable.upper.device == receiver.upper.device
    }
    victims = tuple(sorted(v for v in near - others - {host} if set(topology.jobs_on([v], span[0])) - own))
    at = Endpoint(*receiver.lower)
    far = sum(topology.pod_of(other) != pod for other in others)
    return IncastCause(senders, victims, tuple(_said(topology, at, span, (own, others, far), slowed, senders, victims)))


def _during(
    topology: Topology, links: Iterable[LinkSpells[Began]], span: tuple[int, int]
) -> Iterator[tuple[TopologyLink, list[Spell[Began]]]]:
    """The links of which this was so at any time of a span, with the spells of then."""
    for link in links:
        cable = topology.links.get(link.subject.id)
        spells = [s for s in link.spells if s.begin_ns <= span[1] and span[0] <= s.end_ns]
        if cable is not None and spells:
            yield cable, spells


def _said(
    topology: Topology,
    at: Endpoint,
    span: tuple[int, int],
    group: tuple[set[str], set[str], int],
    slowed: Mapping[str, int],
    senders: tuple[str, ...],
    victims: tuple[str, ...],
) -> Iterator[Evidence]:
    own, others, far = group
    job = ", ".join(sorted(own))
    away = f"; {far} more are in other pods and not compared" if far else ""
    if not own:
        seen = f"slowed at the same time on this rail: {_named(slowed)}" if slowed else "nobody is seen to be slowed"
        yield Evidence(f"no job is known on {at.device}: who sends to it is not known; {seen}", at=at)
    elif senders:
        most = max(slowed[sender] for sender in senders)
        yield Evidence(
            f"job {job} receives on {at.device}; senders, most likely: {_named(senders)}, "
            f"which are told to slow down up to {most} times a second meanwhile{away}",
            metric="cnp_handled", at=at, observed=float(len(senders)), comparison="peers", peers=len(others) - far,
        )  # fmt: skip
    else:
        yield Evidence(
            f"job {job} receives on {at.device}: who sends to it are of its {len(others)} other hosts; "
            f"which of them is not known, for none is seen to be slowed{away}",
            at=at, peers=len(others),
        )  # fmt: skip
    if foreign := sorted(slowed.keys() - others) if own else []:
        jobs = ", ".join(topology.jobs_on(foreign, span[0])) or "no job"
        yield Evidence(f"slowed as well, but of {jobs}, and so no senders to it: {_named(foreign)}", at=at)
    if victims:
        jobs = ", ".join(topology.jobs_on(victims, span[0]))
        yield Evidence(
            f"victims: {_named(victims)} of job {jobs} at the same leaf, paused and sending far less meanwhile",
            metric="tx_bytes", at=at, observed=float(len(victims)), comparison="peers",
        )  # fmt: skip


def _named(hosts: Iterable[str]) -> str:
    names = sorted(hosts)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
