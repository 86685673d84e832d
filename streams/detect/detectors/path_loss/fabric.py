"""The fabric-wide side of path/loss: evaluated over the whole fabric; a fault of the same link explains it."""

from streams.detect.detectors.path_loss.evaluate import PathState, add_message, add_published, evaluate
from streams.detect.fabric_side import Cases, FabricEvaluator, FabricSide, are_concurrent, takes_a_rail_from_a_job
from streams.wire.models import Finding


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the most severe other fault at one of its ports at that time as its parent."""
    for port in (finding.subject.a, finding.subject.z):
        for fault in cases.link_faults_at(port) if port is not None else ():
            if fault.condition is not finding.condition and are_concurrent(fault, finding):
                return finding, fault
    return finding, None


FABRIC = FabricSide(
    link_fault_rank=5,
    explain=_explain,
    is_critical=takes_a_rail_from_a_job,
    evaluator=FabricEvaluator(PathState, add_message, add_published, evaluate),
)
