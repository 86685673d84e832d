"""congestion/imbalance: flows are hashed onto some of a leaf's uplinks; these are nearly full, the others are not.

Upwards by the leaf, or downwards by the tier above.
"""

from lab.world.effects import Interval, TrafficShift
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from streams.wire.models import Condition


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Shift the traffic of one leaf, or to it, onto a quarter of its uplinks at most, for 480 to 900 s."""
    rng = placer.rng
    leaf, interval = placer.imbalanced_leaf(within, (480, 900))
    uplinks = placer.uplinks_of(leaf)
    count = int(rng.integers(1, max(2, len(uplinks) // 4 + 1)))
    end = interval.start_ns % 2  # at random, without a number of its own: the rest of the day stays the same
    full = set(rng.choice(len(uplinks), count, replace=False).tolist())
    effects = [
        TrafficShift(
            link,
            interval,
            rng.uniform(0.6, 0.95) if number in full else rng.uniform(0.15, 0.25),
            placer.ports(link)[end],
        )
        for number, link in enumerate(uplinks)
    ]
    name = placer.fabric.devices[leaf]
    truth = Truth(*interval, Condition.CONGESTION_IMBALANCE, name, "", WINDOW_TOLERANCE_S)
    kind = f"{len(full)} of {len(uplinks)} uplinks{', downwards' if end else ''}"
    return InjectedFault((GroundTruth(truth, interval.start_ns),), tuple(effects), kind)


CONGESTION_IMBALANCE = Fault(Condition.CONGESTION_IMBALANCE, inject)
