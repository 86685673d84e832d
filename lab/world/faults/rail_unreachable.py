"""rail/unreachable: nothing reaches one rail of a host, while its link is up and its other rails answer."""

from lab.world.effects import Interval, PacketDrop
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition

_WINDOWS_NS = 30 * 10**9
"""Three windows of probes: a link that trains, or a route that changes, takes less."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Drop all packets to one rail of a host, for 200 to 900 s."""
    link, interval = placer.link(placer.host_links, within, (200, 900))
    port, _ = placer.ports(link)
    truth = truth_at(placer, Condition.RAIL_UNREACHABLE, port, interval, WINDOW_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + _WINDOWS_NS),), (PacketDrop(port, interval, 1.0),), "silent"
    )  # fmt: skip


RAIL_UNREACHABLE = Fault(Condition.RAIL_UNREACHABLE, inject, own_stream=True)
