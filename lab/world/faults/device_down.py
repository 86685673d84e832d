"""device/down: a host, a leaf or a spine restarts, and its links are down meanwhile."""

from lab.world.effects import Interval, Rebooting
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import POLL_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from streams.wire.models import Condition


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Restart one device for 90 to 480 s, a host three times as often as a switch of either tier."""
    rng = placer.rng
    tiers = [tier for tier in ("host", "host", "host", "T0", "T1") if placer.devices(tier)]
    tier = tiers[int(rng.integers(len(tiers)))]
    return restart(placer, within, tier)


def restart(placer: FaultPlacer, within: Interval, tier: str) -> InjectedFault:
    """Restart one device of a tier for 90 to 480 s."""
    device, interval = placer.device(placer.devices(tier), within, (90, 480))
    name = placer.fabric.devices[device]
    truth = Truth(*interval, Condition.DEVICE_DOWN, name, "", POLL_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns),), (Rebooting(device, interval),), f"restart of a {tier}"
    )


DEVICE_DOWN = Fault(Condition.DEVICE_DOWN, inject)
