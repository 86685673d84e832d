"""link/degrading: detects a link that is up but loses frames or sends them again, corrects more errors, or loses light.

Opens when several windows within ten minutes are bad, never for a single error. Closes when the port was healthy for
`quiet_s`, and stays open while it is not read. rules.py finds bad windows; evidence/trend.py forecasts when a limit
will be crossed. Losses by congestion, or of a link that goes down, do not count; see link_flap.
"""

from collections.abc import Iterator, Sequence

from streams.detect.detector import Context, Detector, FaultOf, JobDomain, Placement
from streams.detect.detectors.link_degrading.rules import (
    LEVELS,
    LOSSES,
    OF_BITS,
    OF_FAR_RECEIVER,
    PLR,
    TREND,
    DegradingParams,
    has_step,
    rule_hits,
)
from streams.detect.evidence.episodes import Conclusion, confidence_of, evidence_of
from streams.detect.evidence.link_history import LinkHistory
from streams.detect.evidence.port_faults import fault_cause, fault_evidence, reported_faults
from streams.detect.evidence.subjects import link_coverage, link_name
from streams.detect.evidence.trend import uncorrectable_probability
from streams.detect.evidence.windows import BadRun, WindowHit, WindowRules, indexed_values, side_endpoint
from streams.detect.fabric_side import FabricSide, SeverityContext, part_keys
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Cause, Condition, Endpoint, Evidence, Finding, Forecast, Severity, Window

HINTS = {
    Cause.CABLE: "transceiver or cable: clean or reseat both ends, then replace",
    Cause.OPTIC: "one lane: fiber or laser",
    Cause.NIC: "good optical levels but errors: the NIC's port",
    Cause.SWITCH: "good optical levels but errors: the switch's port",
    Cause.UNKNOWN: "clean or reseat, then transceiver or cable",
}
"""Repair hints by cause (DETECTION 4)."""

_ORDER = ("losing", "replaying", "noisy", "rx_symbol_errors", "link_error_recoveries", "fading", TREND)


def _conclusion(
    params: DegradingParams, context: Context, link: LinkHistory, windows: Sequence[Window], run: BadRun
) -> Conclusion:
    """Return the episode of a run. `windows` has all retained windows of the link."""
    first, last = run.cases[0], run.hits[-1].window
    since_ns = first.window.end_ns - ns(params.span_s)
    begin = min(hit.window.begin_ns for hit in run.hits if hit.window.end_ns > since_ns)
    ports = {(hit.side[0], hit.side[1]) for hit in run.hits if hit.rule != TREND or hit.is_case}
    reporters = [end for end in link.ends() if (end.device, end.port) in ports]
    resolved = context.watermark_ns >= run.ends_at_ns
    best = strongest_hits(run.cases)
    span = begin, last.end_ns
    faults = reported_faults(link, span)
    cause = fault_cause(faults, _cause(params, link, run, windows))
    return Conclusion(
        link.subject, run.hits[0].window.begin_ns, last.end_ns,
        opened_ns=first.window.end_ns + ns(context.settings.lateness_s), seen_ns=last.at_ns,
        resolved_ns=last.end_ns if resolved else None, over_ns=run.ends_at_ns,
        summary=f"{link_name(link.subject)} {headline(best[0])}; {HINTS[cause]}",
        cause=cause,
        evidence=(*_evidence(params, context, best, run.hits, windows), *fault_evidence(faults, span)),
        confidence=confidence_of(reporters),
        coverage=link_coverage(link.subject, reporters),
        severity=Severity.INFO if all(case.rule in (TREND, "fading") for case in run.cases) else Severity.WARNING,
        started_ns=begin,
        anchor=str(begin),
        forecast=None if resolved else _forecast(run),
    )  # fmt: skip


def _forecast(run: BadRun) -> Forecast | None:
    """Return the nearest crossing by the newest steps; None once the limit is reached."""
    if any(case.rule == "noisy" for case in run.cases):
        return None
    newest = {(case.side, case.metric, case.index): case.forecast for case in run.cases if case.forecast is not None}
    crossings = [crossing for crossing in newest.values() if crossing is not None]
    if not crossings:
        return None
    nearest = min(crossings, key=lambda crossing: crossing.at_ns)
    return Forecast(nearest.at_ns, nearest.earliest_ns, nearest.latest_ns)


def _cause(params: DegradingParams, link: LinkHistory, run: BadRun, windows: Sequence[Window]) -> Cause:
    """Return the part at fault, by the symptoms of DETECTION 4."""
    ends = {_receiver(link, case) for case in run.cases}
    begin_ns = run.hits[0].window.begin_ns
    own = [w for w in windows if (w.device, w.port) in ends and w.end_ns > begin_ns]
    if any(worst_lane(params, [w for w in own if (w.device, w.port) == end]) for end in ends):
        return Cause.OPTIC
    if len(ends) > 1 or any(case.metric in LEVELS for case in run.cases):
        return Cause.CABLE
    if not any(metric in LEVELS for window in own for metric in window.metric):
        return Cause.UNKNOWN
    lower = link.subject.a
    at_host = lower is not None and (lower.device, lower.port) in ends and link.subject.role == HOST_LINK
    return Cause.NIC if at_host else Cause.SWITCH


def _receiver(link: LinkHistory, case: WindowHit) -> tuple[str, str]:
    """Return the end at which frames arrive damaged: that of the hit, or the far end of a transmitter."""
    own = case.side[:2]
    if case.metric not in OF_FAR_RECEIVER:
        return own
    return next(((end.device, end.port) for end in link.ends() if (end.device, end.port) != own), own)


def strongest_hits(cases: Sequence[WindowHit]) -> list[WindowHit]:
    """Return the largest hit of each rule and end from any source, and the newest forecasts; worst rule first."""
    best: dict[tuple[str, Metric | None, str, str], WindowHit] = {}
    for case in cases:
        at = (case.rule, case.metric if case.rule in ("fading", TREND) else None, *case.side[:2])
        if at not in best or case.rule == TREND or case.observed > best[at].observed:
            best[at] = case
    return sorted(best.values(), key=lambda case: (_ORDER.index(case.rule), -case.observed, case.side))


def headline(case: WindowHit) -> str:
    """Return the strongest hit as the predicate of a sentence."""
    end = f"{case.side[0]}/{case.side[1]}"
    match case.rule:
        case "losing":
            return f"loses frames: {case.observed:.0f} at {end}"
        case "replaying":
            return f"replays frames: {case.observed:.0f} at {end}, none lost"
        case "noisy":
            return f"is noisy: pre-FEC BER {case.observed:.1e} at {end}"
        case "fading":
            return f"has lost {case.observed:.1f} dB of {LEVELS[case.metric]} at {end}"
        case "trend":
            assert case.forecast is not None
            hours = (case.forecast.at_ns - case.window.at_ns) / 3.6e12
            return f"gets worse: its {_level(case)} at {end} reaches {_limit(case)} in about {hours:.1f} h"
        case _:
            return f"counts {case.observed:.0f} {case.metric.name.lower()} a minute at {end}"


def _level(case: WindowHit) -> str:
    return LEVELS.get(case.metric, "pre-FEC BER")


def _limit(case: WindowHit) -> str:
    return f"{case.expected:.1f}" if case.metric in LEVELS else f"{case.expected:.0e}"


def _evidence(
    params: DegradingParams,
    context: Context,
    best: Sequence[WindowHit],
    hits: Sequence[WindowHit],
    all_windows: Sequence[Window],
) -> Iterator[Evidence]:
    """Yield the strongest hits, then the lanes and FEC bins of their ends; `hits` has all hits of the episode."""
    for case in best:
        begin_ns = case.window.end_ns - ns(params.span_s)
        if case.forecast is not None:
            begin_ns = min(s.window.begin_ns for s in hits if s.is_case and s.rule == TREND and s.side == case.side)
        yield evidence_of(
            f"{case.side[0]}/{case.side[1]}: {_statement(params, context, case)}", case.metric.name.lower(),
            side_endpoint(case.side), (begin_ns, case.window.end_ns), case.observed, case.expected,
            "trend" if case.forecast is not None else "threshold",
        )  # fmt: skip
    for end in dict.fromkeys((case.side[0], case.side[1]) for case in best):
        windows = [w for w in all_windows if (w.device, w.port) == end and w.end_ns > hits[0].window.begin_ns]
        yield from _of_lanes(params, Endpoint(*end), windows)
        yield from _of_bins(Endpoint(*end), windows)


def _statement(params: DegradingParams, context: Context, case: WindowHit) -> str:
    match case.rule:
        case "losing":
            how = case.metric.name.lower() + _as_ber(params, context, case)
            return (
                f"{case.observed:.0f} frames lost in {params.span_s:g} s by {how}, in {params.windows} windows or more"
            )
        case "replaying":
            how, cost = case.metric.name.lower(), _cost(params, context, case)
            return f"{case.observed:.0f} frames replayed in {params.span_s:g} s by {how}, {cost}"
        case "noisy":
            return f"pre-FEC BER {case.observed:.1e}, where {case.expected:.0e} fails"
        case "fading":
            lane = "" if case.index < 0 else f" on lane {case.index}"
            return f"{LEVELS[case.metric]}{lane} is {case.observed:.1f} dB below the best of the last week"
        case "trend":
            assert case.forecast is not None
            first, last = (
                (at - case.window.at_ns) / 3.6e12 for at in (case.forecast.earliest_ns, case.forecast.latest_ns)
            )
            return f"{_level(case)} {case.observed:.2g} reaches {_limit(case)} in {first:.1f} to {last:.1f} h (95 %)"
        case _:
            return f"{case.observed:.0f} {case.metric.name.lower()} a minute"


def _as_ber(params: DegradingParams, context: Context, case: WindowHit) -> str:
    """Return the errors of InfiniBand as a BER; empty for another metric or a link of unknown speed."""
    cable = context.topology.link_at(Port(*case.side[:2])) if case.metric is OF_BITS else None
    if cable is None or not cable.speed_bps:
        return ""
    return f" (a BER of {case.observed / (cable.speed_bps * params.span_s):.0e}, {params.ib_ber:.0e} permitted)"


def _cost(params: DegradingParams, context: Context, case: WindowHit) -> str:
    """Return what replays cost: at most the outstanding bytes each."""
    cable = context.topology.link_at(Port(*case.side[:2]))
    if case.metric in PLR:
        return "whose cost the link does not report"
    if cable is None or not cable.speed_bps:
        return f"each of at most {params.replay_bytes:,.0f} bytes"
    ratio = case.observed * params.replay_bytes * 8 / (cable.speed_bps * params.span_s)
    return f"which cost at most {min(1.0, ratio):.1g} of its time"


def _sums(windows: Sequence[Window], metric: Metric) -> dict[int, float]:
    """Return the growth of a counter by lane or bin."""
    counts: dict[int, float] = {}
    for window in windows:
        for index, count, _ in indexed_values(window, metric):
            counts[index] = counts.get(index, 0.0) + count
    return counts


def worst_lane(params: DegradingParams, windows: Sequence[Window]) -> tuple[int, float] | None:
    """Return the lane with most of the raw errors, and its share; None if they are distributed."""
    lanes = _sums(windows, Metric.LANE_RAW_ERRORS)
    whole = sum(lanes.values())
    if len(lanes) < 2 or not whole:
        return None
    lane = max(lanes, key=lambda lane: lanes[lane])
    share = lanes[lane] / whole
    return (lane, share) if share >= params.one_lane else None


def _of_lanes(params: DegradingParams, end: Endpoint, windows: Sequence[Window]) -> Iterator[Evidence]:
    if (worst := worst_lane(params, windows)) is not None:
        (lane, share), lanes = worst, len(_sums(windows, Metric.LANE_RAW_ERRORS))
        yield evidence_of(
            f"{end.device}/{end.port}: lane {lane} has {share:.1%} of the raw errors of {lanes} lanes",
            "lane_raw_errors", end, (windows[0].begin_ns, windows[-1].end_ns), share, 1 / lanes, "peers", lanes - 1,
        )  # fmt: skip


def _of_bins(end: Endpoint, windows: Sequence[Window]) -> Iterator[Evidence]:
    counts = _sums(windows, Metric.FEC_CODEWORDS_BY_ERRORS)
    bins = [counts.get(errors, 0.0) for errors in range(max(counts, default=-1) + 1)]
    if (found := uncorrectable_probability(bins)) is not None:
        yield evidence_of(
            f"{end.device}/{end.port}: by its FEC bins {found[0]:.1e} of codewords will be lost (R2 {found[1]:.2f})",
            "fec_codewords_by_errors", end, (windows[0].begin_ns, windows[-1].end_ns), found[0], comparison="trend",
        )  # fmt: skip


_LOSS_METRICS = frozenset(metric.name.lower() for metric in (*LOSSES, Metric.LLR_TX_DISCARDS) if metric is not OF_BITS)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    link = context.link_of(finding)
    if link is None or link.role != HOST_LINK:
        return False
    permitted = DegradingParams.ib_ber * (link.speed_bps or 0) * DegradingParams.span_s
    loses_frames = any(
        evidence.metric in _LOSS_METRICS
        or (evidence.metric == OF_BITS.name.lower() and (evidence.observed or 0.0) > permitted)
        for evidence in finding.evidence
    )
    return loses_frames and context.has_job(link.lower.device, finding)


_RULES: WindowRules[DegradingParams] = WindowRules(
    hits=rule_hits,
    has_step=has_step,
    quiet_s=lambda params, hit: params.trend_over_s if hit.rule == TREND else params.quiet_s,
    conclude=_conclusion,
)

DETECTOR = Detector(
    Condition.LINK_DEGRADING,
    version="1",
    opens_when=(
        "lost or replayed frames, pre-FEC bit errors, falling optical power or SNR, in windows of a minute; with a "
        "forecast if the data support one"
    ),
    params=DegradingParams,
    section="degrading",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NETWORK,
    lemon=FaultOf.LINK,
    hidden_in={},
    fabric=FabricSide(
        is_shown_by_one_end=True, link_fault_rank=2, group_keys=part_keys, is_critical=_is_critical,
    ),
    pod=_RULES.pod_side(),
)  # fmt: skip
