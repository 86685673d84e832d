"""Defines faults of congestion: pause storms, incasts, rails that collapse, and uplinks with unequal traffic."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lab.world.columns import PAUSE_FRAMES_PER_S, PRIORITY
from lab.world.effects import (
    CounterIncrement,
    Effect,
    GaugeOverride,
    Interval,
    QueueDelay,
    TrafficReduction,
    TrafficShift,
)
from lab.world.fabric_arrays import FabricArrays
from lab.world.fault_placement import Fault, FaultPlacer
from lab.world.ground_truth import BY_WINDOW, CONGESTED_AFTER_NS, Dated, GroundTruth, InjectedFault, known
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Link
from streams.fabric.inventory_rows import MANY_PLANES
from streams.wire.models import Condition

DELAYED = "delayed"
"""An incast that no counter shows: queued packets are neither marked nor dropped, and no port pauses."""
_S = 10**9
STORM_FRAMES_PER_S = 12_500.0
"""Slightly more than the 11,921 frames of 65535 quanta that pause a port of 400 Gb/s all the time (IEEE 802.1Qbb)."""
_STORM_USECONDS_PER_S = 0.99e6
_ALL_CREDITS = 32_768.0
"""The credits of a port in the example of SAI's doc/CBFC."""
_POLL_NS = 10 * _S
"""The default interval at which switches are polled: a watchdog shows in one reading, a port without credits in two."""
_INCAST_QUEUE_S = 0.0005
"""A full queue: 25 MB at 400 Gb/s, or the share of one port in a common buffer (choice)."""
_COLLAPSE_QUEUE_S = 0.001
"""The wait in the queue of a NIC that is paused most of the time and sends little (choice)."""
_FULL = 0.97
"""The share of the line rate that a full link carries: headers and gaps take the rest."""
_CNP_PER_S = 2_000, 20_000
"""CNPs at a throttled sender: twice `[detect.incast] cnp_per_s` to DCQCN's limit of one in 50 us (SIGCOMM'15)."""
_USUAL_CNP_PER_S = 8_000
_BY_COLLAPSE = Dated(40.0, 120)


class Pause(NamedTuple):
    """A port permanently pauses the far end of its link."""

    link: Link
    port: Port
    interval: Interval


@dataclass(frozen=True, slots=True)
class PauseStorm:
    """A port permanently pauses the far end, which sends nothing to it; so the ports in `spread` pause theirs too.

    A port that `is_global` pauses all priorities (IEEE 802.3, 31B).
    """

    link: Link
    port: Port
    interval: Interval
    spread: tuple[Pause, ...] = ()
    is_global: bool = False
    frames_per_s: float = STORM_FRAMES_PER_S

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        pauses = (Pause(self.link, self.port, self.interval), *self.spread)
        return [effect for pause in pauses for effect in self._pause(fabric, pause)]

    def _pause(self, fabric: FabricArrays, pause: Pause) -> list[Effect]:
        link, sender, interval = pause
        paused = fabric.port_number(link.z if sender == link.a else link.a)
        sending = fabric.port_number(sender)
        stopped = TrafficReduction(fabric.link_number(link), interval, 0.0, sent_by=paused)
        if self.is_global:
            counted = ((sending, Metric.PAUSE_TX_FRAMES), (paused, Metric.PAUSE_RX_FRAMES))
            return [stopped, *(CounterIncrement(p, m, interval, per_s=self.frames_per_s) for p, m in counted)]
        rates = (
            (sending, Metric.PFC_TX_FRAMES, self.frames_per_s),
            (paused, Metric.PFC_RX_FRAMES, self.frames_per_s),
            (sending, Metric.PFC_TX_PAUSE_USECONDS, _STORM_USECONDS_PER_S),
            (paused, Metric.PFC_RX_PAUSE_USECONDS, _STORM_USECONDS_PER_S),
        )
        return [stopped, *(CounterIncrement(p, m, interval, per_s=per_s, index=PRIORITY) for p, m, per_s in rates)]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.CONGESTION_PFC_STORM, self.interval, self.port)]


@dataclass(frozen=True, slots=True)
class StalledCredits:
    """A port frees no credits (CBFC, InfiniBand), so that the far end sends nothing to it, and waits."""

    link: Link
    port: Port
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        waiting = fabric.port_number(self.link.z if self.port == self.link.a else self.link.a)
        return [
            TrafficReduction(fabric.link_number(self.link), self.interval, 0.0, sent_by=waiting),
            GaugeOverride(waiting, Metric.CREDITS_USED, self.interval, value=_ALL_CREDITS),
            CounterIncrement(waiting, Metric.TX_WAIT_BYTES, self.interval, per_s=(self.link.speed_bps or 0) / 8),
        ]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.CONGESTION_PFC_STORM, self.interval, self.port, after_ns=2 * _POLL_NS)]


@dataclass(frozen=True, slots=True)
class StoppedQueue:
    """The PFC watchdog of a switch holds a queue of a port: its traffic is dropped, and no pause arrives any more."""

    link: Link
    port: Port
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        port, (start_ns, end_ns) = fabric.port_number(self.port), self.interval
        counted = ((Metric.PFC_WATCHDOG_STORMS, start_ns), (Metric.PFC_WATCHDOG_RESTORES, end_ns))
        return [
            TrafficReduction(fabric.link_number(self.link), self.interval, 0.0, sent_by=port),
            GaugeOverride(port, Metric.PFC_WATCHDOG_STORMED, self.interval, value=1.0),
            *(CounterIncrement(port, m, Interval(at_ns, at_ns + _S), per_s=1.0) for m, at_ns in counted),
        ]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.CONGESTION_PFC_STORM, self.interval, self.port, after_ns=_POLL_NS)]


@dataclass(frozen=True, slots=True)
class Incast:
    """More traffic arrives for a host's port than its link drains: the link is full, and packets wait in its queue.

    The leaf marks or drops some packets, or the host pauses the leaf for a share of the time (`paused_ratio`). The
    sending hosts handle congestion notifications. Probes from and to the rail wait in the same queue.
    """

    link: Link
    interval: Interval
    marked_ratio: float = 0.0
    paused_ratio: float = 0.0
    senders: tuple[Link, ...] = ()
    cnp_per_s: tuple[float, ...] = ()
    """The rate at each sender."""
    drops_per_s: float = 0.0
    trimmed_per_s: tuple[float, float] = (0.0, 0.0)
    """The packets that the leaf trims, and those of them that it drops."""
    utilization: float = _FULL
    queue_s: float = _INCAST_QUEUE_S

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        nic, leaf, interval = fabric.port_number(self.link.a), fabric.port_number(self.link.z), self.interval
        found: list[Effect] = []
        if self.paused_ratio:
            frames_per_s = PAUSE_FRAMES_PER_S * self.paused_ratio
            rates = (
                (nic, Metric.PFC_TX_FRAMES, frames_per_s),
                (leaf, Metric.PFC_RX_FRAMES, frames_per_s),
                (nic, Metric.PFC_TX_PAUSE_USECONDS, 1e6 * self.paused_ratio),
            )
            found += [CounterIncrement(p, m, interval, per_s=per_s, index=PRIORITY) for p, m, per_s in rates]
        else:
            found.append(TrafficShift(fabric.link_number(self.link), interval, self.utilization, sent_by=leaf))
        if self.marked_ratio:
            found += [
                CounterIncrement(port, metric, interval, share=self.marked_ratio, of_metric=of_metric)
                for port, metric, of_metric in (
                    (nic, Metric.ROCE_ECN_MARKED_PACKETS, Metric.RX_PACKETS),
                    (leaf, Metric.PORT_ECN_MARKED_PACKETS, Metric.TX_PACKETS),
                )
            ]
        rates_of = self.cnp_per_s or (_USUAL_CNP_PER_S,) * len(self.senders)
        found += [
            CounterIncrement(fabric.port_number(sender.a), Metric.CNP_HANDLED, interval, per_s=per_s)
            for sender, per_s in zip(self.senders, rates_of, strict=True)
        ]
        if self.drops_per_s:
            found.append(CounterIncrement(leaf, Metric.TX_DISCARDS, interval, per_s=self.drops_per_s))
        trimmed, dropped = self.trimmed_per_s
        if trimmed:
            rates = (
                (leaf, Metric.TRIMMED_PACKETS, trimmed), (leaf, Metric.TRIMMED_TX_PACKETS, trimmed - dropped),
                (leaf, Metric.TRIMMED_DROPPED_PACKETS, dropped),
            )  # fmt: skip
            found += [CounterIncrement(p, m, interval, per_s=per_s) for p, m, per_s in rates]
        return [*found, QueueDelay(nic, interval, self.queue_s)]

    def ground_truths(self) -> list[GroundTruth]:
        return [
            known(
                Condition.CONGESTION_INCAST, self.interval, self.link.a, BY_WINDOW, after_ns=CONGESTED_AFTER_NS
            )
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Collapse:
    """Leaves pause hosts of a pod for a share of the time (`paused_ratio`); these send a `share` of their traffic."""

    pod: str
    links: tuple[Link, ...]
    interval: Interval
    paused_ratio: float
    share: float

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        found: list[Effect] = []
        frames_per_s = PAUSE_FRAMES_PER_S * self.paused_ratio
        for link in self.links:
            nic, leaf = fabric.port_number(link.a), fabric.port_number(link.z)
            found.append(TrafficReduction(fabric.link_number(link), self.interval, self.share, sent_by=nic))
            found.append(QueueDelay(leaf, self.interval, _COLLAPSE_QUEUE_S))
            rates = (
                (nic, Metric.PFC_RX_FRAMES, frames_per_s),
                (leaf, Metric.PFC_TX_FRAMES, frames_per_s),
                (nic, Metric.PFC_RX_PAUSE_USECONDS, 1e6 * self.paused_ratio),
            )
            found += [CounterIncrement(p, m, self.interval, per_s=per_s, index=PRIORITY) for p, m, per_s in rates]
        return found

    def ground_truths(self) -> list[GroundTruth]:
        place = self.pod, ""
        return [known(Condition.CONGESTION_COLLAPSE, self.interval, place, _BY_COLLAPSE, after_ns=CONGESTED_AFTER_NS)]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A switch, or the tier above it, spreads traffic unevenly: each link has its own share of the line rate."""

    device: str
    interval: Interval
    utilization: tuple[tuple[Link, Port, float], ...]
    """Each link of the switch, the end that sends, and the share."""

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [
            TrafficShift(fabric.link_number(link), self.interval, share, fabric.port_number(sender))
            for link, sender, share in self.utilization
        ]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.CONGESTION_IMBALANCE, self.interval, (self.device, ""), BY_WINDOW)]


def inject_storm(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let one NIC pause its leaf for 40 to 300 s, and the leaf pause up to six other ports."""
    rng = placer.rng
    number, interval = placer.link(placer.host_links, within, (40, 300), placer.is_busy)
    link, leaf = placer.named(number), placer.ends[number][1]
    others = [other for other in placer.links_of(leaf) if other != number]
    rng.shuffle(others)
    claimed = [other for other in others[: int(rng.integers(0, 7))] if placer.claim(other, interval)]
    spread = []
    for other in map(placer.named, claimed):
        near = other.a if other.a_device == link.z_device else other.z
        later = Interval(interval.start_ns + round(rng.uniform(0.01, 1) * _S), interval.end_ns)
        spread.append(Pause(other, near, later))
    affected = tuple(placer.port(port) for other in claimed for port in placer.ports(other))
    return placer.injected(PauseStorm(link, link.a, interval, tuple(spread)), "storm", affected=affected)


def inject_incast(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Overload the link of one busy host for 150 to 900 s."""
    rng = placer.rng
    number, interval = placer.link(placer.host_links, within, (150, 900), placer.is_busy)
    link = placer.named(number)
    kind = ("marked", DELAYED, "dropped", "host pauses")[int(rng.integers(4))]
    senders: list[int] = []
    if kind == "host pauses":
        incast = Incast(link, interval, paused_ratio=rng.uniform(0.2, 0.6))
    else:
        utilization = rng.uniform(0.94, 0.99)
        match kind:
            case "marked":
                marked = rng.uniform(0.15, 0.6)
                senders = _senders(placer, number, interval)
                own = np.random.default_rng([interval.start_ns, 1])
                rates = tuple(own.uniform(*_CNP_PER_S) for _ in senders)
                links = tuple(map(placer.named, senders))
                incast = Incast(
                    link, interval, marked, senders=links, cnp_per_s=rates, utilization=utilization
                )  # fmt: skip
            case "dropped":
                drops_per_s = 10 ** rng.uniform(2.5, 5)
                incast = Incast(link, interval, drops_per_s=drops_per_s, utilization=utilization)
            case _:
                queue_s = rng.uniform(0.0003, 0.003)
                incast = Incast(link, interval, utilization=utilization, queue_s=queue_s)
    names = tuple(placer.fabric.devices[placer.ends[sender][0]] for sender in senders)
    return placer.injected(incast, kind, senders=names)


def _senders(placer: FaultPlacer, link: int, interval: Interval) -> list[int]:
    """Claim the links of up to six hosts of the job in another pod; drawn apart, so that other faults stay the same."""
    own = np.random.default_rng([interval.start_ns, link])
    peers = placer.peers_elsewhere(link, interval)
    chosen = own.choice(peers, min(len(peers), int(own.integers(2, 7))), replace=False).tolist() if peers else []
    return [sender for sender in sorted(chosen) if placer.claim(sender, interval)]


def inject_collapse(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Throttle nearly all hosts of one rail of a pod for 100 to 160 s: paused 40 to 70 % of the time."""
    rng = placer.rng
    pod, numbers, interval = placer.collapsing_rail(within, (100, 160))
    share, paused = rng.uniform(0.15, 0.35), rng.uniform(0.4, 0.7)
    links = tuple(map(placer.named, numbers))
    return placer.injected(Collapse(pod, links, interval, paused, share), f"{len(links)} hosts of a rail")


def inject_imbalance(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Shift the traffic from or to one leaf onto at most a quarter of its uplinks, for 480 to 900 s."""
    rng = placer.rng
    leaf, interval = placer.imbalanced_leaf(within, (480, 900))
    uplinks = placer.uplinks_of(leaf)
    count = int(rng.integers(1, max(2, len(uplinks) // 4 + 1)))
    end = interval.start_ns % 2  # at random without drawing a number, so that the rest of the day is unchanged
    full = set(rng.choice(len(uplinks), count, replace=False).tolist())
    utilization = tuple(
        (link, (link.a, link.z)[end], rng.uniform(0.6, 0.95) if number in full else rng.uniform(0.15, 0.25))
        for number, link in enumerate(map(placer.named, uplinks))
    )
    kind = f"{len(full)} of {len(uplinks)} uplinks{', downwards' if end else ''}"
    return placer.injected(Imbalance(placer.fabric.devices[leaf], interval, utilization), kind)


def inject_avoided_path(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let the senders avoid one uplink of a leaf for 480 to 900 s: it carries half as much as the other uplinks."""
    rng = placer.rng
    leaf, interval = placer.imbalanced_leaf(within, (480, 900))
    uplinks = placer.uplinks_of(leaf)
    avoided, usual = int(rng.integers(len(uplinks))), rng.uniform(0.55, 0.8)
    utilization = tuple(
        (link, link.a, usual * (rng.uniform(0.3, 0.6) if number == avoided else 1.0))
        for number, link in enumerate(map(placer.named, uplinks))
    )
    return placer.injected(Imbalance(placer.fabric.devices[leaf], interval, utilization), "avoided path")


def inject_stalled_credits(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let one NIC free no credits to its leaf, for 40 to 300 s."""
    number, interval = placer.link(placer.host_links, within, (40, 300), placer.is_busy)
    link = placer.named(number)
    return placer.injected(StalledCredits(link, link.a, interval), "credits")


def inject_stopped_queue(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Let the PFC watchdog of a leaf hold the queue to one host for 300 to 1200 s: it is stuck."""
    number, interval = placer.link(placer.host_links, within, (300, 1200), placer.is_busy)
    link = placer.named(number)
    return placer.injected(StoppedQueue(link, link.z, interval), "watchdog")


def inject_trimmed(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Overload the link of one busy host for 150 to 900 s: the leaf trims packets, and in half of all cases drops some
    of them.
    """
    rng = placer.rng
    number, interval = placer.link(placer.host_links, within, (150, 900), placer.is_busy)
    trimmed, dropped = 10 ** rng.uniform(3.5, 5.5), rng.uniform(0.01, 0.2) if rng.random() < 0.5 else 0.0
    trimmed_per_s, utilization = (trimmed, dropped * trimmed), rng.uniform(0.94, 0.99)
    incast = Incast(placer.named(number), interval, trimmed_per_s=trimmed_per_s, utilization=utilization)
    return placer.injected(incast, "trimmed")


CONGESTION_PFC_STORM = Fault(Condition.CONGESTION_PFC_STORM, inject_storm, detection_goal_s=5.0)
CONGESTION_INCAST = Fault(Condition.CONGESTION_INCAST, inject_incast)
CONGESTION_COLLAPSE = Fault(Condition.CONGESTION_COLLAPSE, inject_collapse)
CONGESTION_IMBALANCE = Fault(Condition.CONGESTION_IMBALANCE, inject_imbalance)
STALLED_CREDITS = Fault(Condition.CONGESTION_PFC_STORM, inject_stalled_credits, own_stream=True, needs_spraying=True)
STOPPED_QUEUE = Fault(Condition.CONGESTION_PFC_STORM, inject_stopped_queue, own_stream=True, min_planes=MANY_PLANES)
TRIMMED_PACKETS = Fault(Condition.CONGESTION_INCAST, inject_trimmed, own_stream=True, needs_spraying=True)
AVOIDED_PATH = Fault(Condition.CONGESTION_IMBALANCE, inject_avoided_path, own_stream=True, needs_spraying=True)
