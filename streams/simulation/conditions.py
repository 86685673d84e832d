"""The conditions of the trial: each row of CONDITIONS makes one injection by chance.

An injection says what really was and brings it about by effects at all sources that would notice; it knows nothing of
what a detector looks at. A new condition is a function (in faulty_links.py,
faulty_devices.py, faulty_traffic.py or faulty_fleet.py) and a row.
"""

from streams.simulation.faulty_devices import device, gpu, pcie, rail, stale, storm
from streams.simulation.faulty_fleet import drift
from streams.simulation.faulty_links import degrading, down, flap, miscabled
from streams.simulation.faulty_traffic import collapse, imbalance, incast
from streams.simulation.ground_truth import Make
from streams.wire.models import Condition

CONDITIONS: dict[Condition, tuple[Make, float | None]] = {
    Condition.DEVICE_DOWN: (device, None),
    Condition.TELEMETRY_STALE: (stale, None),
    Condition.LINK_DOWN: (down, 1.0),
    Condition.LINK_FLAP: (flap, 1.0),
    Condition.LINK_DEGRADING: (degrading, None),
    Condition.RAIL_DEGRADED: (rail, 300.0),
    Condition.HOST_PCIE_DEGRADED: (pcie, None),
    Condition.HOST_GPU_FAULT: (gpu, None),
    Condition.CONGESTION_PFC_STORM: (storm, 5.0),
    Condition.LINK_MISCABLED: (miscabled, None),
    Condition.CONGESTION_COLLAPSE: (collapse, None),
    Condition.CONGESTION_INCAST: (incast, None),
    Condition.CONGESTION_IMBALANCE: (imbalance, None),
    Condition.FLEET_VERSION_DRIFT: (drift, None),
}
"""What makes an injection, and within how many seconds of when it can be known it is to be found (None: not promised).

Those that take a device with all its links come first, while there is room.
"""
