"""The fabric-wide side of device/clock-skew: the devices of a site whose clocks are off together are one group."""

from streams.detect.detectors.device_clock_skew.evaluate import evaluate
from streams.detect.fabric_side import CapacityEffect, FabricSide, GroupKey, GroupKind
from streams.fabric.topology import Topology
from streams.wire.models import Finding


def _group_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    known = topology.devices.get(finding.subject.a.device) if finding.subject.a is not None else None
    return (GroupKey(GroupKind.CLOCKS, known.site),) if known is not None else ()


FABRIC = FabricSide(
    explained_by_outages=False,
    ends_with_parent=True,
    capacity=CapacityEffect.NONE,
    severity_by_detector=True,
    group_keys=_group_keys,
    evaluate_device=evaluate,
)
