"""link/degrading: a link that is up and loses frames, corrects ever more, or gets ever less light.

Opens when several windows of ten minutes are bad, never for a single error; closes when the port was seen well for
`quiet_s`, and stays open while nobody sees it. What is wrong with a window is degrading_signs.py's, when a limit will
be reached trend.py's. Loss by congestion is no sign, nor is what a link loses that goes down; see link_flap.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streams.detect.degrading_signs import LEVELS, LOSSES, TREND, Sign, has_step, signs_of
from streams.detect.episode import Conclusion, State, fold, next_due_ns, unnamed
from streams.detect.link import FOREVER, History, Interval
from streams.detect.link_down import BOTH_ENDS, ONE_END
from streams.detect.minutes import Minutes, each, end_of, side_of, unsettled
from streams.detect.params import DegradingParams, DetectParams, ns
from streams.detect.trend import fec_tail
from streams.fabric.catalogue import Metric
from streams.wire.models import (
    Condition,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Forecast,
    Severity,
    Window,
)

SLUG = "link/degrading"
VERSION = "1"

HINTS = {
    "cable": "transceiver or cable: clean or reseat both ends, then replace",
    "optic": "one lane: fibre or laser",
    "nic": "fine optics but errors: the NIC's port",
    "switch": "fine optics but errors: the switch's port",
    "unknown": "clean or reseat, then transceiver or cable",
}
"""DETECTION 4, repair hints by symptom."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Signs between which the link was never well for long."""

    signs: list[Sign]
    over_ns: int
    """When it is over if nothing follows; FOREVER while an end was not seen well after its last sign."""

    @property
    def cases(self) -> list[Sign]:
        return [sign for sign in self.signs if sign.is_case]


def step(
    params: DetectParams,
    state: State,
    history: History,
    minutes: Minutes,
    restarts: Mapping[str, list[Interval]],
    watermark_ns: int,
) -> tuple[State, list[Episode], int]:
    """Conclude from the windows; answers the new state, what changed, and the watermark at which to look again."""
    if not minutes.windows and not state:
        return state, [], FOREVER
    sides = minutes.clear_of(unsettled(params.link, history, restarts))
    signs = sorted(
        (sign for side, windows in sides.items() for sign in signs_of(params.degrading, side, windows)),
        key=lambda sign: (sign.window.end_ns, sign.side, sign.rule, sign.index),
    )
    runs = [run for run in _runs(params.degrading, signs, minutes, _spans(state)) if run.cases]
    conclusions = [_conclusion(params, history, minutes, run, watermark_ns) for run in runs]
    state, episodes = fold(state, conclusions, watermark_ns, minutes.forgotten_ns)
    bad = {id(sign.window) for sign in signs}
    minutes.thin(watermark_ns, _spans(state), bad, {id(w) for w in minutes.windows if has_step(w)})
    due = min((run.over_ns for run in runs if run.over_ns > watermark_ns), default=FOREVER)
    return state, episodes, min(due, next_due_ns(conclusions, watermark_ns))


def _spans(state: State) -> list[Interval]:
    """The evidence of the episodes that are open."""
    return [(said.begin_ns, said.end_ns) for said in state if not said.episode.finding.final]


def _runs(
    params: DegradingParams, signs: Sequence[Sign], minutes: Minutes, spans: Sequence[Interval]
) -> Iterator[_Run]:
    """Where windows were dropped that lay between two signs, they are of one run if they were before (`spans`)."""
    own: list[Sign] = []
    for sign in signs:
        since_ns, begin_ns = own[-1].window.begin_ns if own else 0, sign.window.begin_ns
        was_one = since_ns < minutes.forgotten_ns and any(b <= since_ns and begin_ns < e for b, e in spans)
        if own and not was_one and begin_ns > _over_ns(params, own, minutes, begin_ns):
            yield _Run(own, _over_ns(params, own, minutes, begin_ns))
            own = []
        own.append(sign)
    if own:
        yield _Run(own, _over_ns(params, own, minutes, FOREVER))


def _over_ns(params: DegradingParams, signs: Sequence[Sign], minutes: Minutes, until_ns: int) -> int:
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


def _conclusion(params: DetectParams, history: History, minutes: Minutes, run: _Run, watermark_ns: int) -> Conclusion:
    first, last = run.cases[0], run.signs[-1]
    begin = _begun(params.degrading, run, first)
    told = {(sign.side[0], sign.side[1]) for sign in run.signs if sign.rule != TREND or sign.is_case}
    tellers = [end for end in history.ends() if (end.device, end.port) in told]
    resolved = run.over_ns != FOREVER and watermark_ns >= run.over_ns
    best = _strongest(run.cases)
    cause = _cause(params.degrading, history, run, minutes)
    finding = Finding(
        **unnamed(params, SLUG, VERSION),
        condition=Condition.LINK_DEGRADING,
        severity=Severity.INFO if all(case.rule in (TREND, "fading") for case in run.cases) else Severity.WARNING,
        subject=history.subject,
        started_at_ns=begin,
        observed_at_ns=last.window.at_ns,
        resolved_at_ns=last.window.end_ns if resolved else None,
        detected_at_ns=first.window.end_ns + ns(params.lateness_s),
        summary=f"{' -- '.join(f'{e.device}/{e.port}' for e in history.ends())} {_headline(best[0])}; {HINTS[cause]}",
        cause=cause,
        evidence=tuple(_evidence(params.degrading, best, run, minutes)),
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=history.coverage(tellers),
        forecast=None if resolved else _forecast(run),
    )
    final_at = None if run.over_ns == FOREVER else run.over_ns + ns(params.lateness_s)
    return Conclusion(run.signs[0].window.begin_ns, last.window.end_ns, finding, str(begin), final_at)


def _begun(params: DegradingParams, run: _Run, case: Sign) -> int:
    """The first of the windows that made the first case."""
    since = case.window.end_ns - ns(params.span_s)
    return min(sign.window.begin_ns for sign in run.signs if sign.window.end_ns > since)


_ORDER = ("losing", "noisy", "rx_symbol_errors", "link_error_recoveries", "fading", TREND)


def _strongest(cases: Sequence[Sign]) -> list[Sign]:
    """Of each rule and end the sign that says most, whichever source told it; the gravest rule first.

    Of forecasts it is the newest.
    """
    best: dict[tuple[str, Metric | None, str, str], Sign] = {}
    for case in cases:
        at = (case.rule, case.metric if case.rule in ("fading", TREND) else None, *case.side[:2])
        if at not in best or case.rule == TREND or case.observed > best[at].observed:
            best[at] = case
    return sorted(best.values(), key=lambda case: (_ORDER.index(case.rule), -case.observed, case.side))


def _forecast(run: _Run) -> Forecast | None:
    """The nearest of what the newest steps foretell; none once the limit is reached."""
    if any(case.rule == "noisy" for case in run.cases):
        return None
    newest = {(case.side, case.metric, case.index): case.reach for case in run.cases if case.reach is not None}
    reaches = [found for found in newest.values() if found is not None]
    if not reaches:
        return None
    nearest = min(reaches, key=lambda found: found.at_ns)
    return Forecast(nearest.at_ns, nearest.earliest_ns, nearest.latest_ns)


def _headline(case: Sign) -> str:
    end = f"{case.side[0]}/{case.side[1]}"
    match case.rule:
        case "losing":
            return f"loses frames: {case.observed:.0f} at {end}"
        case "noisy":
            return f"is noisy: pre-FEC BER {case.observed:.1e} at {end}"
        case "fading":
            return f"has lost {case.observed:.1f} dB of {LEVELS[case.metric]} at {end}"
        case "trend":
            assert case.reach is not None
            hours = (case.reach.at_ns - case.window.at_ns) / 3.6e12
            return f"gets worse: its {_level(case)} at {end} reaches {_limit(case)} in about {hours:.1f} h"
        case _:
            return f"counts {case.observed:.0f} {case.metric.name.lower()} a minute at {end}"


def _level(case: Sign) -> str:
    return LEVELS.get(case.metric, "pre-FEC BER")


def _limit(case: Sign) -> str:
    return f"{case.expected:.1f}" if case.metric in LEVELS else f"{case.expected:.0e}"


def _evidence(params: DegradingParams, best: Sequence[Sign], run: _Run, minutes: Minutes) -> Iterator[Evidence]:
    for case in best:
        begin_ns = case.window.end_ns - ns(params.span_s)
        if case.reach is not None:
            begin_ns = min(s.window.begin_ns for s in run.cases if s.rule == TREND and s.side == case.side)
        yield Evidence(
            statement=f"{case.side[0]}/{case.side[1]}: {_statement(params, case)}",
            metric=case.metric.name.lower(),
            at=end_of(case.side),
            observed=case.observed,
            expected=case.expected,
            comparison="trend" if case.reach is not None else "threshold",
            window_start_ns=begin_ns,
            window_end_ns=case.window.end_ns,
        )
    for end in dict.fromkeys((case.side[0], case.side[1]) for case in best):
        windows = [w for w in minutes.windows if (w.device, w.port) == end and w.end_ns > run.signs[0].window.begin_ns]
        yield from _of_lanes(params, Endpoint(*end), windows)
        yield from _of_bins(Endpoint(*end), windows)


def _statement(params: DegradingParams, case: Sign) -> str:
    match case.rule:
        case "losing":
            how = case.metric.name.lower()
            return (
                f"{case.observed:.0f} frames lost in {params.span_s:g} s by {how}, in {params.windows} windows or more"
            )
        case "noisy":
            return f"pre-FEC BER {case.observed:.1e}, where {case.expected:.0e} fails"
        case "fading":
            lane = "" if case.index < 0 else f" on lane {case.index}"
            return f"{LEVELS[case.metric]}{lane} is {case.observed:.1f} dB below the best of the last week"
        case "trend":
            assert case.reach is not None
            first, last = ((at - case.window.at_ns) / 3.6e12 for at in (case.reach.earliest_ns, case.reach.latest_ns))
            return f"{_level(case)} {case.observed:.2g} reaches {_limit(case)} in {first:.1f} to {last:.1f} h (95 %)"
        case _:
            return f"{case.observed:.0f} {case.metric.name.lower()} a minute"


def _lanes(windows: Sequence[Window]) -> dict[int, float]:
    counts: dict[int, float] = {}
    for window in windows:
        for lane, count, _ in each(window, Metric.LANE_RAW_ERRORS):
            counts[lane] = counts.get(lane, 0.0) + count
    return counts


def _worst_lane(params: DegradingParams, windows: Sequence[Window]) -> tuple[int, float] | None:
    """The lane that has most of the raw errors, and its share."""
    lanes = _lanes(windows)
    whole = sum(lanes.values())
    if len(lanes) < 2 or not whole:
        return None
    lane = max(lanes, key=lambda lane: lanes[lane])
    share = lanes[lane] / whole
    return (lane, share) if share >= params.one_lane else None


def _of_lanes(params: DegradingParams, end: Endpoint, windows: Sequence[Window]) -> Iterator[Evidence]:
    if (worst := _worst_lane(params, windows)) is not None:
        lane, share = worst
        yield Evidence(
            f"{end.device}/{end.port}: lane {lane} has {share:.1%} of the raw errors of {len(_lanes(windows))} lanes",
            "lane_raw_errors", end, observed=share, expected=1 / len(_lanes(windows)), comparison="peers",
            peers=len(_lanes(windows)) - 1, window_start_ns=windows[0].begin_ns, window_end_ns=windows[-1].end_ns,
        )  # fmt: skip


def _of_bins(end: Endpoint, windows: Sequence[Window]) -> Iterator[Evidence]:
    counts: dict[int, float] = {}
    for window in windows:
        for errors, count, _ in each(window, Metric.FEC_CODEWORDS_BY_ERRORS):
            counts[errors] = counts.get(errors, 0.0) + count
    found = fec_tail([counts.get(errors, 0.0) for errors in range(max(counts) + 1)]) if counts else None
    if found is not None:
        yield Evidence(
            f"{end.device}/{end.port}: its FEC bins foretell {found[0]:.1e} of codewords lost (R2 {found[1]:.2f})",
            "fec_codewords_by_errors", end, observed=found[0], comparison="trend",
            window_start_ns=windows[0].begin_ns, window_end_ns=windows[-1].end_ns,
        )  # fmt: skip


def _cause(params: DegradingParams, history: History, run: _Run, minutes: Minutes) -> str:
    """Which part, as DETECTION 4 tells it from the symptom."""
    ends = {(case.side[0], case.side[1]) for case in run.cases}
    begin_ns = run.signs[0].window.begin_ns
    own = [w for w in minutes.windows if (w.device, w.port) in ends and w.end_ns > begin_ns]
    if any(_worst_lane(params, [w for w in own if (w.device, w.port) == end]) for end in ends):
        return "optic"
    if len(ends) > 1 or any(case.metric in LEVELS for case in run.cases):
        return "cable"
    if not any(metric in LEVELS for window in own for metric in window.metric):
        return "unknown"
    lower = history.subject.a
    at_host = lower is not None and (lower.device, lower.port) in ends and history.subject.role == "host-link"
    return "nic" if at_host else "switch"


def loses_traffic(finding: Finding) -> bool:
    """Whether frames are lost, and not only corrected or foretold."""
    names = {metric.name.lower() for metric in LOSSES}
    return any(evidence.metric in names for evidence in finding.evidence)
