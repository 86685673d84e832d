"""The finding of rail/degraded for a host: the window that explains it best."""

from collections.abc import Sequence

from streams.detect.detectors.rail_degraded.host_comparison import HostVerdict
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.report import SLUG, VERSION
from streams.detect.detectors.rail_degraded.screening import RailReason
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.hysteresis import BadPeriod
from streams.detect.evidence.params import SharedSettings
from streams.detect.thresholds import ns
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject

_METRICS = {
    RailReason.SLOW: "tx_bytes", RailReason.RETRANSMITS: "local_ack_timeouts",
    RailReason.PCIE: "pcie_stalled_read_seconds",
}  # fmt: skip
_ORDER = (RailReason.PCIE, RailReason.RETRANSMITS, RailReason.SLOW)


def conclusion(
    params: RailParams, settings: SharedSettings, subject: Subject, period: BadPeriod[HostVerdict]
) -> Conclusion:
    """Return the episode of a bad period. INFO while bytes alone show it: a host that waits carries less too."""
    bad, ended_at_ns = period.bad, period.ended_at_ns
    first, last, worst = bad[0], bad[-1], _worst(bad)
    at, lateness_ns = subject.a or Endpoint(""), ns(settings.lateness_s)
    has_reason = worst.reason is not RailReason.SLOW
    finding = Finding(
        **finding_defaults(settings, SLUG, VERSION),
        condition=Condition.RAIL_DEGRADED,
        severity=Severity.WARNING if has_reason else Severity.INFO,
        subject=subject,
        started_at_ns=first.begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if ended_at_ns is None else last.end_ns,
        detected_at_ns=bad[params.bad_windows - 1].end_ns + lateness_ns,
        summary=f"{at.device} {_headline(worst)}",
        cause=Cause.PCIE if worst.reason is RailReason.PCIE else Cause.HOST,
        evidence=tuple(_evidence(at, worst, (first.begin_ns, last.end_ns))),
        confidence=0.9 if has_reason and worst.peers >= 2 * params.peers else 0.7,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1),
    )
    final_at = None if ended_at_ns is None else ended_at_ns + lateness_ns
    return Conclusion(first.begin_ns, last.end_ns, finding, str(first.begin_ns), final_at, is_continuous=True)


def _worst(bad: Sequence[HostVerdict]) -> HostVerdict:
    """Return the reason that explains the others first, then the window that is furthest from its peers."""
    return min(bad, key=lambda one: (_ORDER.index(one.reason), _share(one), one.begin_ns))


def _share(verdict: HostVerdict) -> float:
    return verdict.rate_bps / verdict.usual_bps if verdict.usual_bps > 0 else 1.0


def _headline(verdict: HostVerdict) -> str:
    others = f"unlike {verdict.peers} other hosts"
    if verdict.reason is RailReason.PCIE:
        return f"stalls on PCIe at {verdict.rails} of its {verdict.read} rails, {others}"
    if verdict.reason is RailReason.RETRANSMITS:
        return f"retransmits on {verdict.rails} of its {verdict.read} rails, {others}"
    return f"is slow on all rails: {_rates(verdict)}, {others}"


def _rates(verdict: HostVerdict) -> str:
    usual = verdict.usual_bps / 1e9
    return f"{verdict.rate_bps / 1e9:.1f} Gb/s a rail, {_share(verdict):.0%} of the {usual:.1f} Gb/s of the others"


def _evidence(at: Endpoint, worst: HostVerdict, interval: tuple[int, int]) -> list[Evidence]:
    """Return the reason first, and what the host carried."""
    begin_ns, end_ns = interval
    rates = Evidence(
        f"{at.device} carries {_rates(worst)}", metric="tx_bytes", at=at, observed=worst.rate_bps,
        expected=worst.usual_bps, comparison="peers", peers=worst.peers, window_start_ns=begin_ns,
        window_end_ns=end_ns,
    )  # fmt: skip
    if worst.reason is RailReason.SLOW:
        return [rates]
    reason = Evidence(
        f"{at.device} {_headline(worst)}", metric=_METRICS[worst.reason], at=at, observed=float(worst.rails),
        expected=worst.read / 2, comparison="peers", peers=worst.peers, window_start_ns=begin_ns, window_end_ns=end_ns,
    )  # fmt: skip
    return [reason, rates]
