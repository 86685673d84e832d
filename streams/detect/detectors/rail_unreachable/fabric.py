"""The fabric-wide side of rail/unreachable: a fault of the link, or its leaf without answers, explains it."""

from streams.detect.fabric_side import Cases, FabricSide, are_concurrent, takes_a_rail_from_a_job
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


FABRIC = FabricSide(explain=_explain, is_critical=takes_a_rail_from_a_job)
