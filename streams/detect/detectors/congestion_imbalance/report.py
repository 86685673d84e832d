"""The finding of congestion/imbalance: the uplink that deviates most, and the fullest; downwards, the sending port."""

from dataclasses import dataclass

from streams.detect.detector import Context
from streams.detect.detectors.congestion_imbalance.params import ImbalanceParams
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.hysteresis import BadPeriod
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Source, Subject

SLUG = "congestion/imbalance"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class UplinkMark:
    """The uplink of a switch that is furthest off the mean in one window, and the fullest."""

    begin_ns: int
    end_ns: int
    source: Source
    is_bad: bool
    port: str = ""
    off: float = 0.0
    mean_bps: float = 0.0
    full_port: str = ""
    full: float = 0.0
    peers: int = 0
    is_received: bool = False
    """The bytes are those that the tier above sends down these links."""


def conclusion(
    params: ImbalanceParams, context: Context, subject: Subject, period: BadPeriod[UplinkMark]
) -> Conclusion:
    """Return the episode of a bad period."""
    marks, ended_at_ns = period.bad, period.ended_at_ns
    first, last = marks[0], marks[-1]
    worst = max(marks, key=lambda mark: abs(mark.off))
    switch = subject.a.device if subject.a is not None else ""
    lateness_ns = ns(context.settings.lateness_s)
    received = worst.is_received
    verb, of_one, metric = ("receive", "receives", "rx_bytes") if received else ("carry", "carries", "tx_bytes")
    full_at = Endpoint(switch, worst.full_port)
    cable = context.topology.link_at(Port(switch, worst.full_port)) if received else None
    sender = f"{switch}/{worst.full_port}" if cable is None else f"{cable.upper.device}/{cable.upper.port}"
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.CONGESTION_IMBALANCE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=first.begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if ended_at_ns is None else last.end_ns,
        detected_at_ns=marks[params.windows - 1].end_ns + lateness_ns,
        summary=f"the {worst.peers + 1} uplinks of {switch} {verb} unevenly: "
        f"{worst.port} {worst.off:+.0%} of the mean, {worst.full_port} is {worst.full:.0%} full",
        cause=Cause.CONGESTION,
        evidence=(
            Evidence(
                statement=f"{switch}/{worst.port} {of_one} {worst.mean_bps * (1 + worst.off) / 1e9:.1f} Gb/s; the mean "
                f"of {worst.peers + 1} uplinks is {worst.mean_bps / 1e9:.1f}",
                metric=metric,
                at=Endpoint(switch, worst.port),
                observed=worst.mean_bps * (1 + worst.off),
                expected=worst.mean_bps,
                comparison="peers",
                peers=worst.peers,
                window_start_ns=first.begin_ns,
                window_end_ns=last.end_ns,
            ),
            Evidence(
                statement=f"{sender} is {worst.full:.0%} full",
                metric=metric,
                at=full_at,
                observed=worst.full,
                expected=params.busy,
                comparison="threshold",
                window_start_ns=worst.begin_ns,
                window_end_ns=worst.end_ns,
            ),
        ),
        confidence=0.9,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1),
    )
    final_at = None if ended_at_ns is None else ended_at_ns + lateness_ns
    return Conclusion(first.begin_ns, last.end_ns, finding, str(first.begin_ns), final_at)
