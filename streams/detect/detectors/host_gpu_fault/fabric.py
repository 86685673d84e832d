"""The fabric-wide side of host/gpu-fault: a job is affected, the network is not."""

from streams.detect.fabric_side import CapacityEffect, FabricSide

FABRIC = FabricSide(capacity=CapacityEffect.NONE, severity_by_detector=True)
