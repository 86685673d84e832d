"""Lists the faults: each is a class with its effects and ground truth, and a function that places it randomly.

The demo, the detection benchmark, the load generator and the tests inject faults from here. A new fault needs a class
and its `inject` in the file of its family, with `own_stream`, and an entry at the end of FAULTS. Then the published
days of all seeds change only by the new fault.
"""

from lab.world.fault_placement import Fault
from lab.world.faults.congestion import (
    AVOIDED_PATH,
    CONGESTION_COLLAPSE,
    CONGESTION_IMBALANCE,
    CONGESTION_INCAST,
    CONGESTION_PFC_STORM,
    STALLED_CREDITS,
    STOPPED_QUEUE,
    TRIMMED_PACKETS,
)
from lab.world.faults.devices import (
    DEVICE_CLOCK_SKEW,
    DEVICE_DOWN,
    FLEET_VERSION_DRIFT,
    TELEMETRY_CONTRADICTION,
    TELEMETRY_STALE,
)
from lab.world.faults.hosts import (
    HOST_GPU_FAULT,
    HOST_NVLINK_DEGRADED,
    HOST_PCIE_DEGRADED,
    HOST_POWER_CAPPED,
    HOST_THERMAL_THROTTLE,
    RAIL_DEGRADED,
    RAIL_UNREACHABLE,
    SLOW_HOST,
)
from lab.world.faults.links import (
    BROKEN_PART,
    LINK_DEGRADING,
    LINK_DOWN,
    LINK_FLAP,
    LINK_MISCABLED,
    LOST_NIC,
    PATH_LOSS,
    REPLAYED_FRAMES,
)

__all__ = ["FAULTS", "FAULT_OF", "Fault"]

FAULTS: tuple[Fault, ...] = (
    DEVICE_DOWN,
    TELEMETRY_STALE,
    LINK_DOWN,
    LINK_FLAP,
    LINK_DEGRADING,
    RAIL_DEGRADED,
    HOST_PCIE_DEGRADED,
    HOST_GPU_FAULT,
    CONGESTION_PFC_STORM,
    LINK_MISCABLED,
    CONGESTION_COLLAPSE,
    CONGESTION_INCAST,
    CONGESTION_IMBALANCE,
    FLEET_VERSION_DRIFT,
    HOST_THERMAL_THROTTLE,
    DEVICE_CLOCK_SKEW,
    PATH_LOSS,
    RAIL_UNREACHABLE,
    SLOW_HOST,
    HOST_NVLINK_DEGRADED,
    HOST_POWER_CAPPED,
    LOST_NIC,
    BROKEN_PART,
    AVOIDED_PATH,
    REPLAYED_FRAMES,
    TRIMMED_PACKETS,
    STALLED_CREDITS,
    STOPPED_QUEUE,
    TELEMETRY_CONTRADICTION,
)
"""Faults that take down a device with all its links come first, while there is room."""

FAULT_OF: dict[str, Fault] = {fault.slug: fault for fault in (*FAULTS, *reversed(FAULTS))}
"""The faults by the slug of their detector, in the order of FAULTS; a detector of several faults has its first."""
