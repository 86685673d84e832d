"""link/down: a link loses its signal for 38 s to 20 min."""

from lab.world.effects import Interval, SignalLoss
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.faults.link_selection import dark_port, links_of_random_role
from lab.world.ground_truth import LINK_DOWN_AFTER_NS, GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Take down one link; in half of all cases one end receives no light."""
    link, interval = placer.link(links_of_random_role(placer), within, (38, 1200))
    truth = truth_at(placer, Condition.LINK_DOWN, placer.ports(link)[0], interval)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + LINK_DOWN_AFTER_NS, (link, interval.start_ns)),),
        (SignalLoss(link, interval, dark_port=dark_port(placer, link)),),
        "down",
    )


LINK_DOWN = Fault(Condition.LINK_DOWN, inject, detection_goal_s=1.0)
