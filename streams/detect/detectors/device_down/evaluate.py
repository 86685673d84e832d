"""device/down: detects a device that restarted, or that neither its sources nor its neighbors see any more.

A restart is one finding with the cause REBOOT, identified by the boot that ended, and resolved when the device is up. A
device is down without a known restart when all its sources are silent and enough of its links are down at their other
ends, or when nearly all of its links were lost there together, whether or not any source reads it. Silence alone is
telemetry/stale. What fails at the device meanwhile becomes its child in `attribute`.
"""

from collections.abc import Mapping

from streams.detect.detectors.device_down.outages import Outage, find_outages
from streams.detect.detectors.device_down.params import DeviceDownParams
from streams.detect.evidence.device_evidence import DeviceEvidence
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
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity

SLUG = "device/down"
VERSION = "1"

_WHOLE = ""
"""The part of the device that it evaluates: all of it."""

_NEIGHBORS_ONLY = 0.8
"""Confidence where only neighbors report it: the ports or their cables may be at fault, and not the device."""


def evaluate(
    params: DeviceDownParams,
    settings: SharedSettings,
    published: Mapping[str, PublishedEpisodes],
    evidence: DeviceEvidence,
    watermark_ns: int,
) -> DeviceEvaluation:
    """Conclude on one device from all evidence on it."""
    outages = find_outages(params, settings.grouping, evidence)
    conclusions = [_conclusion(params, settings, evidence, outage) for outage in outages]
    current, episodes = reconcile(published.get(_WHOLE, ()), conclusions, watermark_ns)
    return DeviceEvaluation({_WHOLE: current}, episodes, next_final_ns(conclusions, watermark_ns))


def _conclusion(
    params: DeviceDownParams, settings: SharedSettings, evidence: DeviceEvidence, outage: Outage
) -> Conclusion:
    is_over = outage.end_ns != FOREVER
    device = evidence.subject.a.device if evidence.subject.a else ""
    state = "restarted" if outage.is_restart else "was down" if is_over else "is down"
    finding = Finding(
        **finding_defaults(settings, SLUG, VERSION),
        condition=Condition.DEVICE_DOWN,
        severity=Severity.WARNING,
        subject=evidence.subject,
        started_at_ns=outage.begin_ns,
        observed_at_ns=outage.end_ns if is_over else outage.detected_ns,
        resolved_at_ns=outage.end_ns if is_over else None,
        detected_at_ns=outage.detected_ns,
        summary=f"{device} {state}",
        cause=Cause.REBOOT if outage.is_restart else Cause.UNKNOWN,
        evidence=tuple(_evidence(device, evidence.links, outage)),
        confidence=1.0 if outage.is_restart else 0.9 if outage.is_silent else _NEIGHBORS_ONLY,
        coverage=Coverage(seen=0, expected=len(evidence.silences) or None),
    )
    final_at_ns = outage.end_ns + ns(params.merge_s + settings.lateness_s) if is_over else None
    anchor = f"boot/{outage.boot_id}" if outage.boot_id else str(outage.begin_ns)
    return Conclusion(outage.begin_ns, outage.end_ns, finding, anchor, final_at_ns)


def _evidence(device: str, links: int, outage: Outage) -> list[Evidence]:
    end_ns = outage.end_ns if outage.end_ns != FOREVER else outage.detected_ns
    evidence = []
    if outage.is_restart:
        evidence.append(
            Evidence(
                f"{device} has another boot id than before",
                at=Endpoint(device),
                comparison="threshold",
                window_start_ns=outage.begin_ns,
                window_end_ns=end_ns,
            )
        )
    if outage.lost_links:
        evidence.append(
            Evidence(
                _lost_links_statement(device, links, outage),
                metric="oper_up",
                at=Endpoint(device),
                observed=float(outage.lost_links),
                expected=0.0,
                comparison="both-ends",
                window_start_ns=outage.begin_ns,
                window_end_ns=end_ns,
            )
        )
    return evidence


def _lost_links_statement(device: str, links: int, outage: Outage) -> str:
    count = f"{outage.lost_links} of {outage.of_links} links of {device}"
    if outage.of_links < links:
        count += f" whose other ends are read ({links} in all)"
    if outage.is_silent:
        return f"{count} are down at their other ends, and it is silent"
    return f"{count} were lost together at their other ends, whatever it reports itself"
