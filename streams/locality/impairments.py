"""Selects the impairments of links, hosts and switches: open findings, isolations, maintenance.

A host without telemetry is doubtful. Findings about traffic, drift of versions and clocks are ignored, because they do
not affect the capacity for a placement; shadow findings are ignored too.
"""

from collections.abc import Iterable
from typing import NamedTuple

from streams.detect.detector import Placement
from streams.detect.detectors import DETECTORS
from streams.fabric.ids import device_id
from streams.fabric.inventory_rows import Device
from streams.wire.control_scope import is_active
from streams.wire.models import Action, Control, ControlKind, Finding, Remediation, RemediationState

FABRIC = "fabric:"
"""The subject of maintenance of the whole fabric."""


class Impairment(NamedTuple):
    """One reason not to use a subject; `source_id` is the id of the finding, remediation or control."""

    subject_id: str
    effect: Placement
    kind: str
    """The finding's slug, `isolated` or `maintenance`."""
    reason: str
    source_id: str = ""

    def __str__(self) -> str:
        source = f" ({self.kind} {self.source_id[:8]})" if self.source_id else f" ({self.kind})"
        return f"{self.subject_id}: {self.reason}{source}"


_EFFECTS = {detector.condition: detector.placement for detector in DETECTORS}
_ISOLATING = {
    Action.DRAIN_LINK, Action.REPAIR_LINK, Action.RESTORE_LINK, Action.RESET_NIC, Action.CORDON_HOST,
    Action.UNCORDON_HOST, Action.REBOOT_HOST,
}  # fmt: skip
_OUT_OF_SERVICE = {
    RemediationState.APPROVED, RemediationState.ACCEPTED, RemediationState.NO_ANSWER, RemediationState.DRAINED,
    RemediationState.VERIFYING, RemediationState.RESTORING, RemediationState.ESCALATED,
}  # fmt: skip
"""States from the approval to the end of the restoration, in which automation may isolate the target at any time."""


def of_findings(findings: Iterable[Finding]) -> list[Impairment]:
    """Return the impairments of the open findings."""
    return [
        Impairment(subject_id, effect, finding.condition.slug, finding.summary, finding.id)
        for finding in findings
        if not finding.is_closed and not finding.shadow and (effect := _EFFECTS.get(finding.condition)) is not None
        for subject_id in _subjects(finding)
    ]


def _subjects(finding: Finding) -> Iterable[str]:
    """Return the subject, or for a collector also the hosts that it no longer reads."""
    if not finding.subject.id.startswith("collector:"):
        return (finding.subject.id,)
    return map(device_id, finding.blast_radius.hosts if finding.blast_radius else ())


def of_remediations(remediations: Iterable[Remediation]) -> list[Impairment]:
    """Return the impairments of targets that are, or may be, out of service."""
    return [
        Impairment(each.target.id, Placement.OUT, "isolated", f"{each.action.name} is {each.state.name}", each.id)
        for each in remediations
        if each.action in _ISOLATING and each.state in _OUT_OF_SERVICE
    ]


def of_controls(controls: Iterable[Control], now_ns: int) -> list[Impairment]:
    """Return the impairments of subjects in maintenance; a control without a subject applies to the whole fabric."""
    return [
        Impairment(each.subject_id or FABRIC, Placement.OUT, "maintenance", each.reason or "in maintenance", each.id)
        for each in controls
        if each.kind is ControlKind.MAINTENANCE and is_active(each, now_ns)
    ]


def of_devices(devices: Iterable[Device], now_ns: int) -> list[Impairment]:
    """Return the impairments of devices that are in maintenance according to the inventory."""
    return [
        Impairment(
            device_id(device.name), Placement.OUT, "maintenance", f"in maintenance until {until:%Y-%m-%d %H:%MZ}"
        )
        for device in devices
        if (until := device.maintenance_until) is not None and until.timestamp() * 1e9 > now_ns
    ]
