"""telemetry/stale: a source that was seen, or should be, says nothing any more.

Opens when `measure` finds it silent past its limit; resolves when it is heard again. A gap that only the next sample
reveals is a finding too, already resolved. Which it is (collector, device or one path dead) is said by the cause;
a device that its neighbours lost as well is concluded in device_down.py and explains this one.
"""

from dataclasses import dataclass, replace

from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
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
    Source,
    Subject,
)
from streams.wire.symptoms import SourceSilence

SLUG = "telemetry/stale"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class Silence:
    """One source of one device was not heard in [since_ns, heard_ns); `told_ns` is when the limit was passed."""

    source: Source
    since_ns: int
    detected_ns: int
    resumed_ns: int = FOREVER
    boot_id: int = 0
    collector: str = ""
    collector_silent: bool = False
    collector_error: str = ""
    others: int = 0
    """Sources of the device that were heard at `told_ns`."""

    def name(self) -> str:
        """The source as people call it."""
        return self.source.label


def step(
    params: DetectParams, state: PublishedEpisodes, subject: Subject, silences: list[Silence], watermark_ns: int
) -> tuple[PublishedEpisodes, list[Episode]]:
    """Conclude on one source of a device."""
    conclusions = [_conclusion(params, subject, silence) for silence in silences]
    return reconcile(state, conclusions, watermark_ns)


def update_silences(
    params: StaleParams, silences: list[Silence], source: Source, since_ns: int, at_ns: int, observed: SourceSilence
) -> list[Silence]:
    """The silences of a source after it fell silent or was heard again; the latter may be the first word of a gap."""
    heard, limit_ns = observed.has_resumed, params.limit_ns(observed.cadence_ns)
    if heard and at_ns - since_ns <= limit_ns:
        # What was late fills the gap: there was no silence.
        return [silence for silence in silences if silence.since_ns != since_ns]
    if any(s.since_ns == since_ns for s in silences):
        return [replace(s, resumed_ns=at_ns) if heard and s.since_ns == since_ns else s for s in silences]
    told_ns = min(at_ns, since_ns + limit_ns) if heard else at_ns
    silence = Silence(
        source, since_ns, told_ns, at_ns if heard else FOREVER, observed.boot_id, observed.collector,
        observed.collector_silent, observed.collector_error, observed.live_sources,
    )  # fmt: skip
    return [*silences, silence]


def _conclusion(params: DetectParams, subject: Subject, silence: Silence) -> Conclusion:
    over = silence.resumed_ns != FOREVER
    device = subject.a.device if subject.a else ""
    said = f"; collector {silence.collector} says: {silence.collector_error}" if silence.collector_error else ""
    if silence.collector_silent:
        said = f"; its collector {silence.collector} is silent too"
    evidence = Evidence(
        statement=f"{silence.name()} of {device} brought nothing{said}",
        at=Endpoint(device),
        observed=((silence.resumed_ns if over else silence.detected_ns) - silence.since_ns) / 1e9,
        expected=(silence.detected_ns - silence.since_ns) / 1e9,
        comparison="threshold",
        window_start_ns=silence.since_ns,
        window_end_ns=silence.resumed_ns if over else silence.detected_ns,
        collector=silence.collector,
        source=silence.source,
        error=silence.collector_error,
    )
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.TELEMETRY_STALE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=silence.since_ns,
        observed_at_ns=silence.resumed_ns if over else silence.detected_ns,
        resolved_at_ns=silence.resumed_ns if over else None,
        detected_at_ns=silence.detected_ns,
        summary=f"{device}: no telemetry by {silence.name()}",
        cause=Cause.COLLECTOR if silence.collector_silent else Cause.PATH if silence.others else Cause.UNKNOWN,
        evidence=(evidence,),
        confidence=1.0,
        coverage=Coverage(seen=silence.others, expected=silence.others + 1, missing=(f"{device}/{silence.name()}",)),
    )
    final_at = silence.resumed_ns + ns(params.lateness_s) if over else None
    end = silence.resumed_ns - 1 if over else FOREVER
    return Conclusion(silence.since_ns, end, finding, f"{silence.name()}/{silence.since_ns}", final_at)
