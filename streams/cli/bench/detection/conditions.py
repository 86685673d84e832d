"""What goes wrong in the trial, condition by condition: each row of CONDITIONS makes one injection by chance.

An injection says what really was (Truth) and brings it about by effects at all sources that would notice; it knows
nothing of what a detector looks at. A new condition is a function and a row.
"""

from collections.abc import Callable
from dataclasses import dataclass

from streams.cli.bench.detection.agents import GPUS, gpu_name
from streams.cli.bench.detection.columns import PRIORITY
from streams.cli.bench.detection.effects import (
    Away,
    Ber,
    Down,
    Effect,
    Extra,
    Level,
    Say,
    Slowed,
    Span,
    Swapped,
    Unread,
)
from streams.cli.bench.detection.places import Full, Places
from streams.fabric.catalogue import Metric
from streams.replay.score import Truth
from streams.wire.models import Condition, Event, EventKind, Source

_S = 10**9
_EXACT_S, _READ_S, _MINUTES_S = 20.0, 40.0, 120.0
"""What events or readings of each 10 s date, what the last reading of an agent does, and what minutes do."""
_LINE_BPS = 400e9
_DOWN_NS, _HELD_NS = 30 * _S, 5 * _S
"""By DETECTION 3 a link that is away for so long is down, and up again once it stayed up for so long."""
_UNSURE_S = (14.0, 34.0)
"""Downs that last so long together are left out: a switch that is polled dates them by ten seconds."""
_TRIES = 100
_PAUSES_A_SECOND = 12_500.0
"""A little more than 11,921 of 65535 quanta, which are all the time of a port of 400 Gb/s (IEEE 802.1Qbb)."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a perfect detector would find, and from when on it can be known.

    Where that takes a report of a link's signal, `reported` is (the link, when it went): as much later as that comes.
    """

    truth: Truth
    complete_ns: int
    reported: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault: what there is to find, and what happens."""

    known: tuple[Known, ...]
    effects: tuple[Effect, ...]
    kind: str

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Without when they can be known."""
        return tuple(known.truth for known in self.known)


Make = Callable[[Places, Span], Injection]


def _truth(places: Places, condition: Condition, port: int, span: Span, tolerance_s: float = _EXACT_S) -> Truth:
    device, name = places.name(port)
    return Truth(span.start_ns, span.end_ns, condition, device, name, tolerance_s)


def _some_link(places: Places) -> list[int]:
    """Host links as often as fabric links."""
    return places.host_links if places.chance.random() < 0.5 or not places.fabric_links else places.fabric_links


def flap(places: Places, within: Span) -> Injection:
    """Three to eight downs of half a second to 20 s, closer or further apart, within ten minutes."""
    link, span = places.link(_some_link(places), within, (10, 540))
    downs = _downs(places, link, span)
    for _ in range(_TRIES):
        if not _UNSURE_S[0] * _S < _longest(downs) < _UNSURE_S[1] * _S:
            break
        downs = _downs(places, link, span)
    port, own = places.ports(link)[0], Span(span.start_ns, downs[-1].span.end_ns)
    third_ns = downs[2].span.start_ns
    known = [Known(_truth(places, Condition.LINK_FLAP, port, own), third_ns, (link, third_ns))]
    known += [
        Known(_truth(places, Condition.LINK_DOWN, port, joined), joined.start_ns + _DOWN_NS, (link, joined.start_ns))
        for joined in _joined(downs)
        if joined.end_ns - joined.start_ns >= _DOWN_NS
    ]
    return Injection(tuple(known), tuple(downs), "burst")


def _downs(places: Places, link: int, span: Span) -> list[Down]:
    chance = places.chance
    count = int(chance.integers(3, 9))
    step_ns = (span.end_ns - span.start_ns) // count
    starts = (span.start_ns + n * step_ns for n in range(count))
    return [
        Down(
            link,
            Span(at_ns, at_ns + round(min(chance.uniform(0.5, 20.0) * _S, 0.6 * step_ns))),
            dark=_dark(places, link),
        )
        for at_ns in starts
    ]


def _joined(downs: list[Down]) -> list[Span]:
    """Downs between which no up held are one (DETECTION 3: `link/down` resolves at the first up that holds 5 s)."""
    found = [downs[0].span]
    for one in downs[1:]:
        if one.span.start_ns - found[-1].end_ns < _HELD_NS:
            found[-1] = Span(found[-1].start_ns, one.span.end_ns)
        else:
            found.append(one.span)
    return found


def _longest(downs: list[Down]) -> int:
    return max(span.end_ns - span.start_ns for span in _joined(downs))


def _dark(places: Places, link: int) -> int | None:
    """The end that gets no light, where it is the light that fails."""
    return places.ports(link)[int(places.chance.integers(2))] if places.chance.random() < 0.5 else None


def down(places: Places, within: Span) -> Injection:
    """A link is away for 35 s to 20 min."""
    link, span = places.link(_some_link(places), within, (38, 1200))
    truth = _truth(places, Condition.LINK_DOWN, places.ports(link)[0], span)
    return Injection(
        (Known(truth, span.start_ns + _DOWN_NS, (link, span.start_ns)),),
        (Down(link, span, dark=_dark(places, link)),),
        "down",
    )


def device(places: Places, within: Span) -> Injection:
    """A host, a leaf or a spine restarts; what hangs on it is its own affair."""
    chance = places.chance
    tiers = [tier for tier in ("host", "host", "host", "T0", "T1") if places.devices(tier)]
    tier = tiers[int(chance.integers(len(tiers)))]
    own, span = places.device(places.devices(tier), within, (90, 480))
    truth = Truth(span.start_ns, span.end_ns, Condition.DEVICE_DOWN, places.plant.devices[own], "", _READ_S)
    return Injection((Known(truth, span.start_ns),), (Away(own, span),), f"restart of a {tier}")


def stale(places: Places, within: Span) -> Injection:
    """A switch answers its collector no more, or a host's agent is dead; ports and links are well."""
    said = places.chance.random() < 0.5
    tiers = ("T0", "T1") if said else ("host",)
    of = [d for tier in tiers for d in places.devices(tier)]
    own, span = places.device(of, within, (60, 900), alone=True)
    truth = Truth(span.start_ns, span.end_ns, Condition.TELEMETRY_STALE, places.plant.devices[own], "", _READ_S)
    return Injection(
        (Known(truth, span.start_ns + _DOWN_NS),), (Unread(own, span, said),), "unread" if said else "no agent"
    )


def degrading(places: Places, within: Span) -> Injection:
    """One end receives badly: frames are lost, or FEC corrects ever more, or both, or the light fades as well."""
    chance = places.chance
    link, span = places.link(_some_link(places), within, (480, 1500), places.busy)
    port = places.ports(link)[int(chance.integers(2))]
    kind = ("lossy", "noisy", "both", "fading")[int(chance.integers(4))]
    effects: list[Effect] = []
    lane = int(chance.integers(4)) if chance.random() < 0.5 else None
    if kind in ("lossy", "both"):
        lost = 10 ** chance.uniform(-6.5, -4)
        effects += [
            Extra(port, Metric.RX_FCS_ERRORS, span, share=lost, of=Metric.RX_PACKETS),
            Extra(port, Metric.RX_ERRORS, span, share=lost, of=Metric.RX_PACKETS),
            Extra(port, Metric.RX_SYMBOL_ERRORS, span, share=3 * lost, of=Metric.RX_PACKETS),
            Extra(port, Metric.FEC_UNCORRECTED_CODEWORDS, span, share=2 * lost, of=Metric.RX_PACKETS),
        ]
        effects.append(Ber(port, span, 10 ** chance.uniform(-5.6, -5.1), lane))
    if kind in ("noisy", "both", "fading"):
        effects.append(Ber(port, span, 10 ** chance.uniform(-4.85, -4.2), lane))
    if kind == "fading":
        drop, ramp_s = -chance.uniform(3.6, 7.0), chance.uniform(30, 180)
        effects.append(Level(port, Metric.RX_POWER_DBM, span, adds=drop, ramp_s=ramp_s))
    truth = _truth(places, Condition.LINK_DEGRADING, port, span, _MINUTES_S)
    return Injection((Known(truth, span.start_ns),), tuple(effects), kind)


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
    truth = _truth(places, Condition.RAIL_DEGRADED, nic, span, _MINUTES_S)
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
    truth = _truth(places, Condition.HOST_PCIE_DEGRADED, nic, span, 60.0)
    return Injection((Known(truth, span.start_ns + 60 * _S),), effects, "narrow" if narrow else "slow")


_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 92, 63)


def gpu(places: Places, within: Span) -> Injection:
    """A GPU breaks: an Xid of the driver, and some that follow from it."""
    chance = places.chance
    own, span = places.device(places.devices("host"), within, (300, 900), alone=True)
    code, pci = int(chance.choice(_XIDS)), gpu_name(int(chance.integers(GPUS)))
    host = places.plant.devices[own]
    codes = [(0.0, code), *((float(chance.uniform(0.1, 20)), int(chance.choice((45, 154)))) for _ in range(2))]
    effects: list[Effect] = [
        Say(
            Span(at_ns := span.start_ns + round(after_s * _S), at_ns + 1),
            Event(host, pci, EventKind.GPU_XID, at_ns, at_ns, Source.SOURCE_HOST, "host", 1, n + 1, code=said),
        )
        for n, (after_s, said) in enumerate(codes)
    ]
    truth = Truth(span.start_ns, span.end_ns, Condition.HOST_GPU_FAULT, host, pci, _EXACT_S)
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
    truth = _truth(places, Condition.CONGESTION_PFC_STORM, nic, span)
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


def miscabled(places: Places, within: Span) -> Injection:
    """A person puts two cables of a leaf back in each other's place, and later right again; each time both go down."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (600, 1500))
    others = [o for o in places.links_of(places.ends[link][1]) if o in places.of_hosts and o != link]
    chance.shuffle(others)
    other = next((o for o in others if places.take(o, span)), None)
    if other is None:
        raise Full("no other cable of the switch is free")
    downs = [
        Down(each, Span(edge_ns - round(chance.uniform(5, 20) * _S), edge_ns + round(chance.uniform(1, 8) * _S)))
        for each in (link, other)
        for edge_ns in span
    ]
    known = [
        Known(_truth(places, Condition.LINK_MISCABLED, places.ports(each)[0], span, 180.0), span.start_ns)
        for each in (link, other)
    ]
    swapped = Swapped((link, other), span, float(chance.uniform(10, 120)))
    return Injection(tuple(known), (swapped, *downs), "swapped")


CONDITIONS: dict[Condition, tuple[Make, float | None]] = {
    Condition.DEVICE_DOWN: (device, None),
    Condition.TELEMETRY_STALE: (stale, None),
    Condition.LINK_DOWN: (down, 1.0),
    Condition.LINK_FLAP: (flap, 1.0),
    Condition.LINK_DEGRADING: (degrading, None),
    Condition.RAIL_DEGRADED: (rail, 300.0),
    Condition.HOST_PCIE_DEGRADED: (pcie, None),
    Condition.HOST_GPU_FAULT: (gpu, None),
    Condition.CONGESTION_PFC_STORM: (storm, 5.0),
    Condition.LINK_MISCABLED: (miscabled, None),
}
"""What makes an injection, and within how many seconds of when it can be known it is to be found (None: not promised).

Those that take a device with all its links come first, while there is room.
"""
