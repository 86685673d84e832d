"""Defines faults of links: flaps, downs, shut ports, receive errors, swapped cables, and dropped packets."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from lab.world.effects import (
    BitErrors,
    CablesSwapped,
    CounterIncrement,
    Effect,
    GaugeOverride,
    Interval,
    PacketDrop,
    SignalLoss,
)
from lab.world.fabric_arrays import FabricArrays
from lab.world.fault_placement import Fault, FaultPlacer, NoRoom
from lab.world.ground_truth import BY_FACTS, BY_WINDOW, LINK_DOWN_AFTER_NS, GroundTruth, InjectedFault, known
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Link
from streams.fabric.inventory_rows import MANY_PLANES, Part
from streams.wire.models import Condition

_S = 10**9
_HOLD_NS = 5 * _S
"""`link/down` resolves at the first recovery that lasts 5 s (DETECTION 3)."""
_APART_NS = _S
"""Both ends report a recovery within a second: a recovery as long as the hold time may count as either."""
_AMBIGUOUS_S = (14.0, 34.0)
"""Losses with this total duration are redrawn: polls alone date them only within ten seconds."""
_TRIES = 100
_SHARED: tuple[Literal["laser", "engine", "cage", "trunk"], ...] = ("laser", "engine", "cage", "trunk")
_ERRORS_PER_LOST_FRAME = (
    (Metric.RX_FCS_ERRORS, 1), (Metric.RX_ERRORS, 1), (Metric.RX_SYMBOL_ERRORS, 3),
    (Metric.FEC_UNCORRECTED_CODEWORDS, 2),
)  # fmt: skip
_LEAST_LOSS, _MOST_LOSS = 0.01, 0.3
"""Shares of the packets, drawn log-uniformly: from stalling a job to breaking it."""
_EVALUATED_NS = 60 * _S
"""A minute of probes is evaluated together."""


@dataclass(frozen=True, slots=True)
class LinkFlap:
    """A link loses its signal several times; `dark_ports` has for each the end that receives no light, or None.

    Losses of signal that last 30 s in total, without a recovery of 5 s between them, are also a link/down.
    """

    link: Link
    downs: tuple[Interval, ...]
    dark_ports: tuple[Port | None, ...] = ()

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        link = fabric.link_number(self.link)
        return [
            SignalLoss(link, down, dark_port=None if dark is None else fabric.port_number(dark))
            for down, dark in zip_longest(self.downs, self.dark_ports)
        ]

    def ground_truths(self) -> list[GroundTruth]:
        whole = Interval(self.downs[0].start_ns, self.downs[-1].end_ns)
        opens_ns = self.downs[min(2, len(self.downs) - 1)].start_ns
        opened = known(
            Condition.LINK_FLAP, whole, self.link.a, after_ns=opens_ns - whole.start_ns,
            reported_by=(self.link.a, opens_ns),
        )  # fmt: skip
        lasting = (down for down in _merged(self.downs) if down.end_ns - down.start_ns >= LINK_DOWN_AFTER_NS)
        return [opened, *(truth for down in lasting for truth in LinkDown(self.link, down).ground_truths())]


@dataclass(frozen=True, slots=True)
class LinkDown:
    """A link loses its signal once; `dark_port` is the end that receives no light."""

    link: Link
    interval: Interval
    dark_port: Port | None = None

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        dark = None if self.dark_port is None else fabric.port_number(self.dark_port)
        return [SignalLoss(fabric.link_number(self.link), self.interval, dark_port=dark)]

    def ground_truths(self) -> list[GroundTruth]:
        reported_by = (self.link.a, self.interval.start_ns)
        return [
            known(Condition.LINK_DOWN, self.interval, self.link.a, after_ns=LINK_DOWN_AFTER_NS, reported_by=reported_by)
        ]


@dataclass(frozen=True, slots=True)
class LinksTogether:
    """Links lose their signal at once: those of a NIC that fails, or of a part that ports of a switch share."""

    links: tuple[Link, ...]
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [effect for link in self.links for effect in LinkDown(link, self.interval).effects(fabric)]

    def ground_truths(self) -> list[GroundTruth]:
        return [truth for link in self.links for truth in LinkDown(link, self.interval).ground_truths()]


@dataclass(frozen=True, slots=True)
class AdminDown:
    """A port is shut by configuration and enabled later; this is no fault."""

    link: Link
    port: Port
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        disabled = fabric.port_number(self.port)
        return [SignalLoss(fabric.link_number(self.link), self.interval, disabled_port=disabled)]

    def ground_truths(self) -> list[GroundTruth]:
        return []


@dataclass(frozen=True, slots=True)
class Degrading:
    """One end of a link receives errors while it stays up: it loses frames, FEC corrects more bits, the light fades.

    `port` is the end that counts them; `lost_ratio` is the share of its frames, each of which counts `errors`; `ber`
    and `more_ber` are shares of its bits before FEC.
    """

    link: Link
    port: Port
    interval: Interval
    lost_ratio: float
    ber: float = 0.0
    lane: int | None = 0
    more_ber: float = 0.0
    errors: Sequence[tuple[Metric, int]] = ((Metric.RX_FCS_ERRORS, 1),)
    fade: tuple[float, float] | None = None
    """The change of the received power in dB, and the seconds until it is reached."""

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        port, found = fabric.port_number(self.port), list[Effect]()
        if self.lost_ratio:
            found += [
                CounterIncrement(
                    port, metric, self.interval, share=count * self.lost_ratio, of_metric=Metric.RX_PACKETS
                )
                for metric, count in self.errors
            ]
        found += [BitErrors(port, self.interval, ber, self.lane) for ber in (self.ber, self.more_ber) if ber]
        if self.fade is not None:
            drop_db, ramp_s = self.fade
            found.append(GaugeOverride(port, Metric.RX_POWER_DBM, self.interval, offset=drop_db, ramp_s=ramp_s))
        return found

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.LINK_DEGRADING, self.interval, self.port, BY_WINDOW)]


@dataclass(frozen=True, slots=True)
class ReplayedFrames:
    """A link with link-level retry damages `damaged_ratio` of the frames into a port, and sends all of them again.

    Of `discarded_ratio` the transmitter discards instead, because it flushes.
    """

    link: Link
    port: Port
    interval: Interval
    damaged_ratio: float
    discarded_ratio: float = 0.0

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        far = self.link.z if self.port == self.link.a else self.link.a
        counted = (
            (self.port, Metric.LLR_RX_OK, 1.0, Metric.RX_PACKETS),
            (self.port, Metric.LLR_RX_BAD, self.damaged_ratio, Metric.RX_PACKETS),
            (self.port, Metric.FEC_UNCORRECTED_CODEWORDS, self.damaged_ratio, Metric.RX_PACKETS),
            (far, Metric.LLR_TX_REPLAYS, self.damaged_ratio, Metric.TX_PACKETS),
            (far, Metric.LLR_TX_DISCARDS, self.discarded_ratio, Metric.TX_PACKETS),
        )
        return [
            CounterIncrement(fabric.port_number(end), metric, self.interval, share=share, of_metric=of_metric)
            for end, metric, share, of_metric in counted
        ]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.LINK_DEGRADING, self.interval, self.port, BY_WINDOW)]


@dataclass(frozen=True, slots=True)
class SwappedCables:
    """The cables of two links are swapped at their far ends; the links have no signal during the move, if given."""

    link: Link
    other: Link
    interval: Interval
    moved: tuple[tuple[Interval, ...], tuple[Interval, ...]] = ((), ())
    polled_after_s: float = 0.0

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        numbers = fabric.link_number(self.link), fabric.link_number(self.other)
        losses = [SignalLoss(link, down) for link, own in zip(numbers, self.moved, strict=True) for down in own]
        return [CablesSwapped(numbers, self.interval, self.polled_after_s), *losses]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.LINK_MISCABLED, self.interval, one.a, BY_FACTS) for one in (self.link, self.other)]


@dataclass(frozen=True, slots=True)
class PathLoss:
    """A link drops a share of the packets that it carries into a port, or all of one 5-tuple; no counter shows it."""

    port: Port
    interval: Interval
    share: float
    one_flow: bool = False

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [PacketDrop(fabric.port_number(self.port), self.interval, self.share, self.one_flow)]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.PATH_LOSS, self.interval, self.port, BY_WINDOW, after_ns=_EVALUATED_NS)]


def links_of_random_role(placer: FaultPlacer) -> list[int]:
    """Return all host links or all fabric links, with equal probability."""
    return placer.host_links if placer.rng.random() < 0.5 or not placer.fabric_links else placer.fabric_links


def _dark_port(placer: FaultPlacer, link: Link) -> Port | None:
    """Return the end that receives no light; None in half of all cases, in which the light does not fail."""
    return (link.a, link.z)[int(placer.rng.integers(2))] if placer.rng.random() < 0.5 else None


def inject_down(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Take down one link for 38 s to 20 min; in half of all cases one end receives no light."""
    number, interval = placer.link(links_of_random_role(placer), within, (38, 1200))
    link = placer.named(number)
    return placer.injected(LinkDown(link, interval, _dark_port(placer, link)), "down")


def inject_flap(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Take down one link three to eight times within ten minutes, for half a second to 20 s each."""
    number, interval = placer.link(
        links_of_random_role(placer), within, (10, 540), lambda link, _: placer.is_unused(link)
    )
    placer.reserve(number)
    link = placer.named(number)
    downs = _draw_downs(placer, link, interval)
    for _ in range(_TRIES):
        longest_ns = max(down.end_ns - down.start_ns for down in _merged([down for down, _ in downs]))
        if not _AMBIGUOUS_S[0] * _S < longest_ns < _AMBIGUOUS_S[1] * _S:
            break
        downs = _draw_downs(placer, link, interval)
    return placer.injected(LinkFlap(link, tuple(down for down, _ in downs), tuple(dark for _, dark in downs)), "burst")


def _draw_downs(placer: FaultPlacer, link: Link, interval: Interval) -> list[tuple[Interval, Port | None]]:
    rng = placer.rng
    count = int(rng.integers(3, 9))
    step_ns = (interval.end_ns - interval.start_ns) // count
    starts_ns = (interval.start_ns + number * step_ns for number in range(count))
    return [
        (
            Interval(at_ns, at_ns + _lasting_ns(round(min(rng.uniform(0.5, 20.0) * _S, 0.6 * step_ns)), step_ns)),
            _dark_port(placer, link),
        )
        for at_ns in starts_ns
    ]


def _lasting_ns(drawn_ns: int, step_ns: int) -> int:
    """Return the duration of a loss, so that the recovery after it is clearly shorter or longer than the hold time."""
    if abs(step_ns - drawn_ns - _HOLD_NS) >= _APART_NS:
        return drawn_ns
    longer_ns = step_ns - _HOLD_NS - _APART_NS
    return longer_ns if longer_ns >= _APART_NS else step_ns - _HOLD_NS + _APART_NS


def _merged(downs: Sequence[Interval]) -> list[Interval]:
    """Return the losses, merged if the recovery between two is shorter than the hold time."""
    merged = [downs[0]]
    for down in downs[1:]:
        if down.start_ns - merged[-1].end_ns < _HOLD_NS:
            merged[-1] = Interval(merged[-1].start_ns, down.end_ns)
        else:
            merged.append(down)
    return merged


def inject_degrading(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Degrade one end of a busy link for 480 to 1500 s: it loses frames, has bit errors, both, or its light fades."""
    rng = placer.rng
    number, interval = placer.link(links_of_random_role(placer), within, (480, 1500), placer.is_busy)
    port = placer.port(placer.ports(number)[int(rng.integers(2))])
    kind = ("lossy", "noisy", "both", "fading")[int(rng.integers(4))]
    lane = int(rng.integers(4)) if rng.random() < 0.5 else None
    lost_ratio = ber = more_ber = 0.0
    if kind in ("lossy", "both"):
        lost_ratio = 10 ** rng.uniform(-6.5, -4)
        ber = 10 ** rng.uniform(-5.6, -5.1)
    if kind != "lossy":
        more_ber = 10 ** rng.uniform(-4.85, -4.2)
    fade = (-rng.uniform(3.6, 7.0), rng.uniform(30, 180)) if kind == "fading" else None
    link = placer.named(number)
    degrading = Degrading(link, port, interval, lost_ratio, ber, lane, more_ber, _ERRORS_PER_LOST_FRAME, fade)
    return placer.injected(degrading, kind)


def inject_replays(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Damage frames into one end of a busy link with link-level retry for 480 to 1500 s; a third of the links flush."""
    rng = placer.rng
    number, interval = placer.link(links_of_random_role(placer), within, (480, 1500), placer.is_busy)
    port = placer.port(placer.ports(number)[int(rng.integers(2))])
    damaged, is_flushed = 10 ** rng.uniform(-6.5, -3), rng.random() < 1 / 3
    replayed = ReplayedFrames(placer.named(number), port, interval, damaged, damaged / 10 if is_flushed else 0.0)
    return placer.injected(replayed, "flushed" if is_flushed else "replayed")


def inject_miscabled(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Swap two host links of one leaf for 600 to 1500 s; both links go down each time."""
    rng = placer.rng
    number, interval = placer.link(placer.host_links, within, (600, 1500))
    others = [
        other for other in placer.links_of(placer.ends[number][1]) if other in placer.host_link_set and other != number
    ]
    rng.shuffle(others)
    other = next((other for other in others if placer.claim(other, interval)), None)
    if other is None:
        raise NoRoom("no other cable of the switch is free")

    def moved() -> tuple[Interval, ...]:
        return tuple(
            Interval(edge_ns - round(rng.uniform(3, 8) * _S), edge_ns + round(rng.uniform(1, 5) * _S))
            for edge_ns in interval
        )

    both, polled_after_s = (moved(), moved()), float(rng.uniform(10, 120))
    swapped = SwappedCables(placer.named(number), placer.named(other), interval, both, polled_after_s)
    return placer.injected(swapped, "swapped")


def inject_path_loss(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let a link drop 1 to 30 % of all packets, or a fabric link those of one 5-tuple, for 400 to 900 s."""
    rng = placer.rng
    one_flow = rng.random() < 1 / 3 and bool(placer.fabric_links)
    candidates = placer.fabric_links if one_flow else links_of_random_role(placer)
    link, interval = placer.link(candidates, within, (400, 900))
    port = placer.port(placer.ports(link)[int(rng.integers(2))])
    share = 1.0 if one_flow else float(_LEAST_LOSS * (_MOST_LOSS / _LEAST_LOSS) ** rng.uniform())
    return placer.injected(PathLoss(port, interval, share, one_flow), "one flow" if one_flow else "a share")


def inject_lost_nic(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Take down all planes of one rail of a host for 60 to 600 s."""
    link, interval = placer.link(
        placer.host_links, within, (60, 600),
        lambda link, interval: all(placer.is_claimable(other, interval) for other in placer.rail_of(link)),
    )  # fmt: skip
    others = placer.rail_of(link)
    for other in others:
        placer.claim(other, interval)
    return placer.injected(LinksTogether(tuple(map(placer.named, (link, *others))), interval), "nic")


def inject_broken_part(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Break a laser, optical engine, cage or trunk of a leaf for 60 to 600 s; it has two to four links of hosts."""
    rng = placer.rng
    number, interval = placer.link(placer.host_links, within, (60, 600))
    leaf = placer.ends[number][1]
    others = [other for other in placer.links_of(leaf) if other in placer.host_link_set and other != number]
    rng.shuffle(others)
    claimed = [other for other in others[: int(rng.integers(1, 4))] if placer.claim(other, interval)]
    if not claimed:
        raise NoRoom("no other link of the switch is free")
    kind: Literal["laser", "engine", "cage", "trunk"] = _SHARED[int(rng.integers(len(_SHARED)))]
    links = tuple(map(placer.named, (number, *claimed)))
    parts = tuple(Part(link.z_device, kind, f"{kind}-{number}-{interval.start_ns}", link.z_port) for link in links)
    return placer.injected(LinksTogether(links, interval), kind, parts=parts)


LINK_DOWN = Fault(Condition.LINK_DOWN, inject_down, detection_goal_s=1.0)
LOST_NIC = Fault(Condition.LINK_DOWN, inject_lost_nic, own_stream=True, min_planes=MANY_PLANES)
BROKEN_PART = Fault(Condition.LINK_DOWN, inject_broken_part, own_stream=True, min_planes=MANY_PLANES)
LINK_FLAP = Fault(Condition.LINK_FLAP, inject_flap, detection_goal_s=1.0)
LINK_DEGRADING = Fault(Condition.LINK_DEGRADING, inject_degrading)
REPLAYED_FRAMES = Fault(Condition.LINK_DEGRADING, inject_replays, own_stream=True, needs_spraying=True)
LINK_MISCABLED = Fault(Condition.LINK_MISCABLED, inject_miscabled)
PATH_LOSS = Fault(Condition.PATH_LOSS, inject_path_loss, own_stream=True)
