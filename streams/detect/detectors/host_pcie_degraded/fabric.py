"""The fabric-wide side of host/pcie-degraded: CRITICAL while a job runs on the host."""

from streams.detect.fabric_side import FabricSide, SeverityContext
from streams.wire.models import Finding


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    return context.has_job(finding.subject.a.device if finding.subject.a else "", finding)


FABRIC = FabricSide(link_fault_rank=3, is_critical=_is_critical)
