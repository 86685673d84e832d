"""The fabric-wide side of rail/degraded: a fault of the link or slot at the rail's port explains it.

Rails of one host that train low together have one cause: the first of them represents the others.
"""

from collections.abc import Iterator
from dataclasses import replace

from streams.detect.fabric_side import Cases, FabricSide, SeverityContext, are_concurrent, detection_order
from streams.wire.models import Cause, Condition, Evidence, Finding

_TOGETHER = 3
"""Rails of a host that cannot be coincidence, as `[detect.grouping] links` of one device."""


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the most severe fault at its port at that time as its parent.

    Without one, of rails that trained low together the first is the parent, and has all of them in its evidence.
    """
    port = finding.subject.a
    if port is None:
        return finding, None
    fault = next((fault for fault in cases.link_faults_at(port) if are_concurrent(fault, finding)), None)
    together = [] if fault is not None else _trained_low_together(finding, cases)
    if len(together) < _TOGETHER:
        return finding, fault
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
    """Yield the findings of the other rails of a host whose rail trained low."""
    if _is_trained_low(finding) and finding.subject.a is not None:
        yield from (other.id for other in cases.findings_at(finding.subject.a.device) if _is_trained_low(other))


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    return context.has_job(finding.subject.a.device if finding.subject.a else "", finding)


FABRIC = FabricSide(explain=_explain, affected_by=_affected_by, is_critical=_is_critical)
