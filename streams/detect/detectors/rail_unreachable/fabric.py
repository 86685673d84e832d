"""The fabric-wide side of rail/unreachable: a fault of the link, or its leaf without answers, explains it."""

from streams.detect.fabric_side import Cases, FabricSide, SeverityContext, are_concurrent
from streams.fabric.ids import Port, device_id
from streams.wire.models import Condition, Finding


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the fault at its port, or of the leaf behind it, at that time as its parent."""
    port = finding.subject.a
    if port is None:
        return finding, None
    link = cases.topology.link_at(Port(port.device, port.port))
    leaf = device_id(link.upper.device) if link is not None else ""
    lossy = (one for one in cases.findings_of(Condition.PATH_LOSS) if one.subject.id == leaf)
    faults = (*cases.link_faults_at(port), *lossy)
    return finding, next((fault for fault in faults if are_concurrent(fault, finding)), None)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    """Rate it CRITICAL while a job runs on the host and no other plane of the rail is left, as a link that is down."""
    link = context.link_of(finding)
    if finding.resolved_at_ns is not None or link is None:
        return False
    return context.has_job(link.lower.device, finding) and not context.has_redundancy(link, finding)


FABRIC = FabricSide(explain=_explain, is_critical=_is_critical)
