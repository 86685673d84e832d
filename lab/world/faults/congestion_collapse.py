"""congestion/collapse: a leaf pauses nearly all hosts of its rail, which send a fraction of their traffic."""

from lab.world.columns import PAUSE_FRAMES_PER_S, PRIORITY
from lab.world.effects import CounterIncrement, Effect, Interval, QueueDelay, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import CONGESTED_AFTER_NS, POLL_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

_QUEUE_S = 0.001
"""The wait in the queue of a NIC that a pause of most of the time lets send little (choice)."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Throttle one rail of a pod for 100 to 160 s: paused 40 to 70 % of the time."""
    rng = placer.rng
    pod, links, interval = placer.collapsing_rail(within, (100, 160))
    share, paused = rng.uniform(0.15, 0.35), rng.uniform(0.4, 0.7)
    effects: list[Effect] = []
    for link in links:
        nic, leaf_port = placer.ports(link)
        effects.append(TrafficReduction(link, interval, share, sent_by=nic))
        effects.append(QueueDelay(leaf_port, interval, _QUEUE_S))
        for port, metric in ((nic, Metric.PFC_RX_FRAMES), (leaf_port, Metric.PFC_TX_FRAMES)):
            effects.append(CounterIncrement(port, metric, interval, per_s=PAUSE_FRAMES_PER_S * paused, index=PRIORITY))
        effects.append(
            CounterIncrement(nic, Metric.PFC_RX_PAUSE_USECONDS, interval, per_s=1e6 * paused, index=PRIORITY)
        )
    truth = Truth(*interval, Condition.CONGESTION_COLLAPSE, pod, "", POLL_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, interval.start_ns + CONGESTED_AFTER_NS),), tuple(effects), f"{len(links)} hosts of a rail"
    )


CONGESTION_COLLAPSE = Fault(Condition.CONGESTION_COLLAPSE, inject)
