"""host/thermal-throttle: the module of a busy NIC is at its temperature limit, and the NIC throttles."""

from lab.world.effects import GaugeOverride, Interval, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import GroundTruth, InjectedFault, truth_at
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

_TOLERANCE_S = 60.0
_DETECTABLE_AFTER_NS = 60 * 10**9


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Heat the module of one NIC to 84 to 95 °C for 300 to 1500 s; its port carries less traffic meanwhile."""
    link, interval = placer.link(placer.host_links, within, (300, 1500), placer.is_busy)
    nic = placer.ports(link)[0]
    effects = (
        GaugeOverride(nic, Metric.MODULE_TEMPERATURE_C, interval, value=placer.rng.uniform(84, 95)),
        TrafficReduction(link, interval, placer.rng.uniform(0.3, 0.8)),
    )
    truth = truth_at(placer, Condition.HOST_THERMAL_THROTTLE, nic, interval, _TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, interval.start_ns + _DETECTABLE_AFTER_NS),), effects, "module")


HOST_THERMAL_THROTTLE = Fault(Condition.HOST_THERMAL_THROTTLE, inject, own_stream=True)
