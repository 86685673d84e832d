"""The fabric-wide side of link/down: its severity is the redundancy that is left, and a device's outage explains it."""

from operator import attrgetter

from streams.detect.fabric_side import FabricSide, Loss, SeverityContext, link_keys
from streams.wire.models import Finding


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    """Rate a link CRITICAL if its lower end had too few other uplinks, or its host no other plane of the rail."""
    link = context.link_of(finding)
    return link is not None and not context.has_redundancy(link, finding)


FABRIC = FabricSide(
    loss=Loss.LINK,
    ends_with_parent=True,
    link_fault_rank=0,
    group_keys=link_keys,
    is_critical=_is_critical,
    settle_s=attrgetter("hold_up_s"),
)
