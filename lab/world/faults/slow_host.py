"""rail/degraded of a host: all rails of a busy host are slow together.

The host carries less than the others of its job (`bytes`), or its job waits for it, so that all hosts carry the same
and only counters of its NICs show it: stalls on PCIe, or retransmissions.
"""

from lab.world.effects import CounterIncrement, Effect, Interval, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

_LIKE_OTHERS_NS = 420 * 10**9
"""The host has worked like the others before: five windows, and the window and lateness until the fifth is known."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Slow down a host for 480 to 1500 s."""
    rng = placer.rng
    # What was before `within` may not be observed.
    within = Interval(min(within.start_ns + _LIKE_OTHERS_NS, within.end_ns), within.end_ns)

    def is_busy(host: int, interval: Interval) -> bool:
        before = Interval(interval.start_ns - _LIKE_OTHERS_NS, interval.end_ns)
        return placer.is_busy(placer.links_of(host)[0], before)

    host, interval = placer.device(placer.devices("host"), within, (480, 1500), alone=True, fits=is_busy)
    links = placer.links_of(host)
    nics = [placer.ports(link)[0] for link in links]
    kind = ("bytes", "pcie", "retransmits")[int(rng.integers(3))]
    effects: list[Effect] = []
    match kind:
        case "bytes":
            share = rng.uniform(0.3, 0.8)
            effects += [TrafficReduction(link, interval, share) for link in links]
        case "pcie":
            metric, stalled = Metric.PCIE_STALLED_READ_SECONDS, rng.uniform(0.4, 0.9)
            effects += [CounterIncrement(nic, metric, interval, per_s=stalled) for nic in nics]
        case _:
            metric, per_s = Metric.LOCAL_ACK_TIMEOUTS, rng.uniform(2, 30)
            effects += [CounterIncrement(nic, metric, interval, per_s=per_s) for nic in nics]
    truth = Truth(*interval, Condition.RAIL_DEGRADED, placer.fabric.devices[host], "", WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, interval.start_ns),), tuple(effects), kind)


SLOW_HOST = Fault(Condition.RAIL_DEGRADED, inject, detection_goal_s=300.0, own_stream=True)
