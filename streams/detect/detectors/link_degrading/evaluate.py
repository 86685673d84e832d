"""link/degrading: a link that is up and loses frames, corrects ever more, or gets ever less light.

Opens when several windows of ten minutes are bad, never for a single error; closes when the port was seen well for
`quiet_s`, and stays open while nobody sees it. What is wrong with a window is degrading_signs.py's, when a limit will
be reached trend.py's. Loss by congestion is no sign, nor is what a link loses that goes down; see link_flap.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streams.detect.detectors.link_degrading.params import DegradingParams
from streams.detect.detectors.link_degrading.report import evidence_of, headline, strongest_hits, worst_lane
from streams.detect.detectors.link_degrading.rules import LEVELS, TREND, RuleHit, has_step, rule_hits
from streams.detect.detectors.link_down.evaluate import BOTH_ENDS, ONE_END
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER, Interval, LinkHistory
from streams.detect.evidence.window_history import WindowHistory, side_of, training_intervals
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Cause, Condition, Episode, Finding, Forecast, Severity

SLUG = "link/degrading"
VERSION = "1"

HINTS = {
    Cause.CABLE: "transceiver or cable: clean or reseat both ends, then replace",
    Cause.OPTIC: "one lane: fibre or laser",
    Cause.NIC: "fine optics but errors: the NIC's port",
    Cause.SWITCH: "fine optics but errors: the switch's port",
    Cause.UNKNOWN: "clean or reseat, then transceiver or cable",
}
"""DETECTION 4, repair hints by symptom."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Signs between which the link was never well for long."""

    signs: list[RuleHit]
    over_ns: int
    """When it is over if nothing follows; FOREVER while an end was not seen well after its last sign."""

    @property
    def cases(self) -> list[RuleHit]:
        return [sign for sign in self.signs if sign.is_case]


def step(
    params: DetectParams,
    state: PublishedEpisodes,
    history: LinkHistory,
    minutes: WindowHistory,
    restarts: Mapping[str, list[Interval]],
    watermark_ns: int,
) -> tuple[PublishedEpisodes, list[Episode], int]:
    """Conclude from the windows; answers the new state, what changed, and the watermark at which to look again."""
    if not minutes.windows and not state:
        return state, [], FOREVER
    sides = minutes.outside(training_intervals(params.link, history, restarts))
    signs = sorted(
        (sign for side, windows in sides.items() for sign in rule_hits(params.degrading, side, windows)),
        key=lambda sign: (sign.window.end_ns, sign.side, sign.rule, sign.index),
    )
    runs = [run for run in _runs(params.degrading, signs, minutes, _spans(state)) if run.cases]
    conclusions = [_conclusion(params, history, minutes, run, watermark_ns) for run in runs]
    state, episodes = reconcile(state, conclusions, watermark_ns, minutes.pruned_until_ns)
    bad = {id(sign.window) for sign in signs}
    minutes.downsample(watermark_ns, _spans(state), bad, {id(w) for w in minutes.windows if has_step(w)})
    due = min((run.over_ns for run in runs if run.over_ns > watermark_ns), default=FOREVER)
    return state, episodes, min(due, next_final_ns(conclusions, watermark_ns))


def _spans(state: PublishedEpisodes) -> list[Interval]:
    """The evidence of the episodes that are open."""
    return [(said.begin_ns, said.end_ns) for said in state if not said.episode.finding.final]


def _runs(
    params: DegradingParams, signs: Sequence[RuleHit], minutes: WindowHistory, spans: Sequence[Interval]
) -> Iterator[_Run]:
    """Where windows were dropped that lay between two signs, they are of one run if they were before (`spans`)."""
    own: list[RuleHit] = []
    for sign in signs:
        since_ns, begin_ns = own[-1].window.begin_ns if own else 0, sign.window.begin_ns
        was_one = since_ns < minutes.pruned_until_ns and any(b <= since_ns and begin_ns < e for b, e in spans)
        if own and not was_one and begin_ns > _over_ns(params, own, minutes, begin_ns):
            yield _Run(own, _over_ns(params, own, minutes, begin_ns))
            own = []
        own.append(sign)
    if own:
        yield _Run(own, _over_ns(params, own, minutes, FOREVER))


def _over_ns(params: DegradingParams, signs: Sequence[RuleHit], minutes: WindowHistory, until_ns: int) -> int:
    """When these are over: each rule quiet at each side for long enough, and seen to be so before `until_ns`.

    A forecast needs no such sight: what it foretold did not come, whoever looked.
    """
    last = {(sign.side, sign.rule): sign.window for sign in signs}
    over_ns = 0
    for (side, rule), window in last.items():
        wait = params.trend_over_s if rule == TREND else params.quiet_s
        well = rule == TREND or any(
            side_of(w) == side and window.end_ns <= w.begin_ns < until_ns for w in minutes.windows
        )
        over_ns = max(over_ns, window.end_ns + ns(wait) if well else FOREVER)
    return over_ns


def _conclusion(
    params: DetectParams, history: LinkHistory, minutes: WindowHistory, run: _Run, watermark_ns: int
) -> Conclusion:
    first, last = run.cases[0], run.signs[-1]
    begin = _begun(params.degrading, run, first)
    told = {(sign.side[0], sign.side[1]) for sign in run.signs if sign.rule != TREND or sign.is_case}
    tellers = [end for end in history.ends() if (end.device, end.port) in told]
    resolved = run.over_ns != FOREVER and watermark_ns >= run.over_ns
    best = strongest_hits(run.cases)
    cause = _cause(params.degrading, history, run, minutes)
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.LINK_DEGRADING,
        severity=Severity.INFO if all(case.rule in (TREND, "fading") for case in run.cases) else Severity.WARNING,
        subject=history.subject,
        started_at_ns=begin,
        observed_at_ns=last.window.at_ns,
        resolved_at_ns=last.window.end_ns if resolved else None,
        detected_at_ns=first.window.end_ns + ns(params.lateness_s),
        summary=f"{' -- '.join(f'{e.device}/{e.port}' for e in history.ends())} {headline(best[0])}; {HINTS[cause]}",
        cause=cause,
        evidence=tuple(evidence_of(params.degrading, best, run.signs, minutes)),
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=history.coverage(tellers),
        forecast=None if resolved else _forecast(run),
    )
    final_at = None if run.over_ns == FOREVER else run.over_ns + ns(params.lateness_s)
    return Conclusion(run.signs[0].window.begin_ns, last.window.end_ns, finding, str(begin), final_at)


def _begun(params: DegradingParams, run: _Run, case: RuleHit) -> int:
    """The first of the windows that made the first case."""
    since = case.window.end_ns - ns(params.span_s)
    return min(sign.window.begin_ns for sign in run.signs if sign.window.end_ns > since)


def _forecast(run: _Run) -> Forecast | None:
    """The nearest of what the newest steps foretell; none once the limit is reached."""
    if any(case.rule == "noisy" for case in run.cases):
        return None
    newest = {(case.side, case.metric, case.index): case.forecast for case in run.cases if case.forecast is not None}
    reaches = [found for found in newest.values() if found is not None]
    if not reaches:
        return None
    nearest = min(reaches, key=lambda found: found.at_ns)
    return Forecast(nearest.at_ns, nearest.earliest_ns, nearest.latest_ns)


def _cause(params: DegradingParams, history: LinkHistory, run: _Run, minutes: WindowHistory) -> Cause:
    """Which part, as DETECTION 4 tells it from the symptom."""
    ends = {(case.side[0], case.side[1]) for case in run.cases}
    begin_ns = run.signs[0].window.begin_ns
    own = [w for w in minutes.windows if (w.device, w.port) in ends and w.end_ns > begin_ns]
    if any(worst_lane(params, [w for w in own if (w.device, w.port) == end]) for end in ends):
        return Cause.OPTIC
    if len(ends) > 1 or any(case.metric in LEVELS for case in run.cases):
        return Cause.CABLE
    if not any(metric in LEVELS for window in own for metric in window.metric):
        return Cause.UNKNOWN
    lower = history.subject.a
    at_host = lower is not None and (lower.device, lower.port) in ends and history.subject.role == HOST_LINK
    return Cause.NIC if at_host else Cause.SWITCH
