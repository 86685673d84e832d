"""The fabric-wide side of congestion/incast: it takes no capacity, and is never CRITICAL (DETECTION 3a).

Its senders and victims in other pods are named here, because `correlate` observes one pod.
"""

from streams.detect.detectors.congestion_incast.other_pods import (
    OtherPodsState,
    add_message,
    add_published,
    complete,
    evaluate,
    incomplete,
)
from streams.detect.fabric_side import CapacityEffect, FabricEvaluator, FabricSide

FABRIC = FabricSide(
    capacity=CapacityEffect.NONE,
    evaluator=FabricEvaluator(OtherPodsState, add_message, add_published, evaluate, incomplete, complete),
)
