"""congestion/pfc-storm: a NIC pauses its leaf without end, and the leaf pauses the ports that send to the NIC."""

from lab.world.columns import PRIORITY
from lab.world.effects import CounterIncrement, Effect, Interval, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import GroundTruth, InjectedFault, truth_at
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

_S = 10**9
_FRAMES_PER_S = 12_500.0
"""A little more than 11,921 of 65535 quanta, which pause a port of 400 Gb/s all the time (IEEE 802.1Qbb)."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let one NIC pause its leaf for 40 to 300 s, and the leaf up to six other ports."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (40, 300), placer.is_busy)
    nic, leaf_port = placer.ports(link)
    effects: list[Effect] = [*_pause(link, sender=nic, paused=leaf_port, interval=interval)]
    leaf = placer.ends[link][1]
    others = [other for other in placer.links_of(leaf) if other != link]
    rng.shuffle(others)
    spread = [other for other in others[: int(rng.integers(0, 7))] if placer.claim(other, interval)]
    for other in spread:
        low, high = placer.ports(other)
        near, far = (low, high) if placer.ends[other][0] == leaf else (high, low)
        later = Interval(interval.start_ns + round(rng.uniform(0.01, 1) * _S), interval.end_ns)
        effects += _pause(other, sender=near, paused=far, interval=later)
    truth = truth_at(placer, Condition.CONGESTION_PFC_STORM, nic, interval)
    affected = tuple(placer.port_name(port) for other in spread for port in placer.ports(other))
    return InjectedFault((GroundTruth(truth, interval.start_ns),), tuple(effects), "storm", affected)


def _pause(link: int, sender: int, paused: int, interval: Interval) -> list[Effect]:
    """Return the effects of a port that pauses the other end: pause frames and microseconds, no traffic that way."""
    return [
        TrafficReduction(link, interval, 0.0, sent_by=paused),
        CounterIncrement(sender, Metric.PFC_TX_FRAMES, interval, per_s=_FRAMES_PER_S, index=PRIORITY),
        CounterIncrement(paused, Metric.PFC_RX_FRAMES, interval, per_s=_FRAMES_PER_S, index=PRIORITY),
        CounterIncrement(sender, Metric.PFC_TX_PAUSE_USECONDS, interval, per_s=0.99e6, index=PRIORITY),
        CounterIncrement(paused, Metric.PFC_RX_PAUSE_USECONDS, interval, per_s=0.99e6, index=PRIORITY),
    ]


CONGESTION_PFC_STORM = Fault(Condition.CONGESTION_PFC_STORM, inject, detection_goal_s=5.0)
