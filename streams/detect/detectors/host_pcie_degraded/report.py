"""The finding of host/pcie-degraded: negotiated width and speed at the worst."""

from streams.detect.detector import Context
from streams.detect.detectors.host_pcie_degraded.params import PcieParams
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.part_spells import PartSpell
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.thresholds import ns
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject, Symptom
from streams.wire.symptoms import Fault, PcieLink, PcieLinkState

SLUG = "host/pcie-degraded"
VERSION = "1"

_FAULTS = (Fault.PCIE_SIGNAL, Fault.SLOT_POWER, Fault.NIC_FIRMWARE)


def capacity(symptom: Symptom) -> float:
    """Return the share of its capacity to which a link trained."""
    return symptom.payload.capacity_ratio if isinstance(symptom.payload, PcieLinkState) else 1.0


def conclusion(params: PcieParams, context: Context, subject: Subject, spell: PartSpell, opens_ns: int) -> Conclusion:
    """Return the episode of a spell, which opened at `opens_ns`."""
    full_ns = spell.end_ns + ns(params.full_s) if spell.end_ns != FOREVER else FOREVER
    over = full_ns <= context.watermark_ns
    at = subject.a or Endpoint("")
    link = spell.worst.payload.link if isinstance(spell.worst.payload, PcieLinkState) else None
    share, trained = capacity(spell.worst), _describe(link)
    is_narrow = link is not None and link.width_lanes < link.width_max_lanes
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.HOST_PCIE_DEGRADED,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=spell.begin_ns,
        observed_at_ns=spell.end_ns if over else opens_ns,
        resolved_at_ns=spell.end_ns if over else None,
        detected_at_ns=opens_ns,
        summary=f"PCIe of {at.device}/{at.port} trained at {trained}",
        cause=Cause.PCIE_WIDTH if is_narrow else Cause.PCIE_SPEED,
        evidence=(
            Evidence(
                statement=f"{at.device}/{at.port} trained at {trained}: {share:.0%} of its capacity",
                metric="pcie_width_lanes" if is_narrow else "pcie_speed_gtps",
                at=at,
                observed=share,
                expected=1.0,
                comparison="peers",
                window_start_ns=spell.begin_ns,
                window_end_ns=spell.end_ns if over else opens_ns,
            ),
            *part_evidence(context, at, (spell.begin_ns, spell.end_ns), _FAULTS),
        ),
        confidence=0.95,
        coverage=Coverage(seen=1, expected=1),
    )
    end_ns = spell.end_ns - 1 if over else FOREVER
    final_at = full_ns + ns(context.settings.lateness_s) if over else None
    return Conclusion(spell.begin_ns, end_ns, finding, str(spell.begin_ns), final_at)


def _describe(link: PcieLink | None) -> str:
    if link is None:
        return "less than its maximum"
    return (
        f"x{link.width_lanes} of x{link.width_max_lanes} lanes at {link.speed_gtps:g} of {link.speed_max_gtps:g} GT/s"
    )
