"""The fabric-wide side of congestion/imbalance: it takes no capacity, and is never CRITICAL (DETECTION 3a)."""

from streams.detect.fabric_side import CapacityEffect, FabricSide

FABRIC = FabricSide(capacity=CapacityEffect.NONE)
