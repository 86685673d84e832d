"""The fabric-wide side of fleet/version-drift: evaluated over the whole fleet; no other finding explains it."""

from streams.detect.detectors.fleet_version_drift.evaluate import evaluate
from streams.detect.detectors.fleet_version_drift.state import FleetState, add_message, add_published
from streams.detect.fabric_side import CapacityEffect, FabricEvaluator, FabricSide

FABRIC = FabricSide(
    explained_by_outages=False,
    capacity=CapacityEffect.BY_DETECTOR,
    severity_by_detector=True,
    evaluator=FabricEvaluator(FleetState, add_message, add_published, evaluate),
)
