"""The finding of path/loss for a link that is up without its session."""

from streams.detect.detector import Context
from streams.detect.detectors.path_loss.params import PathParams
from streams.detect.detectors.path_loss.report import SLUG, VERSION
from streams.detect.evidence.confidence import BOTH_ENDS, ONE_END
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.evidence.port_faults import fault_evidence, reported_faults
from streams.detect.evidence.subjects import link_name
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval
from streams.wire.models import Cause, Condition, Finding, Severity
from streams.wire.symptoms import SESSION_FAULTS, Fault

_NAMES = {Fault.BFD_SESSION_DOWN: "BFD", Fault.BGP_SESSION_DOWN: "BGP"}


def conclusion(params: PathParams, context: Context, history: LinkHistory, span: Interval) -> Conclusion:
    """Return the episode of an interval in which a session is down and the link is up."""
    begin, end = span
    faults = [one for one in reported_faults(history, span) if one.fault in SESSION_FAULTS and one.end_ns > begin]
    reporters = list(dict.fromkeys(one.end for one in faults))
    sessions = " and ".join(_NAMES[fault] for fault in SESSION_FAULTS if any(one.fault is fault for one in faults))
    is_over = end != FOREVER and end <= context.watermark_ns
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.PATH_LOSS,
        severity=Severity.WARNING,
        subject=history.subject,
        started_at_ns=begin,
        observed_at_ns=end if is_over else begin,
        resolved_at_ns=end if is_over else None,
        detected_at_ns=begin + ns(params.session_hold_s),
        summary=f"{link_name(history.subject)} is up, but its {sessions} session is down",
        cause=Cause.UNKNOWN,
        evidence=tuple(fault_evidence(faults, span)),
        confidence=BOTH_ENDS if len(reporters) > 1 else ONE_END,
        coverage=history.coverage(reporters),
    )
    final_at_ns = end + ns(context.settings.lateness_s) if end != FOREVER else None
    return Conclusion(begin, end, finding, f"session {begin}", final_at_ns)
