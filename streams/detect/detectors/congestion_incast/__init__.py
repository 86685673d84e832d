"""congestion/incast: detects a host's port for which, unlike its peers, more traffic arrives than it drains.

It lasts for a minute or longer. Either the link is full, and the switch's queue marks, drops or delays active probes
(`delayed_spells`); or the host itself pauses the fabric, which is then not at fault. If as many of its peers are
oversubscribed at the same time, the cause is load of the job, and there is no incast.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from streams.detect.detector import BATCH_NS, Context, Detector, Evaluation, JobDomain, Observed, PodSide, Scope
from streams.detect.detectors.congestion_incast.attribution import (
    ConcurrentSpells,
    concerns_other_pods,
    loss_evidence,
    most_losses,
    sender_evidence,
    victim_evidence,
)
from streams.detect.detectors.congestion_incast.report import (
    FullLinks,
    Incast,
    IncastParams,
    conclusion,
    congestion_state,
    delay_periods,
    delayed_spells,
    prune_full,
)
from streams.detect.evidence.episodes import Ledger, PublishedEpisodes, has_open, prune
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_delays import ProbeDelays, last_end_ns, observe_delays, prune_delays
from streams.detect.evidence.spells import Began, LinkSpells, Spell, end_moved, group_spells
from streams.detect.fabric_side import CapacityEffect, FabricEvaluator, FabricSide
from streams.detect.thresholds import ns
from streams.fabric.ids import Port, port_id
from streams.fabric.intervals import Interval
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    BlastRadius,
    Condition,
    Endpoint,
    Evidence,
    Finding,
    Message,
    RailDelays,
    Status,
    Subject,
    Symptom,
    SymptomsReplaced,
)
from streams.wire.symptoms import CnpThrottledBegan, CongestionState, IncastBegan, ThrottledBegan


@dataclass(frozen=True, slots=True)
class IncastLink:
    """One link of a host, and its published episodes; either end may report it."""

    spells: LinkSpells[IncastBegan]
    published: PublishedEpisodes = ()

    @property
    def is_closed(self) -> bool:
        return not self.spells.spells and not has_open(self.published)


@dataclass(frozen=True, slots=True)
class IncastState:
    """The hosts' links of one pod, by subject id: links with an incast, and throttled links that may explain it."""

    links: dict[str, IncastLink] = field(default_factory=dict)
    cnp_throttled: dict[str, LinkSpells[CnpThrottledBegan]] = field(default_factory=dict)
    pause_throttled: dict[str, LinkSpells[ThrottledBegan]] = field(default_factory=dict)
    """Links that send far less, by pause or CNPs; snapshots use this name."""
    full: FullLinks = field(default_factory=dict)
    delays: dict[str, ProbeDelays] = field(default_factory=dict)
    """Delays of active probes, by link of the rail."""

    def or_none(self) -> "IncastState | None":
        return self if any((self.links, self.cnp_throttled, self.pause_throttled, self.full, self.delays)) else None


def _observe(
    _: IncastParams, state: IncastState | None, observed: Symptom | SymptomsReplaced | RailDelays, context: Context
) -> Observed[IncastState]:
    """Add an observation; evaluate with the next batch of the pod."""
    state = state or IncastState()
    subject = context.subject_at(Port(observed.device, observed.port))
    batch_ns = context.next_batch_ns
    if isinstance(observed, RailDelays):
        delays = observe_delays(state.delays, subject.id, observed, context)
        if delays is state.delays:
            return Observed(state.or_none())
        return Observed(replace(state, delays=delays), batch_ns)
    match congestion_state(observed):
        case CongestionState.INCAST:
            known = state.links.get(subject.id) or IncastLink(LinkSpells(subject))
            spells = known.spells.observe(observed)
            if spells is known.spells:
                return Observed(state.or_none())
            links = state.links | {subject.id: replace(known, spells=spells)}
            return Observed(replace(state, links=links), batch_ns)
        case CongestionState.FULL:
            full, is_new, is_for_fabric = _add(state.full, subject, observed, context)
            state, is_for_fabric = replace(state, full=full), False  # `attribute` has no use for full links
        case CongestionState.CNP_THROTTLED:
            cnp, is_new, is_for_fabric = _add(state.cnp_throttled, subject, observed, context)
            state = replace(state, cnp_throttled=cnp)
        case _:
            slowed, is_new, is_for_fabric = _add(state.pause_throttled, subject, observed, context)
            state = replace(state, pause_throttled=slowed)
    return Observed(state.or_none(), batch_ns if is_new else None, is_for_fabric)


def _add(
    throttled: Mapping[str, LinkSpells[Began]], subject: Subject, observed: Symptom | SymptomsReplaced, context: Context
) -> tuple[dict[str, LinkSpells[Began]], bool, bool]:
    """Return the throttled links after an observation, whether it is new, and whether it concerns other pods."""
    known = throttled.get(subject.id) or LinkSpells(subject)
    spells = known.observe(observed)
    is_new = spells is not known
    links = {**throttled, subject.id: spells} if is_new else dict(throttled)
    return links, is_new, concerns_other_pods(context.topology, observed, known, spells)


def _end_moved(
    state: IncastState, has_moved: Callable[[Subject], bool], at_ns: int
) -> tuple[IncastState, list[Symptom]]:
    own, symptoms = end_moved({key: link.spells for key, link in state.links.items()}, has_moved, at_ns)
    cnp, of_cnp = end_moved(state.cnp_throttled, has_moved, at_ns)
    slowed, of_slowed = end_moved(state.pause_throttled, has_moved, at_ns)
    full, of_full = end_moved(state.full, has_moved, at_ns)
    links = {key: replace(link, spells=own[key]) for key, link in state.links.items()}
    moved = replace(state, links=links, cnp_throttled=cnp, pause_throttled=slowed, full=full)
    return moved, [*symptoms, *of_cnp, *of_slowed, *of_full]


def _evaluate(params: IncastParams, _: str, state: IncastState, context: Context) -> Evaluation[IncastState]:
    """Conclude on all links of a pod."""
    quiet_ns, remember_ns, now_ns = ns(params.quiet_s), ns(params.remember_s), context.watermark_ns
    concurrent = ConcurrentSpells(state.cnp_throttled, state.pause_throttled)
    known = state.links | dict(_delayed_only(params, state, now_ns))
    incasts = {key: _incasts(params, state, key, link, now_ns) for key, link in known.items()}
    links: dict[str, IncastLink] = {}
    episodes = []
    since_ns: dict[str, int] = {}
    due_ns = FOREVER
    for key, link in known.items():
        delays = delay_periods(params, state.delays.get(key))
        conclusions = [
            conclusion(params, context, incast, concurrent, delays)
            for incast in incasts[key]
            if not _was_rejected(params, context, link, incast) and _is_alone(params, context.topology, incast, incasts)
        ]
        published, changed, own_due_ns = context.reconcile(link.published, conclusions)
        episodes += changed
        ended = [(incast.run.end_ns, incast.run.over_ns(quiet_ns)) for incast in incasts[key]]
        frees = [(end_ns, free_ns) for end_ns, free_ns in ended if free_ns != FOREVER]
        gone = [(end_ns, free_ns + remember_ns) for end_ns, free_ns in frees]
        due_ns = min(due_ns, own_due_ns, context.next_ns(*(at_ns for _, at_ns in (*frees, *gone))))
        gone_ns = max((end_ns for end_ns, at_ns in gone if at_ns <= now_ns), default=0)
        left = IncastLink(link.spells.retain(lambda spell: spell.end_ns > gone_ns), prune(published, gone_ns + 1))  # noqa: B023 — called here
        remaining = [incast.run.begin_ns for incast in incasts[key] if incast.run.end_ns > gone_ns]
        if remaining or not left.is_closed:
            links[key] = left
        since_ns[key] = max(gone_ns, min(remaining, default=now_ns) - remember_ns)
        due_ns = min(due_ns, context.next_ns(*(period.closes_ns for period in delays)))
    full = prune_full(state.full, since_ns, now_ns - remember_ns)
    all_delays = prune_delays(state.delays, since_ns, now_ns - remember_ns, context)
    state = _without_old(replace(state, links=links, full=full, delays=all_delays), now_ns - remember_ns)
    return Evaluation(state.or_none(), episodes, min(due_ns, _pruned_ns(state, now_ns, remember_ns)))


def _without_old(state: IncastState, old_ns: int) -> IncastState:
    """Return a pod without throttled links whose spells ended long ago; a pod with an incast retains all of them."""
    if state.links:
        return state
    cnp, paused = _recent(state.cnp_throttled, old_ns), _recent(state.pause_throttled, old_ns)
    return replace(state, cnp_throttled=cnp, pause_throttled=paused)


def _recent(throttled: Mapping[str, LinkSpells[Began]], old_ns: int) -> dict[str, LinkSpells[Began]]:
    recent = {key: link.retain(lambda spell: spell.end_ns > old_ns) for key, link in throttled.items()}
    return {key: link for key, link in recent.items() if link.spells}


def _pruned_ns(state: IncastState, now_ns: int, remember_ns: int) -> int:
    """Return the time at which the last full or throttled link and the last delay are dropped, or FOREVER."""
    links: list[LinkSpells[Any]] = list(state.full.values())
    if not state.links:
        links += [*state.cnp_throttled.values(), *state.pause_throttled.values()]
    ends = (spell.end_ns for link in links for spell in link.spells if spell.end_ns != FOREVER)
    at_ns = max((*ends, last_end_ns(state.delays))) + remember_ns
    return at_ns if at_ns > now_ns else FOREVER


def _delayed_only(params: IncastParams, state: IncastState, watermark_ns: int) -> Iterator[tuple[str, IncastLink]]:
    """Yield the links with incasts that no counter shows."""
    for key in sorted(state.full.keys() & state.delays.keys() - state.links.keys()):
        full = state.full[key]
        if any(delayed_spells(params, full, state.delays[key], watermark_ns)):
            yield key, IncastLink(LinkSpells(full.subject))


def _incasts(params: IncastParams, state: IncastState, key: str, link: IncastLink, watermark_ns: int) -> list[Incast]:
    """Return the incasts of a link, from counters and from delayed probes."""
    delayed = delayed_spells(params, state.full.get(key), state.delays.get(key), watermark_ns)
    spells = sorted((*link.spells.spells, *delayed), key=lambda spell: spell.begin_ns)
    return [Incast(link.spells, run) for run in group_spells(ns(params.quiet_s), spells)]


def _was_rejected(params: IncastParams, context: Context, link: IncastLink, incast: Incast) -> bool:
    """Return whether an incast ended long ago without being published; its peers may be pruned before it."""
    final_ns = incast.run.over_ns(ns(params.quiet_s)) + ns(context.settings.lateness_s)
    was_one = any(known.overlaps(incast.run.begin_ns, incast.run.end_ns) for known in link.published)
    return final_ns < context.watermark_ns and not was_one


def _is_alone(params: IncastParams, topology: Topology, incast: Incast, incasts: Mapping[str, list[Incast]]) -> bool:
    """Return whether fewer than `peers` of its peers (same rail, other hosts) had an incast when it was reported."""
    at = incast.link.subject.a
    cable = topology.link_at(Port(at.device, at.port)) if at is not None else None
    if cable is None:
        return False
    peers = topology.peers_of(cable)
    until_ns = incast.run.reported_ns + ns(params.sustained_s)
    others = sum(
        any(one.run.begin_ns <= until_ns and one.run.end_ns >= incast.run.begin_ns for one in own)
        for peer in peers
        if (own := incasts.get(peer.id)) and peer.id != cable.id
    )
    return others < max(1.0, params.peers * len(peers)) if peers else True


SlowedBegan = CnpThrottledBegan | ThrottledBegan

_STATES = frozenset(
    {
        CongestionState.CNP_THROTTLED, CongestionState.SLOWED_BY_CNP, CongestionState.SLOWED_BY_LOSS,
        CongestionState.THROTTLED_BY_PAUSE,
    }
)  # fmt: skip


@dataclass(slots=True)
class OtherPodsState:
    """The throttled hosts of jobs in several pods, and the incasts that may explain them."""

    ports: dict[str, LinkSpells[SlowedBegan]] = field(default_factory=dict)
    """Id of the host's port -> its spells."""
    changed: dict[str, Endpoint] = field(default_factory=dict)
    """Ports with symptoms since the last batch."""
    incasts: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Finding id of an incast that is not final -> the id of the receiver's link, and the start."""
    batch: int = 0
    """The number of the newest interval of `BATCH_NS`."""


def add_message(state: OtherPodsState, message: Message) -> None:
    """Add the start or the end of a throttled state."""
    if not isinstance(message, Symptom | SymptomsReplaced) or congestion_state(message) not in _STATES:
        return
    port = port_id(Port(message.device, message.port))
    known = state.ports.get(port) or LinkSpells(Subject(port))
    spells = known.observe(message)
    if spells is not known:
        state.ports[port] = spells
        state.changed[port] = Endpoint(message.device, message.port)


def add_published(state: OtherPodsState, finding: Finding) -> None:
    """Track the incasts until they are final."""
    if finding.condition is not Condition.CONGESTION_INCAST:
        return
    if finding.final:
        state.incasts.pop(finding.id, None)
    else:
        state.incasts[finding.id] = finding.subject.id, finding.started_at_ns


def incomplete(params: IncastParams, ledger: Ledger, state: OtherPodsState, topology: Topology) -> list[str]:
    """Return the incasts on whose rail and plane hosts began or ceased to be throttled; prune old spells."""
    watermark_ns = ledger.watermark_ns
    last, state.batch = state.batch, watermark_ns // BATCH_NS
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
    """Return the link of a host's port; None if the inventory no longer has it."""
    return topology.host_link_at(Port(at.device, at.port))


def _place(link: TopologyLink) -> tuple[int | None, int | None]:
    """Return the rail and the plane, which traffic between pods retains."""
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
    """Yield the senders among the job's `away` hosts in other pods."""
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
    """Yield the hosts that send far less and run a job that also has hosts in a pod."""
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


DETECTOR = Detector(
    Condition.CONGESTION_INCAST,
    version="1",
    opens_when="one receiver's port is full, with ECN marks, drops, or pause from its host",
    params=IncastParams,
    section="incast",
    placement=None,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in={
        "snmp": "marked packets are counted by NICs and by gNMI",
        "infiniband": "no marks, no drops and no pause: the ports before it wait for credits, as in every burst",
    },
    fabric=FabricSide(  # never CRITICAL (DETECTION 3a); adds senders and victims in other pods
        is_shown_by_one_end=True,
        capacity=CapacityEffect.NONE,
        evaluator=FabricEvaluator(
            OtherPodsState, add_message, on_published=add_published, incomplete=incomplete, complete=complete
        ),
    ),
    pod=PodSide(
        IncastState, Scope.POD, _evaluate, (
            CongestionState.INCAST, CongestionState.CNP_THROTTLED, CongestionState.THROTTLED_BY_PAUSE,
            CongestionState.SLOWED_BY_CNP, CongestionState.SLOWED_BY_LOSS, CongestionState.FULL, RailDelays,
        ), _observe, end_moved=_end_moved,
    ),
)  # fmt: skip
