"""congestion/incast: more traffic arrives for a host than its link drains.

The leaf marks or drops the packets that queue, or only delays them, or the host pauses the leaf for a part of the time.
Probes of and to the rail wait in the same queue.
"""

from streams.fabric.catalogue import Metric
from streams.simulation.columns import PAUSE_FRAMES_PER_S, PRIORITY
from streams.simulation.effects import CounterIncrement, Effect, Interval, QueueDelay, TrafficShift
from streams.simulation.fault_placement import FaultPlacer
from streams.simulation.faults.fault import Fault
from streams.simulation.ground_truth import CONGESTED_AFTER_NS, WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition

DELAYED = "delayed"
"""The kind that no counter shows: the packets that queue are neither marked nor dropped, and nothing pauses."""
_QUEUE_S = 0.0005
"""A full queue: 25 MB at 400 Gb/s, or what one port may take of a shared buffer (choice)."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Overload the link of one busy host for 150 to 900 s."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (150, 900), placer.is_busy)
    nic, leaf_port = placer.ports(link)
    kind = ("marked", DELAYED, "dropped", "host pauses")[int(rng.integers(4))]
    effects: list[Effect] = []
    queue_s = _QUEUE_S
    if kind == "host pauses":
        share = rng.uniform(0.2, 0.6)
        frames_per_s = PAUSE_FRAMES_PER_S * share
        for port, metric in ((nic, Metric.PFC_TX_FRAMES), (leaf_port, Metric.PFC_RX_FRAMES)):
            effects.append(CounterIncrement(port, metric, interval, per_s=frames_per_s, index=PRIORITY))
        effects.append(CounterIncrement(nic, Metric.PFC_TX_PAUSE_USECONDS, interval, per_s=1e6 * share, index=PRIORITY))
    else:
        effects.append(TrafficShift(link, interval, rng.uniform(0.94, 0.99), sent_by=leaf_port))
    if kind == "marked":
        share = rng.uniform(0.15, 0.6)
        effects.append(
            CounterIncrement(nic, Metric.ROCE_ECN_MARKED_PACKETS, interval, share=share, of_metric=Metric.RX_PACKETS)
        )
        effects.append(
            CounterIncrement(
                leaf_port, Metric.PORT_ECN_MARKED_PACKETS, interval, share=share, of_metric=Metric.TX_PACKETS
            )
        )
    elif kind == "dropped":
        effects.append(CounterIncrement(leaf_port, Metric.TX_DISCARDS, interval, per_s=10 ** rng.uniform(2.5, 5)))
    elif kind == DELAYED:
        queue_s = rng.uniform(0.0003, 0.003)
    effects.append(QueueDelay(nic, interval, queue_s))
    truth = truth_at(placer, Condition.CONGESTION_INCAST, nic, interval, WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, interval.start_ns + CONGESTED_AFTER_NS),), tuple(effects), kind)


CONGESTION_INCAST = Fault(Condition.CONGESTION_INCAST, inject)
