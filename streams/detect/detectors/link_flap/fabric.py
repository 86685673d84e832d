"""The fabric-wide side of link/flap: CRITICAL on a host link without another plane, under a running job."""

from streams.detect.fabric_side import FabricSide, Loss, SeverityContext, link_keys
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Finding


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    link = context.link_of(finding)
    if link is None or link.role != HOST_LINK or not context.has_job(link.lower.device, finding):
        return False
    return not context.has_redundancy(link, finding)


FABRIC = FabricSide(loss=Loss.LINK_INTERMITTENT, link_fault_rank=1, group_keys=link_keys, is_critical=_is_critical)
