"""The fabric-wide side of rail/degraded: a fault of the link or slot at the rail's port explains it.

Rails of one host that train low together have one cause: the first of them represents the others. A host whose rails
are slow together is evaluated here; a fault of its parts explains it, and it explains its rails.
"""

from collections.abc import Iterator
from dataclasses import replace

from streams.detect.detectors.rail_degraded.host_evaluate import HostsState, add_message, add_published, evaluate
from streams.detect.fabric_side import (
    Cases,
    FabricEvaluator,
    FabricSide,
    SeverityContext,
    are_concurrent,
    detection_order,
)
from streams.wire.models import Cause, Condition, Evidence, Finding, Severity

_FAULTS_OF_HOSTS = (Condition.HOST_GPU_FAULT, Condition.HOST_PCIE_DEGRADED, Condition.HOST_THERMAL_THROTTLE)
"""Faults of a part of a host that slow the host as a whole: a job waits for the GPU that is reset or throttled."""

_TOGETHER = 3
"""Rails of a host that cannot be coincidence, as `[detect.grouping] links` of one device."""


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the most severe fault at its port at that time as its parent.

    Without one, of rails that trained low together the first is the parent, and has all of them in its evidence.
    """
    port = finding.subject.a
    if port is None:
        return finding, None
    if _is_host(finding):
        return finding, _fault_of_host(finding, port.device, cases)
    fault = next((fault for fault in cases.link_faults_at(port) if are_concurrent(fault, finding)), None)
    together = [] if fault is not None else _trained_low_together(finding, cases)
    if len(together) < _TOGETHER:
        return finding, fault or _slow_host_of(finding, port.device, cases)
    root = min(together, key=detection_order)
    if root.id != finding.id:
        return finding, root
    rails = ", ".join(sorted(str(one.subject.rail) for one in together))
    statement = f"{len(together)} rails of {port.device} trained low together: {rails}"
    evidence = Evidence(
        f"{statement}; this finding represents them", metric="group", at=port, observed=float(len(together)),
        expected=1.0, comparison="peers", peers=len(together),
    )  # fmt: skip
    summary = f"{statement}; first: {finding.summary}"
    return replace(finding, summary=summary, evidence=(*finding.evidence, evidence)), None


def _is_host(finding: Finding) -> bool:
    return finding.condition is Condition.RAIL_DEGRADED and finding.subject.role == "host"


def _fault_of_host(finding: Finding, host: str, cases: Cases) -> Finding | None:
    """Return the first fault of a part of the host, or rails of it that trained low, that explain all of its rails."""
    at_host = [other for other in cases.findings_at(host) if are_concurrent(other, finding)]
    faults = [other for other in at_host if other.condition in _FAULTS_OF_HOSTS]
    low = [other for other in at_host if _is_trained_low(other)]
    faults += low if len(low) >= _TOGETHER else ()
    if finding.severity is Severity.INFO:  # its bytes alone: congestion that throttles it explains them
        faults += [other for other in cases.findings_of(Condition.CONGESTION_COLLAPSE) if _throttles(other, finding)]
    return min(faults, key=detection_order, default=None)


def _throttles(collapse: Finding, finding: Finding) -> bool:
    hosts = collapse.blast_radius.hosts if collapse.blast_radius is not None else ()
    return finding.subject.a is not None and finding.subject.a.device in hosts and are_concurrent(collapse, finding)


def _slow_host_of(finding: Finding, host: str, cases: Cases) -> Finding | None:
    """Return the finding of the rail's host, where counters show its cause; a rail that trained low has its own."""
    if _is_trained_low(finding):
        return None
    hosts = (other for other in cases.findings_at(host) if _is_host(other) and other.severity > Severity.INFO)
    return next((other for other in hosts if are_concurrent(other, finding)), None)


def _is_trained_low(finding: Finding) -> bool:
    return finding.condition is Condition.RAIL_DEGRADED and finding.cause is Cause.NIC


def _trained_low_together(finding: Finding, cases: Cases) -> list[Finding]:
    """Return the rails of the finding's host that trained low in the same window, itself included."""
    if not _is_trained_low(finding) or finding.subject.a is None:
        return []
    return [
        other
        for other in cases.findings_at(finding.subject.a.device)
        if _is_trained_low(other) and other.started_at_ns == finding.started_at_ns
    ]


def _affected_by(finding: Finding, cases: Cases) -> Iterator[str]:
    """Yield the findings of the other rails of a host whose rail trained low, of a slow host, and those of the host
    whose parts have a fault.
    """
    if finding.condition is Condition.CONGESTION_COLLAPSE:
        yield from (one.id for one in cases.findings_of(Condition.RAIL_DEGRADED) if _is_host(one))
    if finding.subject.a is None:
        return
    if _is_trained_low(finding) or _is_host(finding) or finding.condition in _FAULTS_OF_HOSTS:
        for other in cases.findings_at(finding.subject.a.device):
            if other.condition is Condition.RAIL_DEGRADED:
                yield other.id


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    return context.has_job(finding.subject.a.device if finding.subject.a else "", finding)


FABRIC = FabricSide(
    explain=_explain,
    affected_by=_affected_by,
    is_critical=_is_critical,
    evaluator=FabricEvaluator(HostsState, add_message, add_published, evaluate),
)
