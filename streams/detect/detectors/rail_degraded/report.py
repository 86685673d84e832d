"""The finding of rail/degraded: the window that is furthest from its peers."""

from collections.abc import Sequence
from dataclasses import replace

from streams.detect.detector import Context
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.screening import RailReason, RailVerdict
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.hysteresis import BadPeriod
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject
from streams.wire.symptoms import Fault

SLUG = "rail/degraded"
VERSION = "1"

_CAUSES = {
    RailReason.SLOW: Cause.UNKNOWN, RailReason.TRAINED_LOW: Cause.NIC, RailReason.RETRANSMITS: Cause.UNKNOWN,
    RailReason.PCIE: Cause.PCIE,
}  # fmt: skip
_METRICS = {
    RailReason.SLOW: "tx_bytes", RailReason.TRAINED_LOW: "speed_bps", RailReason.RETRANSMITS: "local_ack_timeouts",
    RailReason.PCIE: "pcie_stalled_read_seconds",
}  # fmt: skip
_FAULTS = (Fault.RETRIES_EXCEEDED, Fault.CORRUPT_PACKETS, Fault.PCIE_SIGNAL, Fault.SLOT_POWER, Fault.NIC_FIRMWARE)
_ORDER = (RailReason.TRAINED_LOW, RailReason.PCIE, RailReason.SLOW, RailReason.RETRANSMITS)


def is_case(params: RailParams, bad: Sequence[RailVerdict]) -> bool:
    """Return whether these bad windows suffice for an episode."""
    return len(bad) >= params.bad_windows or any(verdict.reason is RailReason.TRAINED_LOW for verdict in bad)


def conclusion(params: RailParams, context: Context, subject: Subject, period: BadPeriod[RailVerdict]) -> Conclusion:
    """Return the episode of a bad period."""
    bad, ended_at_ns = period.bad, period.ended_at_ns
    first, last = bad[0], bad[-1]
    worst = _worst(bad)
    subject = _at_port(context, subject, worst.port)
    opened = next(bad[n] for n in range(len(bad)) if is_case(params, bad[: n + 1]))
    at = subject.a or Endpoint("")
    lateness_ns = ns(context.settings.lateness_s)
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.RAIL_DEGRADED,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=first.begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if ended_at_ns is None else last.end_ns,
        detected_at_ns=opened.end_ns + lateness_ns,
        summary=f"rail {subject.rail} of {at.device} {_headline(worst)}",
        cause=_CAUSES[worst.reason],
        evidence=(
            Evidence(
                statement=f"{at.device}/{at.port} {_headline(worst)}",
                metric=_METRICS[worst.reason],
                at=at,
                observed=worst.observed,
                expected=worst.expected,
                comparison="peers" if worst.peers else "threshold",
                peers=worst.peers or None,
                window_start_ns=first.begin_ns,
                window_end_ns=last.end_ns,
            ),
            *part_evidence(context, at, (first.begin_ns, last.end_ns), _FAULTS),
        ),
        confidence=0.9 if worst.peers >= 2 * params.peers or worst.reason is RailReason.TRAINED_LOW else 0.7,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1) if worst.peers else None,
    )
    final_at = None if ended_at_ns is None else ended_at_ns + lateness_ns
    return Conclusion(first.begin_ns, last.end_ns, finding, str(first.begin_ns), final_at, is_continuous=True)


def _at_port(context: Context, subject: Subject, port: str) -> Subject:
    """Return the rail at this port: an earlier period may have been at its port of another plane."""
    if subject.a is None or port in ("", subject.a.port):
        return subject
    at = Port(subject.a.device, port)
    return replace(subject, a=Endpoint(at.device, at.port), plane=context.subject_at(at).plane)


def _worst(bad: Sequence[RailVerdict]) -> RailVerdict:
    """Return the reason that explains the others first, then the window that is furthest from its peers."""
    return min(bad, key=lambda verdict: (_ORDER.index(verdict.reason), _distance(verdict), verdict.begin_ns))


def _distance(verdict: RailVerdict) -> float:
    sign = -1 if verdict.reason in (RailReason.PCIE, RailReason.RETRANSMITS) else 1
    return verdict.observed / verdict.expected * sign


def _headline(verdict: RailVerdict) -> str:
    if verdict.reason is RailReason.TRAINED_LOW:
        return f"trained at {verdict.observed / 1e9:.0f} instead of {verdict.expected / 1e9:.0f} Gb/s"
    if verdict.reason is RailReason.PCIE:
        return f"is slow: its NIC stalled on PCIe for {verdict.observed:.0%} of the time"
    if verdict.reason is RailReason.RETRANSMITS:
        return f"retransmits {verdict.observed:.1f} times the limit, which {verdict.peers} other hosts do not"
    share = verdict.observed / verdict.expected
    return (
        f"is slow: {verdict.observed / 1e9:.1f} Gb/s, {share:.0%} of the {verdict.expected / 1e9:.1f} Gb/s"
        f" of the host's other rails, unlike at {verdict.peers} other hosts"
    )
