"""The finding of link/flap."""

from collections.abc import Iterable

from streams.detect.detector import Context
from streams.detect.detectors.link_flap.downs import Hit
from streams.detect.detectors.link_flap.params import FLAP_PRESETS, FlapParams
from streams.detect.evidence.confidence import BOTH_ENDS, ONE_END
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import LinkHistory
from streams.detect.evidence.port_faults import fault_cause, fault_evidence, reported_faults
from streams.detect.evidence.subjects import link_name
from streams.detect.thresholds import ns
from streams.wire.models import Cause, Condition, Endpoint, Evidence, Finding, Severity, Source, Symptom
from streams.wire.symptoms import SymptomKind

SLUG = "link/flap"
VERSION = "1"

_METRICS = {
    SymptomKind.WENT_DOWN: ("oper_up", "its state"),
    SymptomKind.DOWNS_COUNTED: ("link_down_events", "its counter of downs"),
    SymptomKind.TRANSITIONS_COUNTED: ("link_transitions", "its counter of transitions"),
}


def conclusion(
    params: FlapParams, context: Context, history: LinkHistory, run: list[Symptom], hits: list[Hit], before_ns: int
) -> Conclusion:
    """Return the episode of a run. `before_ns` is the end of the episode before it, whose downs do not begin this."""
    begin, last = run[0].at_ns, run[-1].at_ns
    first = min(hits, key=lambda hit: (hit.at_ns, hit.since_ns))
    most = max(hits, key=lambda hit: (hit.downs, -hit.at_ns))
    quiet = ns(params.quiet_s)
    resolved = context.watermark_ns >= last + quiet
    ports = {(s.device, s.port) for s in run}
    reporters = [end for end in history.ends() if (end.device, end.port) in ports]
    faults = reported_faults(history, (begin, last))
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.LINK_FLAP,
        severity=Severity.WARNING,
        subject=history.subject,
        started_at_ns=first.since_ns if first.since_ns > before_ns else begin,
        observed_at_ns=last,
        resolved_at_ns=last if resolved else None,
        detected_at_ns=first.at_ns,
        summary=f"{link_name(history.subject)} went down {most.downs} times",
        cause=fault_cause(faults, Cause.UNKNOWN),
        evidence=(*(_evidence(end, hits, run) for end in reporters), *fault_evidence(faults, (begin, last))),
        confidence=BOTH_ENDS if len(reporters) > 1 else ONE_END,
        coverage=history.coverage(reporters),
    )
    downs = tuple(dict.fromkeys(s.at_ns for s in run if s.kind is SymptomKind.WENT_DOWN))
    return Conclusion(begin, last, finding, str(begin), last + quiet + ns(context.settings.lateness_s), downs)


def _most_by_one_source(symptoms: Iterable[Symptom]) -> list[int]:
    """Return the times of the changes of an end by the source and kind of evidence with most: others show the same."""
    times: dict[tuple[bool, bool, Source], list[int]] = {}
    for symptom in symptoms:
        is_state = symptom.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)
        times.setdefault((is_state, symptom.by_event, symptom.source), []).append(symptom.at_ns)
    return max(times.values(), key=len)


def _evidence(end: Endpoint, hits: list[Hit], run: list[Symptom]) -> Evidence:
    """Return the best count of one end where it met a preset, otherwise the number of its transitions."""
    own = [hit for hit in hits if hit.counter.end == end]
    if not own:
        at = _most_by_one_source(s for s in run if (s.device, s.port) == (end.device, end.port))
        return Evidence(
            f"{end.device}/{end.port} changed state or counted changes {len(at)} times", at=end,
            comparison="both-ends", window_start_ns=at[0], window_end_ns=at[-1],
        )  # fmt: skip
    best = max(own, key=lambda hit: (hit.downs, -hit.at_ns))
    metric, how = _METRICS[best.counter.kind]
    preset = FLAP_PRESETS[best.preset]
    return Evidence(
        statement=f"{end.device}/{end.port} went down {best.downs} times in {preset.window_s:g} s"
        f" by {'its events' if best.counter.by_event else how} (preset {best.preset})",
        metric=metric,
        at=end,
        observed=float(best.downs),
        expected=float(preset.downs),
        comparison="threshold",
        window_start_ns=best.since_ns,
        window_end_ns=best.at_ns,
    )
