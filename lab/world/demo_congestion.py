"""Declares congestion at places and times that the caller chooses: pause storms, incasts, collapses, imbalances."""

from dataclasses import dataclass

from lab.world.columns import LINE_BPS, PRIORITY
from lab.world.effects import CounterIncrement, Effect, Interval, TrafficReduction, TrafficShift
from lab.world.placed_fault import WINDOWS_TOLERANCE_S, Numbers, TruthRow, row
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link
from streams.wire.models import Condition

_FULL = 0.97
"""Share of the line rate that a full link carries: headers and gaps take the rest."""
_FRAME_BYTES = 4096
_CNPS_PER_S = 8_000
"""At a host that sends to an overloaded port: DCQCN notifies each flow 20,000 times a second at most."""


@dataclass(frozen=True, slots=True)
class PauseStorm:
    """A port pauses the far side without end; because of it the ports in `spread` pause theirs, and traffic stops."""

    link: Link
    port: Port
    interval: Interval
    spread: tuple[Port, ...] = ()
    links: tuple[Link, ...] = ()
    """The links of the ports in `spread`."""

    def effects(self, fabric: Numbers) -> list[Effect]:
        effects: list[Effect] = []
        for port, link in zip((self.port, *self.spread), (self.link, *self.links), strict=True):
            effects += _pause(fabric, link, port, self.interval, 1.0)
            far = link.z if port == link.a else link.a
            effects.append(TrafficReduction(fabric.link(link), self.interval, 0.0, sent_by=fabric.ports[far]))
        return effects

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.CONGESTION_PFC_STORM, self.port.device, self.port.port)]


@dataclass(frozen=True, slots=True)
class Incast:
    """More traffic arrives for a host's port than its link drains: the link is full, and packets are marked.

    Or the host pauses the leaf for a share of the time (`paused_ratio`), and nothing is marked.
    """

    link: Link
    interval: Interval
    marked_ratio: float = 0.0
    paused_ratio: float = 0.0
    senders: tuple[Link, ...] = ()
    """Links of hosts that send to it and receive congestion notifications."""

    def effects(self, fabric: Numbers) -> list[Effect]:
        link, nic, leaf = fabric.link(self.link), fabric.ports[self.link.a], fabric.ports[self.link.z]
        if self.paused_ratio:
            effects = _pause(fabric, self.link, self.link.a, self.interval, self.paused_ratio)
            effects.append(TrafficReduction(link, self.interval, 1 - self.paused_ratio, sent_by=leaf))
        else:
            effects = [TrafficShift(link, self.interval, _FULL, sent_by=leaf)]
        if self.marked_ratio:
            marked_per_s = self.marked_ratio * _FULL * (self.link.speed_bps or 0) / 8 / _FRAME_BYTES
            effects.append(CounterIncrement(nic, Metric.ROCE_ECN_MARKED_PACKETS, self.interval, per_s=marked_per_s))
        for sender in self.senders:
            port = fabric.ports[sender.a]
            effects.append(CounterIncrement(port, Metric.CNP_HANDLED, self.interval, per_s=_CNPS_PER_S))
        return effects

    def truths(self) -> list[TruthRow]:
        return [
            row(self.interval, Condition.CONGESTION_INCAST, self.link.a_device, self.link.a_port, WINDOWS_TOLERANCE_S)
        ]


@dataclass(frozen=True, slots=True)
class Collapse:
    """Hosts of a pod are paused for a part of the time (`paused_ratio`) and carry a `share` of their traffic."""

    pod: str
    links: tuple[Link, ...]
    interval: Interval
    paused_ratio: float
    share: float

    def effects(self, fabric: Numbers) -> list[Effect]:
        effects: list[Effect] = []
        for link in self.links:
            effects += _pause(fabric, link, link.z, self.interval, self.paused_ratio)
            effects.append(TrafficReduction(fabric.link(link), self.interval, self.share))
        return effects

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.CONGESTION_COLLAPSE, self.pod, "", WINDOWS_TOLERANCE_S)]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A switch spreads its traffic unevenly: the first of its uplinks carries `shift` more, the others less."""

    device: str
    uplinks: tuple[Port, ...]
    interval: Interval
    shift: float

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [
            TrafficReduction(fabric.links[fabric.ports[port]], self.interval, 1 + self.shift_of(port),
                             sent_by=fabric.ports[port])
            for port in self.uplinks
        ]  # fmt: skip

    def shift_of(self, port: Port) -> float:
        """Return by what share of its load an uplink carries more; the sum over all uplinks is zero."""
        return self.shift if port == self.uplinks[0] else -self.shift / (len(self.uplinks) - 1)

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.CONGESTION_IMBALANCE, self.device, "", WINDOWS_TOLERANCE_S)]


def pause_storm(inventory: Inventory, link: Link, interval: Interval, hops: int = 3) -> PauseStorm:
    """Return the storm of a host's NIC that pauses its leaf; the leaf pauses its other links, and so on for `hops`.

    Pause follows the traffic to the paused port back to its senders: down from a spine only to leaves of the same rail,
    which is the number at the end of their names.
    """
    ends = [(near, far, each) for each in inventory.links for near, far in ((each.a, each.z), (each.z, each.a))]
    rail = link.z_device.rpartition("-")[2]
    paused, seen = {link.z_device}, {link.a_device, link.z_device}
    spread: list[tuple[Port, Link]] = []
    for _ in range(hops):
        ports = [
            (near, far, each)
            for near, far, each in ends
            if near.device in paused and far.device not in seen
            and ("leaf" not in far.device or far.device.rpartition("-")[2] == rail)
        ]  # fmt: skip
        spread += [(near, each) for near, _, each in ports]
        paused = {far.device for _, far, _ in ports if "host" not in far.device}
        seen |= paused
    return PauseStorm(link, link.a, interval, tuple(port for port, _ in spread), tuple(each for _, each in spread))


def _pause(fabric: Numbers, link: Link, sender: Port, interval: Interval, ratio: float) -> list[Effect]:
    """Return the pause frames and microseconds of a port that pauses the other end for a share of the time."""
    sending = fabric.ports[sender]
    paused = fabric.ports[link.z if sender == link.a else link.a]
    frames_per_s = ratio * (link.speed_bps or LINE_BPS) / (65535 * 512)
    return [
        CounterIncrement(port, metric, interval, per_s=per_s, index=PRIORITY)
        for port, metric, per_s in (
            (sending, Metric.PFC_TX_FRAMES, frames_per_s),
            (paused, Metric.PFC_RX_FRAMES, frames_per_s),
            (sending, Metric.PFC_TX_PAUSE_USECONDS, ratio * 1e6),
            (paused, Metric.PFC_RX_PAUSE_USECONDS, ratio * 1e6),
        )
    ]
