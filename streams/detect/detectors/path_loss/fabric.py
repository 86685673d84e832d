"""The fabric-wide side of path/loss: evaluated over the whole fabric; a fault of the same link explains it."""

from collections.abc import Iterator
from dataclasses import replace

from streams.detect.detectors.path_loss.evaluate import PathState, add_message, add_published, evaluate
from streams.detect.fabric_side import (
    Cases,
    FabricEvaluator,
    FabricSide,
    are_concurrent,
    detection_order,
    devices_of,
    takes_a_rail_from_a_job,
)
from streams.wire.models import Condition, Finding

_SESSIONS = ("bfd_session_up", "bgp_session_up")


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding with the sessions that failed with it, and its parent: the most severe other fault at one of
    its ports at that time, and of a link without its session what probes show of the link or its switches.
    """
    for port in (finding.subject.a, finding.subject.z):
        for fault in cases.link_faults_at(port) if port is not None else ():
            if fault.condition is not finding.condition and are_concurrent(fault, finding):
                return finding, fault
    others = [
        other
        for device in devices_of(finding)
        for other in cases.findings_at(device)
        if other.condition is finding.condition
        and are_concurrent(other, finding)
        and _is_of_session(other) is not _is_of_session(finding)
    ]
    if _is_of_session(finding):
        probed = [other for other in others if other.subject.id == finding.subject.id or other.subject.z is None]
        return finding, min(probed, key=detection_order, default=None)
    sessions = [line for other in others if other.subject.id == finding.subject.id for line in other.evidence]
    return replace(finding, evidence=(*finding.evidence, *dict.fromkeys(sessions))), None


def _is_of_session(finding: Finding) -> bool:
    return any(evidence.metric in _SESSIONS for evidence in finding.evidence[:1])


def _affected_by(changed: Finding, cases: Cases) -> Iterator[str]:
    """Yield the findings at the devices of another one: sessions are evidence for what probes show."""
    if changed.condition is Condition.PATH_LOSS:
        for device in devices_of(changed):
            for other in cases.findings_at(device):
                if other.condition is Condition.PATH_LOSS and other.id != changed.id:
                    yield other.id


FABRIC = FabricSide(
    link_fault_rank=5,
    explain=_explain,
    affected_by=_affected_by,
    is_critical=takes_a_rail_from_a_job,
    evaluator=FabricEvaluator(PathState, add_message, add_published, evaluate),
)
