"""telemetry/stale: detects a source that delivers no data any more, although it did or should.

Opens when `measure` finds it silent past its limit; resolves when it resumes. A gap that only the next sample reveals
is a finding too, already resolved. The cause states which it is: a collector, a device, or one path. A device that its
neighbors lost as well is a finding of device/down and the parent of this one.
"""

from collections.abc import Mapping

from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.evidence.device_evidence import DeviceEvidence, Silence
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    finding_defaults,
    next_final_ns,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.fabric_side import DeviceEvaluation
from streams.detect.thresholds import ns
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Subject,
)

SLUG = "telemetry/stale"
VERSION = "1"


def evaluate(
    _: StaleParams,
    settings: SharedSettings,
    published: Mapping[str, PublishedEpisodes],
    evidence: DeviceEvidence,
    watermark_ns: int,
) -> DeviceEvaluation:
    """Conclude on each source of a device."""
    current: dict[str, PublishedEpisodes] = {}
    episodes: list[Episode] = []
    due_ns = FOREVER
    for source, silences in evidence.silences.items():
        conclusions = [_conclusion(settings, evidence.subject, silence) for silence in silences]
        current[source], changed = reconcile(published.get(source, ()), conclusions, watermark_ns)
        episodes += changed
        due_ns = min(due_ns, next_final_ns(conclusions, watermark_ns))
    return DeviceEvaluation(current, episodes, due_ns)


def _conclusion(settings: SharedSettings, subject: Subject, silence: Silence) -> Conclusion:
    is_over = silence.resumed_ns != FOREVER
    device = subject.a.device if subject.a else ""
    source = silence.source.label
    last_ns = silence.resumed_ns if is_over else silence.detected_ns
    finding = Finding(
        **finding_defaults(settings, SLUG, VERSION),
        condition=Condition.TELEMETRY_STALE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=silence.since_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=silence.resumed_ns if is_over else None,
        detected_at_ns=silence.detected_ns,
        summary=f"{device}: no telemetry from {source}",
        cause=_cause(silence),
        evidence=(_evidence(device, silence, last_ns),),
        confidence=1.0,
        coverage=Coverage(silence.live_sources, silence.live_sources + 1, missing=(f"{device}/{source}",)),
    )
    final_at_ns = silence.resumed_ns + ns(settings.lateness_s) if is_over else None
    end_ns = silence.resumed_ns - 1 if is_over else FOREVER
    return Conclusion(silence.since_ns, end_ns, finding, f"{source}/{silence.since_ns}", final_at_ns)


def _cause(silence: Silence) -> Cause:
    if silence.collector_silent:
        return Cause.COLLECTOR
    return Cause.PATH if silence.live_sources else Cause.UNKNOWN


def _evidence(device: str, silence: Silence, last_ns: int) -> Evidence:
    reason = ""
    if silence.collector_silent:
        reason = f"; its collector {silence.collector} is silent too"
    elif silence.collector_error:
        reason = f"; collector {silence.collector} reports: {silence.collector_error}"
    return Evidence(
        statement=f"{silence.source.label} of {device} delivered no data{reason}",
        at=Endpoint(device),
        observed=(last_ns - silence.since_ns) / 1e9,
        expected=(silence.detected_ns - silence.since_ns) / 1e9,
        comparison="threshold",
        window_start_ns=silence.since_ns,
        window_end_ns=last_ns,
        collector=silence.collector,
        source=silence.source,
        error=silence.collector_error,
    )
