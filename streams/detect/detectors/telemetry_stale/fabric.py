"""The fabric-wide side of telemetry/stale: findings of one collector, pod or path share one root.

CRITICAL where a collector is dead, or while a large share of the inventory is silent (DETECTION 3a).
"""

from operator import attrgetter

from streams.detect.detectors.telemetry_stale import losses
from streams.detect.detectors.telemetry_stale.evaluate import evaluate
from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.fabric_side import (
    CapacityEffect,
    FabricEvaluator,
    FabricSide,
    GroupKey,
    GroupKind,
    SeverityContext,
    location_keys,
)
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Evidence, Finding

_FABRIC = GroupKey(GroupKind.FABRIC)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    if finding.cause is Cause.COLLECTOR:
        return True
    if finding.cause is Cause.RETENTION:
        return False  # the alert RailsightInputLost pages
    params: StaleParams = context.params_of(finding)
    detected_ns = finding.detected_at_ns or finding.started_at_ns
    silent = context.silent_devices_at(detected_ns)
    if silent is None:
        return context.was_critical(finding)
    until_ns = context.watermark_ns if finding.resolved_at_ns is None else finding.resolved_at_ns
    minimum = max(params.unseen_ratio * context.device_count, params.unseen_devices)
    return until_ns >= detected_ns + ns(params.unseen_after_s) and minimum <= silent


def _severity_due_ns(params: StaleParams, finding: Finding) -> int:
    return (finding.detected_at_ns or 0) + ns(params.unseen_after_s)


def _group_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    if finding.subject.a is None:
        return ()
    silence = finding.evidence[0] if finding.evidence else Evidence("")
    if finding.cause is Cause.COLLECTOR:
        return (GroupKey(GroupKind.COLLECTOR, silence.collector),)
    known = topology.devices.get(finding.subject.a.device)
    if finding.cause is Cause.PATH and known is not None and known.pod:
        return GroupKey(GroupKind.PATH, known.pod, silence.source), _FABRIC
    return (*location_keys(known.pod, None), _FABRIC) if known is not None else ()


FABRIC = FabricSide(
    is_silence=True,
    ends_with_parent=True,
    capacity=CapacityEffect.NONE,
    group_keys=_group_keys,
    is_critical=_is_critical,
    severity_due_ns=_severity_due_ns,
    evaluate_device=evaluate,
    evaluator=FabricEvaluator(losses.LossState, losses.add_message, losses.add_published, losses.evaluate),
    silence_limit_ns=StaleParams.limit_ns,
    min_silent_ratio=attrgetter("unseen_ratio"),
)
