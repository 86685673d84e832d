"""What goes wrong with traffic: more comes to a host than goes in, and a switch's uplinks carry unevenly."""

from streams.fabric.catalogue import Metric
from streams.simulation.columns import PRIORITY
from streams.simulation.effects import CounterIncrement, Effect, Interval, TrafficReduction, TrafficShift
from streams.simulation.fault_placement import FaultPlacer
from streams.simulation.ground_truth import (
    POLL_TOLERANCE_S,
    WINDOW_TOLERANCE_S,
    GroundTruth,
    InjectedFault,
    Truth,
    truth_at,
)
from streams.wire.models import Condition

_S = 10**9
_CROWDED_NS = 60 * _S
"""What is over sooner is a collective's burst (DETECTION 3, "Congestion")."""
_PAUSES_A_SECOND = 11_921.0
"""All the time of a port of 400 Gb/s (IEEE 802.1Qbb: 65535 quanta of 512 bits)."""


def incast(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A host's link is full and its leaf marks or drops what waits, or the host itself pauses the leaf now and then."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (150, 900), places.is_busy)
    nic, leaf = places.ports(link)
    kind = ("marked", "marked", "dropped", "host pauses")[int(chance.integers(4))]
    effects: list[Effect] = []
    if kind == "host pauses":
        share = chance.uniform(0.2, 0.6)
        for port, metric in ((nic, Metric.PFC_TX_FRAMES), (leaf, Metric.PFC_RX_FRAMES)):
            effects.append(CounterIncrement(port, metric, span, per_s=_PAUSES_A_SECOND * share, index=PRIORITY))
        effects.append(CounterIncrement(nic, Metric.PFC_TX_PAUSE_USECONDS, span, per_s=1e6 * share, index=PRIORITY))
    else:
        effects.append(TrafficShift(link, span, chance.uniform(0.94, 0.99), sent_by=leaf))
    if kind == "marked":
        share = chance.uniform(0.15, 0.6)
        effects.append(
            CounterIncrement(nic, Metric.ROCE_ECN_MARKED_PACKETS, span, share=share, of_metric=Metric.RX_PACKETS)
        )
        effects.append(
            CounterIncrement(leaf, Metric.PORT_ECN_MARKED_PACKETS, span, share=share, of_metric=Metric.TX_PACKETS)
        )
    elif kind == "dropped":
        effects.append(CounterIncrement(leaf, Metric.TX_DISCARDS, span, per_s=10 ** chance.uniform(2.5, 5)))
    truth = truth_at(places, Condition.CONGESTION_INCAST, nic, span, WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, span.start_ns + _CROWDED_NS),), tuple(effects), kind)


def collapse(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A leaf holds back nearly all hosts of its rail: they are paused for half of the time, and send a fraction."""
    chance = places.chance
    pod, links, span = places.collapsing_rail(within, (100, 160))
    share, paused = chance.uniform(0.15, 0.35), chance.uniform(0.4, 0.7)
    effects: list[Effect] = []
    for link in links:
        nic, leaf = places.ports(link)
        effects.append(TrafficReduction(link, span, share, sent_by=nic))
        for port, metric in ((nic, Metric.PFC_RX_FRAMES), (leaf, Metric.PFC_TX_FRAMES)):
            effects.append(CounterIncrement(port, metric, span, per_s=_PAUSES_A_SECOND * paused, index=PRIORITY))
        effects.append(CounterIncrement(nic, Metric.PFC_RX_PAUSE_USECONDS, span, per_s=1e6 * paused, index=PRIORITY))
    truth = Truth(span.start_ns, span.end_ns, Condition.CONGESTION_COLLAPSE, pod, "", POLL_TOLERANCE_S)
    return InjectedFault(
        (GroundTruth(truth, span.start_ns + _CROWDED_NS),), tuple(effects), f"{len(links)} hosts of a rail"
    )


def imbalance(places: FaultPlacer, within: Interval) -> InjectedFault:
    """Flows are hashed onto some of a leaf's uplinks: these are nearly full, and the others carry little."""
    chance = places.chance
    leaf, span = places.imbalanced_leaf(within, (480, 900))
    ups = places.uplinks_of(leaf)
    full = set(chance.choice(len(ups), int(chance.integers(1, max(2, len(ups) // 4 + 1))), replace=False).tolist())
    effects = [
        TrafficShift(
            link, span, chance.uniform(0.6, 0.95) if i in full else chance.uniform(0.15, 0.25), places.ports(link)[0]
        )
        for i, link in enumerate(ups)
    ]
    truth = Truth(
        span.start_ns, span.end_ns, Condition.CONGESTION_IMBALANCE, places.plant.devices[leaf], "", WINDOW_TOLERANCE_S
    )
    return InjectedFault((GroundTruth(truth, span.start_ns),), tuple(effects), f"{len(full)} of {len(ups)} uplinks")
