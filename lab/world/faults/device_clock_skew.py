"""device/clock-skew: the clock of a switch or a host jumps, and is set right again; nothing else happens."""

from lab.world.effects import ClockShift, Interval
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import POLL_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from streams.wire.models import Condition

_MEASURED_NS = 30 * 10**9
"""The time for which samples must differ by the same offset: one alone may have been delayed."""
_LEAST_S, _MOST_S = 15.0, 7 * 86_400.0
"""From what no queue delays to a clock that was never set; most are off by minutes."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Shift the clock of one device by 15 s to 7 days, ahead or behind, for 200 to 1500 s."""
    rng = placer.rng
    devices = [device for tier in ("host", "T0", "T1") for device in placer.devices(tier)]
    device, interval = placer.device(devices, within, (200, 1500), alone=True)
    offset_s = float(_LEAST_S * (_MOST_S / _LEAST_S) ** rng.uniform()) * (1 if rng.random() < 0.5 else -1)
    truth = Truth(*interval, Condition.DEVICE_CLOCK_SKEW, placer.fabric.devices[device], "", POLL_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + _MEASURED_NS),),
        (ClockShift(device, interval, offset_s),),
        "ahead" if offset_s > 0 else "behind",
    )


DEVICE_CLOCK_SKEW = Fault(Condition.DEVICE_CLOCK_SKEW, inject, own_stream=True)
