"""The finding of rail/unreachable: the rail, who does not reach it, and that the host's other rails answer."""

from streams.detect.detector import Context
from streams.detect.detectors.rail_unreachable.params import UnreachableParams
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_verdicts import ProbePeriod, ProbeStatement, ProbeVerdict, period_end_ns
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Evidence,
    Finding,
    RailProbes,
    Severity,
    Source,
    Subject,
)

SLUG = "rail/unreachable"
VERSION = "1"


def verdict(params: UnreachableParams, window: RailProbes, topology: Topology) -> ProbeVerdict:
    """Return the verdict on a window in which the rail is not reached."""
    name = f"{window.device}/{window.port}"
    link = topology.link_at(Port(window.device, window.port))
    behind = f" behind {link.upper.device}" if link is not None else ""
    statements = (
        ProbeStatement(
            f"{window.to_lost} of {window.to_sent} probes of {window.peers} hosts to {name}{behind} are lost",
            window.device, window.port, window.to_lost / max(1, window.to_sent), params.unreached_ratio,
        ),
        ProbeStatement(
            f"{window.own_lost} of {window.own_sent} probes from {name} are lost",
            window.device, window.port, window.own_lost / max(1, window.own_sent), params.unreached_ratio,
        ),
        ProbeStatement(
            f"{window.others_lost} of {window.others_sent} probes from the other rails of {window.device} are lost",
            window.device, "", window.others_lost / max(1, window.others_sent), params.others_ratio,
        ),
    )  # fmt: skip
    lost, sent = window.to_lost + window.own_lost, window.to_sent + window.own_sent
    summary = f"{name} answers no probe, while the other rails of {window.device} do"
    return ProbeVerdict(window.begin_ns, window.end_ns, window.end_ns, lost, sent, summary, statements)


def conclusion(params: UnreachableParams, context: Context, subject: Subject, period: ProbePeriod) -> Conclusion:
    """Return the episode of a period."""
    end_ns = period_end_ns(period, ns(params.clear_s), context.watermark_ns)
    is_over, worst = end_ns != FOREVER, period.worst
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.RAIL_UNREACHABLE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=period.begin_ns,
        observed_at_ns=period.last_ns,
        resolved_at_ns=period.last_ns if is_over else None,
        detected_at_ns=period.opened_ns,
        summary=worst.summary,
        cause=Cause.UNKNOWN,
        evidence=tuple(_evidence(one, worst) for one in worst.statements),
        confidence=worst.confidence,
        coverage=Coverage(seen=1, expected=1),
    )
    final_at_ns = period.end_ns + ns(params.clear_s + context.settings.lateness_s) if is_over else None
    return Conclusion(period.begin_ns, end_ns, finding, str(period.begin_ns), final_at_ns, is_continuous=True)


def _evidence(statement: ProbeStatement, worst: ProbeVerdict) -> Evidence:
    return Evidence(
        statement.text, metric="probe_loss", at=Endpoint(statement.device, statement.port), observed=statement.observed,
        expected=statement.expected, comparison="threshold", window_start_ns=worst.begin_ns,
        window_end_ns=worst.last_ns, source=Source.SOURCE_PROBE,
    )  # fmt: skip
