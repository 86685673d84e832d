"""link/degrading: a link that is up and loses frames, corrects ever more errors, or loses optical power.

Opens when several windows within ten minutes are bad, never for a single error; closes when the port was healthy for
`quiet_s`, and stays open while it is not read. rules.py decides whether a window is bad, evidence/trend.py when a limit
will be crossed. Loss by congestion does not count, nor does what a link loses that goes down; see link_flap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.detectors.link_degrading import report
from streams.detect.detectors.link_degrading.params import DegradingParams
from streams.detect.detectors.link_degrading.report import BadRun
from streams.detect.detectors.link_degrading.rules import TREND, RuleHit, has_step, rule_hits
from streams.detect.evidence.episodes import (
    PublishedEpisodes,
    has_open,
    next_final_ns,
    open_intervals,
    prune,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER, training_intervals
from streams.detect.evidence.window_history import WindowHistory, side_of
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval
from streams.wire.models import Window


@dataclass(frozen=True, slots=True)
class DegradingState:
    """The windows of one link, and its published episodes."""

    history: WindowHistory = field(default_factory=WindowHistory)
    published: PublishedEpisodes = ()


def observe(_: DegradingParams, state: DegradingState | None, window: Window, __: Context) -> Observed[DegradingState]:
    """Add a window."""
    state = state or DegradingState()
    history = state.history.with_window(window)
    if history is state.history:
        return Observed(state)
    return Observed(DegradingState(history, state.published), NOW)


def merge(moved: DegradingState, existing: DegradingState) -> DegradingState:
    """Return the windows and episodes of both."""
    return DegradingState(existing.history.merge(moved.history), (*moved.published, *existing.published))


def evaluate(
    params: DegradingParams, key: str, state: DegradingState | None, context: Context
) -> Evaluation[DegradingState]:
    """Conclude from the windows."""
    if state is None:
        return Evaluation(None)
    history, now_ns = state.history, context.watermark_ns
    link = context.evidence.links[key]
    first_ns = min((window.begin_ns for window in history.windows), default=context.retained_since_ns)
    published = prune(state.published, min(context.retained_since_ns, first_ns))
    sides = history.outside(training_intervals(context.settings.link, link, context.evidence.restarts))
    hits = sorted(
        (hit for side, windows in sides.items() for hit in rule_hits(params, side, windows)),
        key=lambda hit: (hit.window.end_ns, hit.side, hit.rule, hit.index),
    )
    runs = [run for run in _runs(params, hits, history, open_intervals(published)) if run.cases]
    conclusions = [report.conclusion(params, context, link, history.windows, run) for run in runs]
    published, episodes = reconcile(published, conclusions, now_ns, history.pruned_until_ns)
    bad = {id(hit.window) for hit in hits}
    steps = {id(window) for window in history.windows if has_step(window)}
    history = history.downsampled(now_ns, open_intervals(published), bad, steps)
    due = min((run.ends_at_ns for run in runs if run.ends_at_ns > now_ns), default=FOREVER)
    due = min(due, next_final_ns(conclusions, now_ns), history.next_downsample_ns(now_ns))
    left = DegradingState(history, published) if history.windows or has_open(published) else None
    return Evaluation(left, episodes, due)


def _runs(
    params: DegradingParams, hits: Sequence[RuleHit], history: WindowHistory, spans: Sequence[Interval]
) -> Iterator[BadRun]:
    """Yield runs of hits. Two hits with dropped windows between them stay in one run if they were (`spans`)."""
    own: list[RuleHit] = []
    for hit in hits:
        since_ns, begin_ns = own[-1].window.begin_ns if own else 0, hit.window.begin_ns
        was_one = since_ns < history.pruned_until_ns and any(b <= since_ns and begin_ns < e for b, e in spans)
        if own and not was_one and begin_ns > _ends_at_ns(params, own, history, begin_ns):
            yield BadRun(own, _ends_at_ns(params, own, history, begin_ns))
            own = []
        own.append(hit)
    if own:
        yield BadRun(own, _ends_at_ns(params, own, history, FOREVER))


def _ends_at_ns(params: DegradingParams, hits: Sequence[RuleHit], history: WindowHistory, until_ns: int) -> int:
    """Return when a run ends: each rule quiet at each side for long enough, with a window read before `until_ns`.

    A forecast needs no such window: it did not come true, whether or not the port was read.
    """
    last = {(hit.side, hit.rule): hit.window for hit in hits}
    ends_at_ns = 0
    for (side, rule), window in last.items():
        wait = params.trend_over_s if rule == TREND else params.quiet_s
        was_read = rule == TREND or any(
            side_of(w) == side and window.end_ns <= w.begin_ns < until_ns for w in history.windows
        )
        ends_at_ns = max(ends_at_ns, window.end_ns + ns(wait) if was_read else FOREVER)
    return ends_at_ns
