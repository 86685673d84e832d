"""congestion/incast: more traffic arrives for one host's port than it drains, for a minute or longer, unlike its peers.

The link is full and the queue of the switch before it marks or drops; or the host itself pauses the fabric, which is
then not at fault. Where as many of its peers are oversubscribed at the same time, it is load of the job and no incast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streams.detect.detector import Context, Evaluation, Observed
from streams.detect.detectors.congestion_incast import report
from streams.detect.detectors.congestion_incast.attribution import ConcurrentSpells
from streams.detect.detectors.congestion_incast.params import IncastParams
from streams.detect.detectors.congestion_incast.report import Incast
from streams.detect.evidence.congestion_spells import Began, LinkSpells, ends_at_ns, group_spells
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import CnpThrottledBegan, CongestionState, IncastBegan, ThrottledBegan

_BATCH_NS = ns(10)
"""The links of a pod are evaluated together at this interval; load that oversubscribes all of them would otherwise
be evaluated once for each."""


@dataclass(frozen=True, slots=True)
class IncastLink:
    """One host's link, and its published episodes; either end may report it."""

    spells: LinkSpells[IncastBegan]
    published: PublishedEpisodes = ()

    @property
    def is_closed(self) -> bool:
        """Nothing is retained that can change."""
        return not self.spells.spells and not has_open(self.published)


@dataclass(frozen=True, slots=True)
class IncastState:
    """The hosts' links of one pod, by subject id: those with an incast, and throttled ones that may explain it."""

    links: dict[str, IncastLink] = field(default_factory=dict)
    cnp_throttled: dict[str, LinkSpells[CnpThrottledBegan]] = field(default_factory=dict)
    pause_throttled: dict[str, LinkSpells[ThrottledBegan]] = field(default_factory=dict)
    """Those that send far less, by pause or CNPs; snapshots have it under this name."""

    def or_none(self) -> "IncastState | None":
        """Return None where nothing is retained."""
        return self if self.links or self.cnp_throttled or self.pause_throttled else None


def observe(
    params: IncastParams, state: IncastState | None, observed: Symptom | SymptomsReplaced, context: Context
) -> Observed[IncastState]:
    """Add an observation; evaluate with the next batch of the pod."""
    state = state or IncastState()
    subject = context.subject_at(Port(observed.device, observed.port))
    batch_ns = (context.watermark_ns // _BATCH_NS + 1) * _BATCH_NS
    match report.congestion_state(observed):
        case CongestionState.INCAST:
            known = state.links.get(subject.id) or IncastLink(LinkSpells(subject))
            spells = known.spells.observe(observed)
            if spells is known.spells:
                return Observed(state.or_none())
            links = state.links | {subject.id: replace(known, spells=spells)}
            return Observed(replace(state, links=links), batch_ns)
        case CongestionState.CNP_THROTTLED:
            cnp, is_new = _add(params, state, state.cnp_throttled, subject, observed, context.watermark_ns)
            state = replace(state, cnp_throttled=cnp)
        case _:
            slowed, is_new = _add(params, state, state.pause_throttled, subject, observed, context.watermark_ns)
            state = replace(state, pause_throttled=slowed)
    return Observed(state.or_none(), batch_ns if is_new and state.links else None)


def _add(
    params: IncastParams,
    state: IncastState,
    throttled: Mapping[str, LinkSpells[Began]],
    subject: Subject,
    observed: Symptom | SymptomsReplaced,
    watermark_ns: int,
) -> tuple[dict[str, LinkSpells[Began]], bool]:
    """Return the throttled links after an observation, and whether it is new.

    Spells that ended long ago are dropped unless the pod has an incast that they may explain.
    """
    known = throttled.get(subject.id) or LinkSpells(subject)
    spells = known.observe(observed)
    is_new = spells is not known
    links = {**throttled, subject.id: spells} if is_new else dict(throttled)
    if not state.links:
        old_ns = watermark_ns - ns(params.remember_s)
        recent = {key: link.retain(lambda spell: spell.end_ns > old_ns) for key, link in links.items()}
        links = {key: link for key, link in recent.items() if link.spells}
    return links, is_new


def evaluate(params: IncastParams, _: str, state: IncastState | None, context: Context) -> Evaluation[IncastState]:
    """Conclude on all links of a pod."""
    if state is None:
        return Evaluation(None)
    quiet_ns, now_ns = ns(params.quiet_s), context.watermark_ns
    concurrent = ConcurrentSpells(state.cnp_throttled, state.pause_throttled)
    incasts = {
        key: [Incast(link.spells, run) for run in group_spells(quiet_ns, link.spells.spells)]
        for key, link in state.links.items()
    }
    links: dict[str, IncastLink] = {}
    episodes = []
    due_ns = FOREVER
    for key, link in state.links.items():
        alone = [
            incast
            for incast in incasts[key]
            if not _was_rejected(params, context, link, incast) and _is_alone(params, context.topology, incast, incasts)
        ]
        conclusions = [report.conclusion(params, context, incast, concurrent) for incast in alone]
        published, changed = reconcile(link.published, conclusions, now_ns)
        episodes += changed
        ended = [(incast.end_ns, ends_at_ns(quiet_ns, incast.run)) for incast in incasts[key]]
        frees = [(end_ns, free_ns) for end_ns, free_ns in ended if free_ns != FOREVER]
        gone = [(end_ns, free_ns + ns(params.remember_s)) for end_ns, free_ns in frees]
        waits = (at_ns for _, at_ns in (*frees, *gone) if at_ns > now_ns)
        due_ns = min(due_ns, next_final_ns(conclusions, now_ns), *waits)
        gone_ns = max((end_ns for end_ns, at_ns in gone if at_ns <= now_ns), default=0)
        left = IncastLink(link.spells.retain(lambda spell: spell.end_ns > gone_ns), prune(published, gone_ns + 1))  # noqa: B023 — called here
        if not left.is_closed:
            links[key] = left
    return Evaluation(replace(state, links=links).or_none(), episodes, due_ns)


def _was_rejected(params: IncastParams, context: Context, link: IncastLink, incast: Incast) -> bool:
    """Return whether it ended long ago and was no incast: the peers of that time may be pruned before it is."""
    final_ns = ends_at_ns(ns(params.quiet_s), incast.run) + ns(context.settings.lateness_s)
    was_one = any(known.overlaps(incast.begin_ns, incast.end_ns) for known in link.published)
    return final_ns < context.watermark_ns and not was_one


def _is_alone(params: IncastParams, topology: Topology, incast: Incast, incasts: Mapping[str, list[Incast]]) -> bool:
    """Return whether fewer than `peers` of its peers, the same rail of other hosts, had one when it was reported."""
    at = incast.link.subject.a
    cable = topology.link_at(Port(at.device, at.port)) if at is not None else None
    if cable is None:
        return False
    peers = topology.peers_of(cable)
    until_ns = incast.reported_ns + ns(params.sustained_s)
    others = sum(
        any(one.begin_ns <= until_ns and one.end_ns >= incast.begin_ns for one in own)
        for peer in peers
        if (own := incasts.get(peer.id)) and peer.id != cable.id
    )
    return others < max(1.0, params.peers * len(peers)) if peers else True
