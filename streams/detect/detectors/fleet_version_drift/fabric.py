"""The fabric-wide side of fleet/version-drift: evaluated over the whole fleet; no other finding explains it."""

from streams.detect.detectors.fleet_version_drift.evaluate import Fleet, step
from streams.detect.fabric_side import CapacityEffect, FabricEvaluator, FabricSide
from streams.wire.models import Message, VersionCensus


def _on_message(fleet: Fleet, message: Message) -> None:
    if isinstance(message, VersionCensus):
        fleet.take(message)


FABRIC = FabricSide(
    explained_by_outages=False,
    capacity=CapacityEffect.BY_DETECTOR,
    severity_by_detector=True,
    evaluator=FabricEvaluator(Fleet, _on_message, Fleet.note, step),
)
