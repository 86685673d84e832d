"""congestion/collapse: many hosts of a group are throttled and send far less than just before, at the same time.

A group shares paths in one pod: a rail, a plane, the hosts of a job. One finding a pod; `attribute`, which receives
all pods, joins those of one job and finds the storm that causes them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detector import Context, Evaluation, Observed
from streams.detect.detectors.congestion_collapse import report
from streams.detect.detectors.congestion_collapse.groups import (
    ThrottledLink,
    ThrottledSpells,
    groups_of,
    throttled_links,
)
from streams.detect.detectors.congestion_collapse.params import CollapseParams
from streams.detect.evidence.congestion_spells import LinkSpells, ends_at_ns, report_delay_ns
from streams.detect.evidence.episodes import (
    PublishedEpisodes,
    has_open,
    next_final_ns,
    open_intervals,
    prune,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_delays import ProbeDelays, last_end_ns, observe_delays, prune_delays
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, merge_intervals
from streams.wire.models import RailDelays, Subject, Symptom, SymptomsReplaced

_BATCH_NS = ns(10)
"""The links of a pod are evaluated together at this interval; a collapse of all would otherwise be evaluated once
for each."""


@dataclass(frozen=True, slots=True)
class CollapseState:
    """One pod: its throttled links by subject id, and its published episodes."""

    subject: Subject
    links: dict[str, ThrottledSpells] = field(default_factory=dict)
    published: PublishedEpisodes = ()
    delays: dict[str, ProbeDelays] = field(default_factory=dict)
    """Of active probes, by link of the rail."""


def observe(
    _: CollapseParams, state: CollapseState | None, observed: Symptom | SymptomsReplaced | RailDelays, context: Context
) -> Observed[CollapseState]:
    """Add an observation; evaluate with the next batch of the pod."""
    subject = context.subject_at(Port(observed.device, observed.port))
    pod = state or CollapseState(Subject(f"pod:{subject.pod}", role="pod", pod=subject.pod, site=subject.site))
    batch_ns = (context.watermark_ns // _BATCH_NS + 1) * _BATCH_NS
    if isinstance(observed, RailDelays):
        delays = observe_delays(pod.delays, subject.id, observed, context)
        return Observed(state) if delays is pod.delays else Observed(replace(pod, delays=delays), batch_ns)
    known = pod.links.get(subject.id) or LinkSpells(subject)
    spells = known.observe(observed)
    if spells is known:
        return Observed(state)
    changed = replace(pod, links=pod.links | {subject.id: spells})
    return Observed(changed, batch_ns)


def evaluate(
    params: CollapseParams, _: str, state: CollapseState | None, context: Context
) -> Evaluation[CollapseState]:
    """Conclude on one pod."""
    if state is None:
        return Evaluation(None)
    quiet_ns, now_ns = ns(params.quiet_s), context.watermark_ns
    by_key = list(throttled_links(context.topology, state.links, quiet_ns))
    throttled = [link for _, link in by_key]
    groups = list(groups_of(context.topology, state.subject.pod, throttled))
    spans = merge_intervals(span for group in groups for span in group.spans(group.enough(params), quiet_ns))
    free = {span: _free_ns(quiet_ns, throttled, span) for span in spans}
    closed_ns = now_ns - ns(context.settings.lateness_s)
    conclusions = [
        report.conclusion(params, context, state.subject, groups, span, free_ns, state.delays)
        for span, free_ns in free.items()
        if _can_change(state.published, span, free_ns, closed_ns)
    ]
    published, episodes = reconcile(state.published, conclusions, now_ns)
    waits = (*free.values(), *(_gone_ns(params, link) for link in throttled), FOREVER)
    due_ns = min(next_final_ns(conclusions, now_ns), *(at_ns for at_ns in waits if at_ns > now_ns))
    left = _prune(params, replace(state, published=published), by_key, context)
    gone_ns = last_end_ns(left.delays) + ns(params.quiet_s + params.remember_s)
    if left.delays and gone_ns > now_ns:
        due_ns = min(due_ns, gone_ns)
    is_retained = left.links or left.delays or has_open(left.published)
    return Evaluation(left if is_retained else None, episodes, due_ns)


def _free_ns(quiet_ns: int, throttled: Iterable[ThrottledLink], span: Interval) -> int:
    """Return when a span is over if nothing follows; FOREVER while it lasts."""
    if span[1] == FOREVER:
        return FOREVER
    spells = (spell for link in throttled if link.overlaps(span) for spell in link.run)
    return span[1] + quiet_ns + report_delay_ns(quiet_ns, spells)


def _can_change(published: PublishedEpisodes, span: Interval, free_ns: int, closed_ns: int) -> bool:
    """Return whether a span may be published: not where its episode is final, nor where it was over when first seen.

    A final episode leaves shorter spans while its links are pruned one after the other; they are no episodes.
    """
    known = [s for s in published if s.overlaps(*span)]
    if any(s.episode.finding.final for s in known):
        return False
    return bool(known) or free_ns >= closed_ns


def _gone_ns(params: CollapseParams, link: ThrottledLink) -> int:
    """Return from when on a throttled link is no longer compared with others."""
    return ends_at_ns(ns(params.quiet_s), link.run) + ns(params.remember_s)


def _prune(
    params: CollapseParams, state: CollapseState, throttled: Sequence[tuple[str, ThrottledLink]], context: Context
) -> CollapseState:
    """Return the state without links that were over long ago and belong to no open episode."""
    watermark_ns = context.watermark_ns
    open_spans = open_intervals(state.published)
    links = dict(state.links)
    for key, link in throttled:
        if _gone_ns(params, link) <= watermark_ns and not any(map(link.overlaps, open_spans)):
            gone = set(link.run)
            links[key] = links[key].retain(lambda spell, gone=gone: spell not in gone)  # type: ignore[misc]
    links = {key: link for key, link in links.items() if link.spells}
    old_ns = watermark_ns - ns(params.quiet_s + params.remember_s)
    first_ns = min((link.spells[0].begin_ns for link in links.values()), default=old_ns)
    delays = prune_delays(state.delays, {}, min((old_ns, *(span[0] for span in open_spans))), context)
    return replace(state, links=links, published=prune(state.published, first_ns), delays=delays)
