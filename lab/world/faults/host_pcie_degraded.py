"""host/pcie-degraded: the PCIe link of a busy NIC trains with half of its lanes, or at a lower speed."""

from lab.world.effects import CounterIncrement, GaugeOverride, Interval, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import GroundTruth, InjectedFault, truth_at
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

_TOLERANCE_S = 60.0
_DETECTABLE_AFTER_NS = 60 * 10**9


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Degrade the PCIe link of one NIC for 300 to 1500 s; its port carries less traffic meanwhile."""
    link, interval = placer.link(placer.host_links, within, (300, 1500), placer.is_busy)
    nic = placer.ports(link)[0]
    is_narrow = placer.rng.random() < 0.5
    degraded = (
        GaugeOverride(nic, Metric.PCIE_WIDTH_LANES, interval, value=8.0)
        if is_narrow
        else GaugeOverride(nic, Metric.PCIE_SPEED_GTPS, interval, value=float(placer.rng.choice([2.5, 8.0, 16.0])))
    )
    effects = (
        degraded,
        TrafficReduction(link, interval, placer.rng.uniform(0.3, 0.8)),
        CounterIncrement(nic, Metric.PCIE_STALLED_READ_SECONDS, interval, per_s=placer.rng.uniform(0.1, 0.9)),
    )
    truth = truth_at(placer, Condition.HOST_PCIE_DEGRADED, nic, interval, _TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + _DETECTABLE_AFTER_NS),), effects, "narrow" if is_narrow else "slow"
    )


HOST_PCIE_DEGRADED = Fault(Condition.HOST_PCIE_DEGRADED, inject)
