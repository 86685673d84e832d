"""The fabric-wide side of path/loss: evaluated over the whole fabric; a fault of the same link explains it."""

from streams.detect.detectors.path_loss.evaluate import PathState, add_message, add_published, evaluate
from streams.detect.fabric_side import Cases, FabricEvaluator, FabricSide, SeverityContext, are_concurrent
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Finding


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the most severe other fault at one of its ports at that time as its parent."""
    for port in (finding.subject.a, finding.subject.z):
        for fault in cases.link_faults_at(port) if port is not None else ():
            if fault.condition is not finding.condition and are_concurrent(fault, finding):
                return finding, fault
    return finding, None


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    """Rate a host link CRITICAL while a job runs on the host and no other plane of the rail is left."""
    link = context.link_of(finding)
    if finding.resolved_at_ns is not None or link is None or link.role != HOST_LINK:
        return False
    return context.has_job(link.lower.device, finding) and not context.has_redundancy(link, finding)


FABRIC = FabricSide(
    link_fault_rank=5,
    explain=_explain,
    is_critical=_is_critical,
    evaluator=FabricEvaluator(PathState, add_message, add_published, evaluate),
)
