"""link/miscabled: two cables of a leaf are swapped, and later put back; both links go down each time."""

from lab.world.effects import CablesSwapped, Interval, SignalLoss
from lab.world.fault_placement import FaultPlacer, NoRoom
from lab.world.faults.fault import Fault
from lab.world.ground_truth import GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition

_S = 10**9
_TOLERANCE_S = 180.0


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Swap two host links of one leaf for 600 to 1500 s."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (600, 1500))
    others = [
        other for other in placer.links_of(placer.ends[link][1]) if other in placer.host_link_set and other != link
    ]
    rng.shuffle(others)
    other = next((other for other in others if placer.claim(other, interval)), None)
    if other is None:
        raise NoRoom("no other cable of the switch is free")
    losses = [
        SignalLoss(each, Interval(edge_ns - round(rng.uniform(3, 8) * _S), edge_ns + round(rng.uniform(1, 5) * _S)))
        for each in (link, other)
        for edge_ns in interval
    ]
    truths = [
        GroundTruth(
            truth_at(placer, Condition.LINK_MISCABLED, placer.ports(each)[0], interval, _TOLERANCE_S),
            interval.start_ns,
        )
        for each in (link, other)
    ]
    swapped = CablesSwapped((link, other), interval, float(rng.uniform(10, 120)))
    return InjectedFault(tuple(truths), (swapped, *losses), "swapped")


LINK_MISCABLED = Fault(Condition.LINK_MISCABLED, inject)
