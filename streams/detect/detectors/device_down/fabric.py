"""The fabric-wide side of device/down: an outage explains what fails at the device, and is rated by its neighbors."""

from streams.detect.detectors.device_down.evaluate import evaluate
from streams.detect.fabric_side import FabricSide, GroupKey, Loss, SeverityContext, location_keys
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Finding


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    """Rate a switch CRITICAL while it is down, if a neighbor is below its floor or a host has lost a rail."""
    device = finding.subject.a.device if finding.subject.a else ""
    return finding.resolved_at_ns is None and context.isolates_neighbor(device, finding)


def _group_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    known = topology.devices.get(finding.subject.a.device) if finding.subject.a is not None else None
    return location_keys(known.pod, known.plane) if known else ()


def _child_cause(parent: Finding, child: Finding) -> Cause | None:
    """Return DEVICE for missing data, and REBOOT for all else that a restart explains."""
    if child.condition is Condition.TELEMETRY_STALE:
        return Cause.DEVICE
    return Cause.REBOOT if parent.cause is Cause.REBOOT else None


FABRIC = FabricSide(
    loss=Loss.DEVICE,
    ends_with_parent=True,
    explained_by_outages=False,
    group_keys=_group_keys,
    is_critical=_is_critical,
    child_cause=_child_cause,
    evaluate_device=evaluate,
)
