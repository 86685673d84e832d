"""link/flap: a link that repeatedly goes down and recovers.

Opens when the number of downs of a preset falls within its window; resolves after `quiet_s` without a transition.
Downs that an administrative down or a restart excuses do not count. A port that stays down is not a flap; see
link_down.
"""

from collections.abc import Iterator

from streams.detect.detector import Context, Evaluation
from streams.detect.detectors.link_flap import report
from streams.detect.detectors.link_flap.downs import (
    begin_ns,
    boot_intervals,
    count_downs,
    find_hits,
    is_transition,
    open_outages_due,
)
from streams.detect.detectors.link_flap.params import FLAP_PRESETS, FlapParams
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER, excused_intervals
from streams.detect.thresholds import ns
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import Symptom


def link_retention_ns(params: FlapParams, lateness_s: float) -> int:
    """Return the age from which an observation changes no conclusion: the longest window, its end and the lateness."""
    windows = (FLAP_PRESETS[name].window_s for name in params.presets)
    return ns(max(*windows, params.quiet_s) + params.quiet_s + 2 * lateness_s)


def evaluate(
    params: FlapParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the history of the link.

    Transitions before the end of a maintenance at an end of the link do not count together with later ones.
    """
    history, restarts, now_ns = context.evidence.links[key], context.evidence.restarts, context.watermark_ns
    maintained_until_ns = context.topology.maintenance_until_ns(end.device for end in history.ends())
    excused = excused_intervals(context.settings.link, history, restarts)
    seen = [s for s in history.symptoms if is_transition(s) and not overlaps_any(excused, closed(begin_ns(s), s.at_ns))]
    counters = {
        name: count_downs(preset, history, [*excused, *boot_intervals(preset, history, restarts)], now_ns)
        for name in params.presets
        if seen and (preset := FLAP_PRESETS[name])
    }
    conclusions: list[Conclusion] = []
    due = min((_after(t, now_ns) for t in open_outages_due(params, history)), default=FOREVER)
    for run in _runs(seen, ns(params.quiet_s)):
        hits = list(find_hits(counters, run, maintained_until_ns))
        if hits:
            before_ns = conclusions[-1].end_ns if conclusions else 0
            conclusions.append(report.conclusion(params, context, history, run, hits, before_ns))
            due = min(due, _after(run[-1].at_ns + ns(params.quiet_s), now_ns))
    published = prune(state or (), context.retained_since_ns)
    published, episodes = reconcile(published, conclusions, now_ns, history.pruned_until_ns)
    return Evaluation(published or None, episodes, min(due, next_final_ns(conclusions, now_ns)))


def _after(at_ns: int, watermark_ns: int) -> int:
    return at_ns if at_ns > watermark_ns else FOREVER


def _runs(seen: list[Symptom], quiet_ns: int) -> Iterator[list[Symptom]]:
    """Yield runs of observations that are at most `quiet_ns` apart."""
    run: list[Symptom] = []
    for symptom in seen:
        if run and symptom.at_ns - run[-1].at_ns > quiet_ns:
            yield run
            run = []
        run.append(symptom)
    if run:
        yield run
