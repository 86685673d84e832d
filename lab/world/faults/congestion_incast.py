"""congestion/incast: more traffic arrives for a host than its link drains.

The leaf marks or drops the packets that queue, or only delays them, or the host pauses the leaf for a part of the time.
Probes of and to the rail wait in the same queue. Marked packets slow the hosts that send them, of which some are in
another pod where the job has hosts there.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from lab.world.columns import PAUSE_FRAMES_PER_S, PRIORITY
from lab.world.effects import CounterIncrement, Effect, Interval, QueueDelay, TrafficShift
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import CONGESTED_AFTER_NS, WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

DELAYED = "delayed"
"""The kind that no counter shows: the packets that queue are neither marked nor dropped, and nothing pauses."""
_QUEUE_S = 0.0005
"""A full queue: 25 MB at 400 Gb/s, or what one port may take of a shared buffer (choice)."""

_CNP_PER_S = 2_000, 20_000
"""Of a slowed sender: twice `[detect.incast] cnp_per_s` to what DCQCN (SIGCOMM'15) sends one flow, one in 50 us."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Overload the link of one busy host for 150 to 900 s."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (150, 900), placer.is_busy)
    nic, leaf_port = placer.ports(link)
    kind = ("marked", DELAYED, "dropped", "host pauses")[int(rng.integers(4))]
    effects: list[Effect] = []
    senders: list[int] = []
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
        senders = _senders(placer, link, interval)
        effects += _notified(placer, senders, interval)
    elif kind == "dropped":
        effects.append(CounterIncrement(leaf_port, Metric.TX_DISCARDS, interval, per_s=10 ** rng.uniform(2.5, 5)))
    elif kind == DELAYED:
        queue_s = rng.uniform(0.0003, 0.003)
    effects.append(QueueDelay(nic, interval, queue_s))
    truth = truth_at(placer, Condition.CONGESTION_INCAST, nic, interval, WINDOW_TOLERANCE_S)
    names = tuple(placer.fabric.devices[placer.ends[sender][0]] for sender in senders)
    known = GroundTruth(truth, interval.start_ns + CONGESTED_AFTER_NS)
    return InjectedFault((known,), tuple(effects), kind, senders=names)


def _senders(placer: FaultPlacer, link: int, interval: Interval) -> list[int]:
    """Claim the links of up to six hosts of the job in another pod; drawn apart, so that other faults stay the same."""
    own = np.random.default_rng([interval.start_ns, link])
    peers = placer.peers_elsewhere(link, interval)
    chosen = own.choice(peers, min(len(peers), int(own.integers(2, 7))), replace=False).tolist() if peers else []
    return [sender for sender in sorted(chosen) if placer.claim(sender, interval)]


def _notified(placer: FaultPlacer, senders: Sequence[int], interval: Interval) -> Iterator[Effect]:
    """Yield the congestion notifications that the senders handle: enough to slow them, at most those of one flow."""
    own = np.random.default_rng([interval.start_ns, 1])
    for sender in senders:
        nic, _ = placer.ports(sender)
        yield CounterIncrement(nic, Metric.CNP_HANDLED, interval, per_s=own.uniform(*_CNP_PER_S))


CONGESTION_INCAST = Fault(Condition.CONGESTION_INCAST, inject)
