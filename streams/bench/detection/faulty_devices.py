"""What goes wrong with devices and in hosts: restarts, silence, slow rails, PCIe, GPUs, NICs that pause all others."""

from streams.bench.detection.agents import GPUS, gpu_name, xid
from streams.bench.detection.columns import PRIORITY
from streams.bench.detection.effects import Away, Effect, Extra, Level, Slowed, Span, Unread
from streams.bench.detection.injection import EXACT_S, MINUTES_S, READ_S, Injection, Known, truth_at
from streams.bench.detection.places import Places
from streams.fabric.catalogue import Metric
from streams.replay.score import Truth
from streams.wire.models import Condition

_S = 10**9
_LINE_BPS = 400e9
_SILENT_NS = 30 * _S
"""Three cadences of 10 s (DESIGN 2)."""
_PAUSES_A_SECOND = 12_500.0
"""A little more than 11,921 of 65535 quanta, which are all the time of a port of 400 Gb/s (IEEE 802.1Qbb)."""


def device(places: Places, within: Span) -> Injection:
    """A host, a leaf or a spine restarts; what hangs on it is its own affair."""
    chance = places.chance
    tiers = [tier for tier in ("host", "host", "host", "T0", "T1") if places.devices(tier)]
    tier = tiers[int(chance.integers(len(tiers)))]
    own, span = places.device(places.devices(tier), within, (90, 480))
    truth = Truth(span.start_ns, span.end_ns, Condition.DEVICE_DOWN, places.plant.devices[own], "", READ_S)
    return Injection((Known(truth, span.start_ns),), (Away(own, span),), f"restart of a {tier}")


def stale(places: Places, within: Span) -> Injection:
    """A switch answers its collector no more, or a host's agent is dead; ports and links are well."""
    said = places.chance.random() < 0.5
    tiers = ("T0", "T1") if said else ("host",)
    of = [d for tier in tiers for d in places.devices(tier)]
    own, span = places.device(of, within, (60, 900), alone=True)
    truth = Truth(span.start_ns, span.end_ns, Condition.TELEMETRY_STALE, places.plant.devices[own], "", READ_S)
    return Injection(
        (Known(truth, span.start_ns + _SILENT_NS),), (Unread(own, span, said),), "unread" if said else "no agent"
    )


def rail(places: Places, within: Span) -> Injection:
    """A rail of a busy host carries less than its peers: who knows why, by PCIe, by its speed, or by sending again."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (480, 1500), places.busy)
    nic, far = places.ports(link)
    kind = ("slow", "slow", "pcie", "trained-low", "retransmits")[int(chance.integers(5))]
    effects: list[Effect] = []
    match kind:
        case "slow":
            effects.append(Slowed(link, span, chance.uniform(0.3, 0.82)))
        case "pcie":
            stalled = chance.uniform(0.4, 0.9)
            effects.append(Slowed(link, span, chance.uniform(0.3, 0.8)))
            effects.append(Extra(nic, Metric.PCIE_STALLED_READ_SECONDS, span, a_second=stalled))
        case "trained-low":
            effects += [Level(port, Metric.SPEED_BPS, span, value=_LINE_BPS / 2) for port in (nic, far)]
            effects.append(Slowed(link, span, chance.uniform(0.45, 0.95)))
        case _:
            effects.append(Slowed(link, span, chance.uniform(0.5, 0.85)))
            effects.append(Extra(nic, Metric.LOCAL_ACK_TIMEOUTS, span, a_second=chance.uniform(2, 30)))
            effects.append(Extra(nic, Metric.ROCE_SLOW_RESTARTS, span, a_second=chance.uniform(2, 30)))
    truth = truth_at(places, Condition.RAIL_DEGRADED, nic, span, MINUTES_S)
    return Injection((Known(truth, span.start_ns),), tuple(effects), kind)


def pcie(places: Places, within: Span) -> Injection:
    """The PCIe link of a NIC at work trains anew with half of its lanes, or slower; so does what goes through it."""
    link, span = places.link(places.host_links, within, (300, 1500), places.busy)
    nic = places.ports(link)[0]
    narrow = places.chance.random() < 0.5
    low = (
        Level(nic, Metric.PCIE_WIDTH_LANES, span, value=8.0)
        if narrow
        else Level(nic, Metric.PCIE_SPEED_GTPS, span, value=float(places.chance.choice([2.5, 8.0, 16.0])))
    )
    effects = (
        low,
        Slowed(link, span, places.chance.uniform(0.3, 0.8)),
        Extra(nic, Metric.PCIE_STALLED_READ_SECONDS, span, a_second=places.chance.uniform(0.1, 0.9)),
    )
    truth = truth_at(places, Condition.HOST_PCIE_DEGRADED, nic, span, 60.0)
    return Injection((Known(truth, span.start_ns + 60 * _S),), effects, "narrow" if narrow else "slow")


_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 92, 63)


def gpu(places: Places, within: Span) -> Injection:
    """A GPU breaks: an Xid of the driver, and some that follow from it."""
    chance = places.chance
    own, span = places.host_of_a_broken_gpu(within, (300, 900))
    code, pci = int(chance.choice(_XIDS)), gpu_name(int(chance.integers(GPUS)))
    host = places.plant.devices[own]
    codes = [(0.0, code), *((float(chance.uniform(0.1, 20)), int(chance.choice((45, 154)))) for _ in range(2))]
    effects: list[Effect] = [
        xid(host, pci, said, span.start_ns + round(after_s * _S), n + 1) for n, (after_s, said) in enumerate(codes)
    ]
    truth = Truth(span.start_ns, span.end_ns, Condition.HOST_GPU_FAULT, host, pci, EXACT_S)
    return Injection((Known(truth, span.start_ns),), tuple(effects), f"xid {code}")


def storm(places: Places, within: Span) -> Injection:
    """A NIC pauses its leaf without end; the leaf pauses those that send to it, and nothing gets there."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (40, 300), places.busy)
    nic, at_leaf = places.ports(link)
    effects: list[Effect] = [*_paused(link, by=nic, held=at_leaf, span=span)]
    leaf = places.ends[link][1]
    others = [other for other in places.links_of(leaf) if other != link]
    chance.shuffle(others)
    for other in [o for o in others[: int(chance.integers(0, 7))] if places.take(o, span)]:
        low, high = places.ports(other)
        mine, far = (low, high) if places.ends[other][0] == leaf else (high, low)
        late = Span(span.start_ns + round(chance.uniform(0.01, 1) * _S), span.end_ns)
        effects += _paused(other, by=mine, held=far, span=late)
    truth = truth_at(places, Condition.CONGESTION_PFC_STORM, nic, span)
    return Injection((Known(truth, span.start_ns),), tuple(effects), "storm")


def _paused(link: int, by: int, held: int, span: Span) -> list[Effect]:
    """One port pauses the other for good: frames at both, microseconds where a NIC counts them, no traffic that way."""
    return [
        Slowed(link, span, 0.0, sent_by=held),
        Extra(by, Metric.PFC_TX_FRAMES, span, a_second=_PAUSES_A_SECOND, index=PRIORITY),
        Extra(held, Metric.PFC_RX_FRAMES, span, a_second=_PAUSES_A_SECOND, index=PRIORITY),
        Extra(by, Metric.PFC_TX_PAUSE_USECONDS, span, a_second=0.99e6, index=PRIORITY),
        Extra(held, Metric.PFC_RX_PAUSE_USECONDS, span, a_second=0.99e6, index=PRIORITY),
    ]
