"""congestion/pfc-storm: a port that is paused nearly all the time while no traffic passes in the paused direction.

One finding for each link and the end of it that pauses; the direction is the diagnosis. `attribute`, which receives
all pods, finds the root of many: the port whose device pauses without being paused.
"""

from dataclasses import dataclass, field, replace

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.detectors.congestion_pfc_storm import report
from streams.detect.detectors.congestion_pfc_storm.params import StormParams
from streams.detect.evidence.congestion_spells import LinkSpells, ends_at_ns, group_spells
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.wire.models import Endpoint, Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import PauseBegan, PfcWatchdogStorm


@dataclass(frozen=True, slots=True)
class StormState:
    """The pause spells of one link, and the published episodes by the device that pauses."""

    link: LinkSpells[PauseBegan | PfcWatchdogStorm]
    published: dict[str, PublishedEpisodes] = field(default_factory=dict)


def observe(
    _: StormParams, state: StormState | None, observed: Symptom | SymptomsReplaced, context: Context
) -> Observed[StormState]:
    """Add an observation to the spells."""
    state = state or StormState(LinkSpells(context.subject_at(Port(observed.device, observed.port))))
    link = state.link.observe(observed)
    if link is not state.link:
        return Observed(replace(state, link=link), NOW)
    return Observed(None if _is_closed(state) else state)


def _is_closed(state: StormState) -> bool:
    return not state.link.spells and not any(has_open(published) for published in state.published.values())


def rebase(state: StormState, subject: Subject, context: Context) -> Observed[StormState]:
    """Take over the subject of a new inventory; a link keeps its episodes."""
    return Observed(replace(state, link=replace(state.link, subject=subject)), context.watermark_ns)


def merge(moved: StormState, existing: StormState) -> StormState:
    """Return the spells and episodes of both."""
    devices = {*moved.published, *existing.published}
    published = {device: (*moved.published.get(device, ()), *existing.published.get(device, ())) for device in devices}
    return StormState(replace(moved.link, spells=(*moved.link.spells, *existing.link.spells)), published)


def evaluate(params: StormParams, _: str, state: StormState | None, context: Context) -> Evaluation[StormState]:
    """Conclude from the spells, for each end that pauses."""
    if state is None:
        return Evaluation(None)
    link, published, now_ns = state.link, dict(state.published), context.watermark_ns
    by_origin: dict[Endpoint, list[report.StormSpell]] = {}
    for spell in link.spells:
        by_origin.setdefault(link.pause_origin(spell), []).append(spell)
    quiet_ns = ns(params.quiet_s)
    episodes = []
    due_ns = FOREVER
    for origin, spells in by_origin.items():
        runs = list(group_spells(quiet_ns, spells))
        conclusions = [report.conclusion(params, context, link.subject, origin, run) for run in runs]
        own, changed = reconcile(published.get(origin.device, ()), conclusions, now_ns)
        episodes += changed
        waits = [at_ns for run in runs if (at_ns := ends_at_ns(quiet_ns, run)) > now_ns]
        due_ns = min(due_ns, next_final_ns(conclusions, now_ns), *waits)
        final = [c for c in conclusions if c.final_at_ns is not None and c.final_at_ns <= now_ns]
        gone_ns = max((c.end_ns for c in final), default=0)
        evaluated = set(spells)
        link = replace(link, spells=tuple(s for s in link.spells if s not in evaluated or s.end_ns > gone_ns))
        published[origin.device] = prune(own, gone_ns + 1)
    state = StormState(link, published)
    return Evaluation(None if _is_closed(state) else state, episodes, due_ns)
