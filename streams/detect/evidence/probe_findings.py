"""The episode of a period of verdicts on active probes, and its evidence."""

from collections.abc import Mapping
from typing import Any

from streams.detect.evidence.episodes import Conclusion
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.probe_verdicts import ProbePeriod, ProbeStatement, ProbeVerdict, period_end_ns
from streams.detect.thresholds import ns
from streams.wire.models import Endpoint, Evidence, Finding, Severity, Source


def conclusion(
    fields: Mapping[str, Any], period: ProbePeriod, clear_s: float, settings: SharedSettings, watermark_ns: int
) -> Conclusion:
    """Return the episode of a period; `fields` of the finding are those of the detector, its subject and its cause."""
    end_ns = period_end_ns(period, ns(clear_s), watermark_ns)
    is_over, worst = end_ns != FOREVER, period.worst
    finding = Finding(
        **fields,
        severity=Severity.WARNING,
        started_at_ns=period.begin_ns,
        observed_at_ns=period.last_ns,
        resolved_at_ns=period.last_ns if is_over else None,
        detected_at_ns=period.opened_ns,
        summary=worst.summary,
        evidence=tuple(_evidence(one, worst) for one in worst.statements),
        confidence=worst.confidence,
    )
    final_at_ns = period.end_ns + ns(clear_s + settings.lateness_s) if is_over else None
    return Conclusion(period.begin_ns, end_ns, finding, str(period.begin_ns), final_at_ns, is_continuous=True)


def _evidence(statement: ProbeStatement, worst: ProbeVerdict) -> Evidence:
    at = Endpoint(statement.device, statement.port) if statement.device else None
    return Evidence(
        statement.text, metric="probe_loss", at=at, observed=statement.observed, expected=statement.expected,
        comparison="threshold", window_start_ns=worst.begin_ns, window_end_ns=worst.last_ns, source=Source.SOURCE_PROBE,
    )  # fmt: skip
