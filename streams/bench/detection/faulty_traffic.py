"""What goes wrong with traffic: more comes to a host than goes in, and a switch's uplinks carry unevenly."""

from streams.bench.detection.columns import PRIORITY
from streams.bench.detection.effects import Carries, Effect, Extra, Slowed, Span
from streams.bench.detection.injection import MINUTES_S, READ_S, Injection, Known, truth_at
from streams.bench.detection.places import Places
from streams.fabric.catalogue import Metric
from streams.replay.score import Truth
from streams.wire.models import Condition

_S = 10**9
_CROWDED_NS = 60 * _S
"""What is over sooner is a collective's burst (DETECTION 3, "Congestion")."""
_PAUSES_A_SECOND = 11_921.0
"""All the time of a port of 400 Gb/s (IEEE 802.1Qbb: 65535 quanta of 512 bits)."""


def incast(places: Places, within: Span) -> Injection:
    """A host's link is full and its leaf marks or drops what waits, or the host itself pauses the leaf now and then."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (150, 900), places.busy)
    nic, leaf = places.ports(link)
    kind = ("marked", "marked", "dropped", "host pauses")[int(chance.integers(4))]
    effects: list[Effect] = []
    if kind == "host pauses":
        share = chance.uniform(0.2, 0.6)
        for port, metric in ((nic, Metric.PFC_TX_FRAMES), (leaf, Metric.PFC_RX_FRAMES)):
            effects.append(Extra(port, metric, span, a_second=_PAUSES_A_SECOND * share, index=PRIORITY))
        effects.append(Extra(nic, Metric.PFC_TX_PAUSE_USECONDS, span, a_second=1e6 * share, index=PRIORITY))
    else:
        effects.append(Carries(link, span, chance.uniform(0.94, 0.99), sent_by=leaf))
    if kind == "marked":
        share = chance.uniform(0.15, 0.6)
        effects.append(Extra(nic, Metric.ROCE_ECN_MARKED_PACKETS, span, share=share, of=Metric.RX_PACKETS))
        effects.append(Extra(leaf, Metric.PORT_ECN_MARKED_PACKETS, span, share=share, of=Metric.TX_PACKETS))
    elif kind == "dropped":
        effects.append(Extra(leaf, Metric.TX_DISCARDS, span, a_second=10 ** chance.uniform(2.5, 5)))
    truth = truth_at(places, Condition.CONGESTION_INCAST, nic, span, MINUTES_S)
    return Injection((Known(truth, span.start_ns + _CROWDED_NS),), tuple(effects), kind)


def collapse(places: Places, within: Span) -> Injection:
    """A leaf holds back nearly all hosts of its rail: they are paused for half of the time, and send a fraction."""
    chance = places.chance
    pod, links, span = places.rail_of_a_pod(within, (100, 160))
    share, paused = chance.uniform(0.15, 0.35), chance.uniform(0.4, 0.7)
    effects: list[Effect] = []
    for link in links:
        nic, leaf = places.ports(link)
        effects.append(Slowed(link, span, share, sent_by=nic))
        for port, metric in ((nic, Metric.PFC_RX_FRAMES), (leaf, Metric.PFC_TX_FRAMES)):
            effects.append(Extra(port, metric, span, a_second=_PAUSES_A_SECOND * paused, index=PRIORITY))
        effects.append(Extra(nic, Metric.PFC_RX_PAUSE_USECONDS, span, a_second=1e6 * paused, index=PRIORITY))
    truth = Truth(span.start_ns, span.end_ns, Condition.CONGESTION_COLLAPSE, pod, "", READ_S)
    return Injection((Known(truth, span.start_ns + _CROWDED_NS),), tuple(effects), f"{len(links)} hosts of a rail")


def imbalance(places: Places, within: Span) -> Injection:
    """Flows are hashed onto some of a leaf's uplinks: these are nearly full, and the others carry little."""
    chance = places.chance
    leaf, span = places.uneven_leaf(within, (480, 900))
    ups = places.uplinks_of(leaf)
    full = set(chance.choice(len(ups), int(chance.integers(1, max(2, len(ups) // 4 + 1))), replace=False).tolist())
    effects = [
        Carries(
            link, span, chance.uniform(0.6, 0.95) if i in full else chance.uniform(0.15, 0.25), places.ports(link)[0]
        )
        for i, link in enumerate(ups)
    ]
    truth = Truth(span.start_ns, span.end_ns, Condition.CONGESTION_IMBALANCE, places.plant.devices[leaf], "", MINUTES_S)
    return Injection((Known(truth, span.start_ns),), tuple(effects), f"{len(full)} of {len(ups)} uplinks")
