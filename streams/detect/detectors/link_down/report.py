"""The finding of link/down."""

from streams.detect.detector import Context
from streams.detect.detectors.link_down.params import DownParams
from streams.detect.evidence.confidence import BOTH_ENDS, ONE_END
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.evidence.port_faults import fault_cause, fault_evidence, reported_faults
from streams.detect.evidence.subjects import link_name
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval
from streams.wire.models import Cause, Condition, Endpoint, Evidence, Finding, Severity
from streams.wire.symptoms import SymptomKind

SLUG = "link/down"
VERSION = "1"


def conclusion(params: DownParams, context: Context, history: LinkHistory, span: Interval) -> Conclusion | None:
    """Return the episode of an outage; None where it is too short, or not yet long enough."""
    begin, end = span
    opens_ns = begin + ns(params.open_after_s)
    if min(end, context.watermark_ns) < opens_ns:
        return None
    reporters = [
        e for e in history.ends() if any(b < min(end, opens_ns) and begin < until for b, until in history.downs(e))
    ]
    resolved = end != FOREVER and context.watermark_ns >= end + ns(params.hold_up_s)
    faults = reported_faults(history, span)
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.LINK_DOWN,
        severity=Severity.WARNING,
        subject=history.subject,
        started_at_ns=begin,
        observed_at_ns=end if resolved else _last_seen_down(history, span),
        resolved_at_ns=end if resolved else None,
        detected_at_ns=opens_ns,
        summary=f"{link_name(history.subject)} is down",
        cause=fault_cause(faults, Cause.UNKNOWN),
        evidence=(
            *(_evidence(params, history, reporter, begin) for reporter in reporters),
            *fault_evidence(faults, span),
        ),
        confidence=BOTH_ENDS if len(reporters) > 1 else ONE_END,
        coverage=history.coverage(reporters),
    )
    final_at = end + ns(params.hold_up_s + context.settings.lateness_s) if end != FOREVER else None
    return Conclusion(begin, end, finding, str(begin), final_at, (begin,))


def _last_seen_down(history: LinkHistory, span: Interval) -> int:
    """Return the time of the newest transition to down; a first reading that shows it down does not count."""
    begin, end = span
    downs = (s for s in history.symptoms if s.kind is SymptomKind.WENT_DOWN and (s.by_event or s.since_ns))
    return max((s.at_ns for s in downs if begin <= s.at_ns < end), default=begin)


def _evidence(params: DownParams, history: LinkHistory, end: Endpoint, begin: int) -> Evidence:
    since = next(b for b, until in history.downs(end) if until > begin)
    first = next((s for s in history.at(end) if s.kind is SymptomKind.WENT_DOWN and s.at_ns == since), None)
    how = "by an event" if first is not None and first.by_event else "by its state"
    return Evidence(
        statement=f"{end.device}/{end.port} reported down {how}",
        metric="oper_up",
        at=end,
        observed=0.0,
        expected=1.0,
        comparison="both-ends" if len(history.ends()) > 1 else "threshold",
        window_start_ns=max(since, begin),
        window_end_ns=begin + ns(params.open_after_s),
    )
