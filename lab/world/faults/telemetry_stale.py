"""telemetry/stale: a switch no longer answers its collector, or a host's agent has ended; links are not affected."""

from lab.world.effects import Interval, NotPolled
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import POLL_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from streams.wire.models import Condition

_STALE_AFTER_NS = 30 * 10**9
"""Three cadences of 10 s (DESIGN 2)."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Stop the samples of one device for 60 to 900 s."""
    is_reported = placer.rng.random() < 0.5
    tiers = ("T0", "T1") if is_reported else ("host",)
    devices = [device for tier in tiers for device in placer.devices(tier)]
    device, interval = placer.device(devices, within, (60, 900), alone=True)
    truth = Truth(*interval, Condition.TELEMETRY_STALE, placer.fabric.devices[device], "", POLL_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + _STALE_AFTER_NS, by_agent=not is_reported),),
        (NotPolled(device, interval, is_reported),),
        "unread" if is_reported else "no agent",
    )


TELEMETRY_STALE = Fault(Condition.TELEMETRY_STALE, inject)
