"""How a link that degrades is told: its headline, its evidence, and which lane is the bad one."""

from collections.abc import Iterator, Sequence

from streams.detect.detectors.link_degrading.params import DegradingParams
from streams.detect.detectors.link_degrading.rules import LEVELS, TREND, RuleHit
from streams.detect.evidence.trend import uncorrectable_probability
from streams.detect.evidence.window_history import WindowHistory, indexed_values, side_endpoint
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.models import Endpoint, Evidence, Window

_ORDER = ("losing", "noisy", "rx_symbol_errors", "link_error_recoveries", "fading", TREND)


def strongest_hits(cases: Sequence[RuleHit]) -> list[RuleHit]:
    """Of each rule and end the sign that says most, whichever source told it; the gravest rule first.

    Of forecasts it is the newest.
    """
    best: dict[tuple[str, Metric | None, str, str], RuleHit] = {}
    for case in cases:
        at = (case.rule, case.metric if case.rule in ("fading", TREND) else None, *case.side[:2])
        if at not in best or case.rule == TREND or case.observed > best[at].observed:
            best[at] = case
    return sorted(best.values(), key=lambda case: (_ORDER.index(case.rule), -case.observed, case.side))


def headline(case: RuleHit) -> str:
    """What its strongest sign says, in half a sentence."""
    end = f"{case.side[0]}/{case.side[1]}"
    match case.rule:
        case "losing":
            return f"loses frames: {case.observed:.0f} at {end}"
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


def _level(case: RuleHit) -> str:
    return LEVELS.get(case.metric, "pre-FEC BER")


def _limit(case: RuleHit) -> str:
    return f"{case.expected:.1f}" if case.metric in LEVELS else f"{case.expected:.0e}"


def evidence_of(
    params: DegradingParams, best: Sequence[RuleHit], signs: Sequence[RuleHit], minutes: WindowHistory
) -> Iterator[Evidence]:
    """The best sign of each rule and end, then what lanes and FEC bins say there; `signs` are all of the episode."""
    for case in best:
        begin_ns = case.window.end_ns - ns(params.span_s)
        if case.forecast is not None:
            begin_ns = min(s.window.begin_ns for s in signs if s.is_case and s.rule == TREND and s.side == case.side)
        yield Evidence(
            statement=f"{case.side[0]}/{case.side[1]}: {_statement(params, case)}",
            metric=case.metric.name.lower(),
            at=side_endpoint(case.side),
            observed=case.observed,
            expected=case.expected,
            comparison="trend" if case.forecast is not None else "threshold",
            window_start_ns=begin_ns,
            window_end_ns=case.window.end_ns,
        )
    for end in dict.fromkeys((case.side[0], case.side[1]) for case in best):
        windows = [w for w in minutes.windows if (w.device, w.port) == end and w.end_ns > signs[0].window.begin_ns]
        yield from _of_lanes(params, Endpoint(*end), windows)
        yield from _of_bins(Endpoint(*end), windows)


def _statement(params: DegradingParams, case: RuleHit) -> str:
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
            assert case.forecast is not None
            first, last = (
                (at - case.window.at_ns) / 3.6e12 for at in (case.forecast.earliest_ns, case.forecast.latest_ns)
            )
            return f"{_level(case)} {case.observed:.2g} reaches {_limit(case)} in {first:.1f} to {last:.1f} h (95 %)"
        case _:
            return f"{case.observed:.0f} {case.metric.name.lower()} a minute"


def _lanes(windows: Sequence[Window]) -> dict[int, float]:
    counts: dict[int, float] = {}
    for window in windows:
        for lane, count, _ in indexed_values(window, Metric.LANE_RAW_ERRORS):
            counts[lane] = counts.get(lane, 0.0) + count
    return counts


def worst_lane(params: DegradingParams, windows: Sequence[Window]) -> tuple[int, float] | None:
    """The lane that has most of the raw errors, and its share."""
    lanes = _lanes(windows)
    whole = sum(lanes.values())
    if len(lanes) < 2 or not whole:
        return None
    lane = max(lanes, key=lambda lane: lanes[lane])
    share = lanes[lane] / whole
    return (lane, share) if share >= params.one_lane else None


def _of_lanes(params: DegradingParams, end: Endpoint, windows: Sequence[Window]) -> Iterator[Evidence]:
    if (worst := worst_lane(params, windows)) is not None:
        lane, share = worst
        yield Evidence(
            f"{end.device}/{end.port}: lane {lane} has {share:.1%} of the raw errors of {len(_lanes(windows))} lanes",
            "lane_raw_errors", end, observed=share, expected=1 / len(_lanes(windows)), comparison="peers",
            peers=len(_lanes(windows)) - 1, window_start_ns=windows[0].begin_ns, window_end_ns=windows[-1].end_ns,
        )  # fmt: skip


def _of_bins(end: Endpoint, windows: Sequence[Window]) -> Iterator[Evidence]:
    counts: dict[int, float] = {}
    for window in windows:
        for errors, count, _ in indexed_values(window, Metric.FEC_CODEWORDS_BY_ERRORS):
            counts[errors] = counts.get(errors, 0.0) + count
    found = (
        uncorrectable_probability([counts.get(errors, 0.0) for errors in range(max(counts) + 1)]) if counts else None
    )
    if found is not None:
        yield Evidence(
            f"{end.device}/{end.port}: its FEC bins foretell {found[0]:.1e} of codewords lost (R2 {found[1]:.2f})",
            "fec_codewords_by_errors", end, observed=found[0], comparison="trend",
            window_start_ns=windows[0].begin_ns, window_end_ns=windows[-1].end_ns,
        )  # fmt: skip
