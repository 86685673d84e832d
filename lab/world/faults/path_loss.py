"""path/loss: a link drops packets in one direction and no counter shows it: a share of all, or all of one 5-tuple."""

from lab.world.effects import Interval, PacketDrop
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.faults.link_selection import links_of_random_role
from lab.world.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition

_LEAST, _MOST = 0.01, 0.3
"""Shares of the packets, drawn evenly over their logarithm: from what stalls a job to what breaks it."""
_EVALUATED_NS = 60 * 10**9
"""A minute of probes is evaluated together."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let a link drop 1 to 30 % of the packets, or a fabric link those of one 5-tuple, for 400 to 900 s."""
    rng = placer.rng
    one_flow = rng.random() < 1 / 3 and bool(placer.fabric_links)
    candidates = placer.fabric_links if one_flow else links_of_random_role(placer)
    link, interval = placer.link(candidates, within, (400, 900))
    port = placer.ports(link)[int(rng.integers(2))]
    share = 1.0 if one_flow else float(_LEAST * (_MOST / _LEAST) ** rng.uniform())
    truth = truth_at(placer, Condition.PATH_LOSS, port, interval, WINDOW_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + _EVALUATED_NS),), (PacketDrop(port, interval, share, one_flow),),
        "one flow" if one_flow else "a share",
    )  # fmt: skip


PATH_LOSS = Fault(Condition.PATH_LOSS, inject, own_stream=True)
