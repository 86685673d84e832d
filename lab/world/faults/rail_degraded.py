"""rail/degraded: a rail of a busy host carries less than its peers.

The reason is unknown, or PCIe, a lower link speed, or retransmissions.
"""

from lab.world.columns import LINE_BPS
from lab.world.effects import CounterIncrement, Effect, GaugeOverride, Interval, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Slow down one rail for 480 to 1500 s."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (480, 1500), placer.is_busy)
    nic, leaf = placer.ports(link)
    kind = ("slow", "slow", "pcie", "trained-low", "retransmits")[int(rng.integers(5))]
    effects: list[Effect] = []
    match kind:
        case "slow":
            effects.append(TrafficReduction(link, interval, rng.uniform(0.3, 0.82)))
        case "pcie":
            stalled = rng.uniform(0.4, 0.9)
            effects.append(TrafficReduction(link, interval, rng.uniform(0.3, 0.8)))
            effects.append(CounterIncrement(nic, Metric.PCIE_STALLED_READ_SECONDS, interval, per_s=stalled))
        case "trained-low":
            effects += [GaugeOverride(port, Metric.SPEED_BPS, interval, value=LINE_BPS / 2) for port in (nic, leaf)]
            effects.append(TrafficReduction(link, interval, rng.uniform(0.45, 0.95)))
        case _:
            effects.append(TrafficReduction(link, interval, rng.uniform(0.5, 0.85)))
            effects.append(CounterIncrement(nic, Metric.LOCAL_ACK_TIMEOUTS, interval, per_s=rng.uniform(2, 30)))
            effects.append(CounterIncrement(nic, Metric.ROCE_SLOW_RESTARTS, interval, per_s=rng.uniform(2, 30)))
    truth = truth_at(placer, Condition.RAIL_DEGRADED, nic, interval, WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, interval.start_ns),), tuple(effects), kind)


RAIL_DEGRADED = Fault(Condition.RAIL_DEGRADED, inject, detection_goal_s=300.0)
