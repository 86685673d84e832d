"""The fabric-wide side of rail/degraded: a fault of the link or slot at the rail's port explains it."""

from streams.detect.fabric_side import Cases, FabricSide, SeverityContext, are_concurrent
from streams.wire.models import Finding


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the most severe fault at its port at that time as its parent."""
    port = finding.subject.a
    if port is None:
        return finding, None
    return finding, next((fault for fault in cases.link_faults_at(port) if are_concurrent(fault, finding)), None)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    return context.has_job(finding.subject.a.device if finding.subject.a else "", finding)


FABRIC = FabricSide(explain=_explain, is_critical=_is_critical)
