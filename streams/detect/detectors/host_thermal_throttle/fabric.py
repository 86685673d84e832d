"""The fabric-wide side of host/thermal-throttle: parent of a slow rail at the same port, CRITICAL under a job."""

from streams.detect.fabric_side import CapacityEffect, FabricSide, SeverityContext
from streams.wire.models import Finding


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    return context.has_job(finding.subject.a.device if finding.subject.a else "", finding)


FABRIC = FabricSide(link_fault_rank=4, capacity=CapacityEffect.NONE, is_critical=_is_critical)
