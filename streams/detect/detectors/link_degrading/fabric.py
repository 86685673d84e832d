"""The fabric-wide side of link/degrading: CRITICAL where a host link loses frames under a running job."""

from streams.detect.detectors.link_degrading.rules import LOSSES
from streams.detect.fabric_side import FabricSide, SeverityContext
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Finding

_LOSS_METRICS = frozenset(metric.name.lower() for metric in LOSSES)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    link = context.link_of(finding)
    if link is None or link.role != HOST_LINK:
        return False
    loses_frames = any(evidence.metric in _LOSS_METRICS for evidence in finding.evidence)
    return loses_frames and context.has_job(link.lower.device, finding)


FABRIC = FabricSide(link_fault_rank=2, is_critical=_is_critical)
