"""The list of faults: one declaration for each detector, in one file each.

Everything that simulates a fabric injects from this list: the demo, the detection benchmark, the load generator and the
tests. A new fault is a file here, with `own_stream`, and an entry at the end of FAULTS: so the days of all seeds that
were ever published stay as they are but for the new fault.
"""

from lab.world.faults.congestion_collapse import CONGESTION_COLLAPSE
from lab.world.faults.congestion_imbalance import CONGESTION_IMBALANCE
from lab.world.faults.congestion_incast import CONGESTION_INCAST
from lab.world.faults.congestion_pfc_storm import CONGESTION_PFC_STORM
from lab.world.faults.device_clock_skew import DEVICE_CLOCK_SKEW
from lab.world.faults.device_down import DEVICE_DOWN
from lab.world.faults.fault import Fault
from lab.world.faults.fleet_version_drift import FLEET_VERSION_DRIFT
from lab.world.faults.host_gpu_fault import HOST_GPU_FAULT
from lab.world.faults.host_pcie_degraded import HOST_PCIE_DEGRADED
from lab.world.faults.host_thermal_throttle import HOST_THERMAL_THROTTLE
from lab.world.faults.link_degrading import LINK_DEGRADING
from lab.world.faults.link_down import LINK_DOWN
from lab.world.faults.link_flap import LINK_FLAP
from lab.world.faults.link_miscabled import LINK_MISCABLED
from lab.world.faults.path_loss import PATH_LOSS
from lab.world.faults.rail_degraded import RAIL_DEGRADED
from lab.world.faults.rail_unreachable import RAIL_UNREACHABLE
from lab.world.faults.slow_host import SLOW_HOST
from lab.world.faults.telemetry_stale import TELEMETRY_STALE

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
)
"""Faults that take a device with all its links come first, while there is room."""

FAULT_OF: dict[str, Fault] = {fault.slug: fault for fault in (*FAULTS, *reversed(FAULTS))}
"""The faults by the slug of their detector, in the order of FAULTS: the first of those that one detector finds."""
