"""Places faults: draws a link or device and a time, so that faults of one link are separated.

Two faults may be close in time only if one explains the other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from lab.world.effects import Interval
from lab.world.fabric_arrays import FabricArrays
from lab.world.ground_truth import InjectedFault, PlacedFault, injected
from lab.world.traffic import Busyness
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link
from streams.fabric.inventory_rows import Part
from streams.wire.models import Condition

_S = 10**9
SEPARATION_NS = 900 * _S
"""The minimum separation of two faults at one link: an episode ends ten minutes after its last observation."""
_FOREVER = Interval(0, 1 << 62)
_SETTLED_NS = 60 * _S
"""Windows in which an uplink trains are not compared."""
_WINDOW_NS, _COMPARED = 60 * _S, 6
"""Uplinks are compared in windows of a minute (`detect.window`); five in a row decide, one more for cut windows."""
_IMBALANCE_SEPARATION_NS = 480 * _S
"""An imbalance resolves after five balanced windows of a minute."""
_COLLAPSE_SEPARATION_NS, _COLLAPSE_RATIO = 120 * _S, 0.55
"""A collapse resolves after a minute, and affects at least half of a group's hosts."""
_DRIFT_SEPARATION_NS = 240 * _S
"""A changed version is reported within minutes."""
_BUSY_BEFORE_NS = 180 * _S
_TRIES = 4000


class NoRoom(RuntimeError):
    """Raised if the fabric is too small, or the time too short, to separate this many faults."""


class FaultPlacer:
    """Draws links, hosts and switches that are free for an interval, and claims them."""

    def __init__(self, inventory: Inventory, fabric: FabricArrays, traffic: Busyness, rng: np.random.Generator) -> None:
        self.fabric, self.traffic, self.rng = fabric, traffic, rng
        devices = {device.name: device for device in inventory.devices}
        self.tiers = tuple(devices[name].tier for name in fabric.devices)
        self._pods = {name: device.pod for name, device in devices.items()}
        self.ends: list[list[int]] = fabric.owner[fabric.links].tolist()
        """The devices at both ends of each link."""
        self._rails = [link.rail for link in inventory.links]
        self.host_links = [link for link, (a, _) in enumerate(self.ends) if fabric.is_host[a]]
        self.host_link_set = frozenset(self.host_links)
        self.fabric_links = [link for link, (a, _) in enumerate(self.ends) if not fabric.is_host[a]]
        self._collapsed: dict[str, list[Interval]] = defaultdict(list)
        self._claimed_links: dict[int, list[Interval]] = defaultdict(list)
        self._claimed_devices: dict[int, list[Interval]] = defaultdict(list)
        self._dark_devices: dict[int, list[Interval]] = defaultdict(list)
        """The claims on devices by faults that take their links down."""
        self._broken_gpus: set[int] = set()
        self._imbalanced: dict[int, list[Interval]] = defaultdict(list)
        self._drifting: dict[str, list[tuple[int, Interval]]] = defaultdict(list)
        self._hosts: list[int] = np.flatnonzero(np.array(fabric.is_host)).tolist()
        self._host_number = {device: number for number, device in enumerate(self._hosts)}

    @contextmanager
    def own_stream(self, *seeds: int) -> Iterator[None]:
        """Draw from another stream of random numbers until the end of the context, so that no other draw changes."""
        shared, self.rng = self.rng, np.random.default_rng(seeds)
        try:
            yield
        finally:
            self.rng = shared

    def interval(self, within: Interval, lasting_s: tuple[float, float]) -> Interval:
        """Draw an interval with a length in these limits within another interval."""
        length_ns = round(self.rng.uniform(*lasting_s) * _S)
        start_ns = round(self.rng.uniform(within.start_ns, max(within.start_ns + 1, within.end_ns - length_ns)))
        return Interval(start_ns, start_ns + length_ns)

    def link(
        self, candidates: Sequence[int], within: Interval, lasting_s: tuple[float, float],
        fits: Callable[[int, Interval], bool] = lambda _link, _interval: True,
    ) -> tuple[int, Interval]:  # fmt: skip
        """Draw a link and an interval in which the link and both of its devices are free; raise NoRoom."""
        for _ in range(_TRIES):
            link, interval = candidates[int(self.rng.integers(len(candidates)))], self.interval(within, lasting_s)
            wide = interval.widened(SEPARATION_NS)
            claimed = any(_overlaps(self._claimed_devices[device], wide) for device in self.ends[link])
            if not claimed and self._is_free(link, wide, interval) and fits(link, interval):
                self._claimed_links[link].append(interval)
                return link, interval
        raise NoRoom("no link is free for another fault: a longer time or a larger fabric is needed")

    def device(
        self, candidates: Iterable[int], within: Interval, lasting_s: tuple[float, float], *, alone: bool = False,
        fits: Callable[[int, Interval], bool] = lambda _device, _interval: True,
    ) -> tuple[int, Interval]:  # fmt: skip
        """Draw a device and an interval in which the device and all of its links are free; raise NoRoom.

        Its neighbors are free as well, unless the fault concerns the device `alone`.
        """
        choices = list(candidates)
        for _ in range(_TRIES):
            device, interval = choices[self.rng.integers(len(choices))], self.interval(within, lasting_s)
            wide = interval.widened(SEPARATION_NS)
            links = self.links_of(device)
            neighbors = {other for link in links for other in self.ends[link]}
            if any(_overlaps(self._claimed_devices[d], wide) for d in ({device} if alone else {device, *neighbors})):
                continue
            if not (all(self._is_free(link, wide, interval) for link in links) and fits(device, interval)):
                continue
            self._claimed_devices[device].append(interval)
            if not alone:
                self._dark_devices[device].append(interval)
            return device, interval
        raise NoRoom("no device is free for another fault: a longer time or a larger fabric is needed")

    def host_for_gpu_fault(self, within: Interval, lasting_s: tuple[float, float]) -> tuple[int, Interval]:
        """Draw a host without a broken GPU: a GPU stays broken until its host restarts. Raise NoRoom."""
        healthy = set(self.devices("host")) - self._broken_gpus
        device, interval = self.device(healthy, within, lasting_s, alone=True)
        self._broken_gpus.add(device)
        return device, interval

    def host_for_maintenance(self, until_ns: int) -> int:
        """Draw a host without faults until a time; raise NoRoom."""
        free = [host for host in self.devices("host") if not self._claimed_devices[host]]
        if not free:
            raise NoRoom("all hosts are in maintenance: a larger fabric is needed")
        host = int(self.rng.choice(free))
        self._claimed_devices[host].append(Interval(0, until_ns))
        return host

    def collapsing_rail(self, within: Interval, lasting_s: tuple[float, float]) -> tuple[str, list[int], Interval]:
        """Draw a pod, and enough links of busy hosts at one of its leaves; raise NoRoom.

        A pod collapses as a whole: its other rails are not drawn until the collapse has resolved.
        """
        leaves = self.devices("T0")
        for _ in range(_TRIES if leaves else 0):
            leaf, interval = leaves[self.rng.integers(len(leaves))], self.interval(within, lasting_s)
            pod = self._pods[self.fabric.devices[leaf]]
            if _overlaps(self._collapsed[pod], interval.widened(_COLLAPSE_SEPARATION_NS)):
                continue
            links = [link for link in self.links_of(leaf) if link in self.host_link_set]
            free = [link for link in links if self.is_busy(link, interval) and self.is_claimable(link, interval)]
            if len(free) >= _COLLAPSE_RATIO * len(links):
                self._collapsed[pod].append(interval)
                for link in free:
                    self._claimed_links[link].append(interval)
                return pod, free, interval
        raise NoRoom("no rail is free to collapse: a longer time or a larger fabric is needed")

    def imbalanced_leaf(self, within: Interval, lasting_s: tuple[float, float]) -> tuple[int, Interval]:
        """Draw a leaf with several uplinks, and an interval with enough fault-free windows of these; raise NoRoom."""
        choices = [leaf for leaf in self.devices("T0") if len(self.uplinks_of(leaf)) > 1]
        for _ in range(_TRIES if choices else 0):
            leaf, interval = choices[self.rng.integers(len(choices))], self.interval(within, lasting_s)
            if _overlaps(self._claimed_devices[leaf], interval.widened(_SETTLED_NS)) or _overlaps(
                self._imbalanced[leaf], interval.widened(_IMBALANCE_SEPARATION_NS)
            ):
                continue
            if self._comparable_windows(leaf, interval) >= _COMPARED:
                self._imbalanced[leaf].append(interval)
                return leaf, interval
        raise NoRoom("no leaf is free for an imbalance: a longer time or a larger fabric is needed")

    def _comparable_windows(self, leaf: int, interval: Interval) -> int:
        """Return the number of windows in which all uplinks of a leaf are healthy."""
        near = interval.widened(_SETTLED_NS)
        faults = [
            fault
            for link in self.uplinks_of(leaf)
            for fault in (*self._claimed_links[link], *self._dark_devices[self.ends[link][1]])
            if fault != _FOREVER and fault.overlaps(near)
        ]
        first_ns = -(-interval.start_ns // _WINDOW_NS) * _WINDOW_NS
        starts_ns = range(first_ns, interval.end_ns - _WINDOW_NS, _WINDOW_NS)
        windows = (Interval(at_ns, at_ns + _WINDOW_NS) for at_ns in starts_ns)
        return sum(not _overlaps(faults, window.widened(_SETTLED_NS // 2)) for window in windows)

    def drifting_devices(
        self, kind: str, candidates: Sequence[int], within: Interval, lasting_s: tuple[float, float]
    ) -> tuple[tuple[int, ...], Interval]:
        """Draw one to three devices for another version, at most an eighth of all at once; raise NoRoom.

        If a fifth had another version, the rest would no longer be a majority (`detect.drift.majority`).
        """
        most = max(1, len(candidates) // 8, min(2, len(candidates) // 6))
        for _ in range(_TRIES if candidates else 0):
            interval, count = self.interval(within, lasting_s), min(most, int(self.rng.integers(1, 4)))
            wide = interval.widened(_DRIFT_SEPARATION_NS)
            others = {device for device, drift in self._drifting[kind] if drift.overlaps(wide)}
            chosen = self.rng.choice(candidates, count, replace=False).tolist()
            if len(others) + count > most or others & set(chosen):
                continue
            if not any(_overlaps(self._claimed_devices[device], wide) for device in chosen):
                self._drifting[kind] += [(device, interval) for device in chosen]
                return tuple(sorted(chosen)), interval
        raise NoRoom("too many devices run another version already: a longer time or a larger fabric is needed")

    def is_unused(self, link: int) -> bool:
        """Return True if a link has no fault at any time."""
        return not self._claimed_links[link]

    def reserve(self, link: int) -> None:
        """Exclude a link from all later faults: five downs within a day are a flap, however far apart."""
        self._claimed_links[link].append(_FOREVER)

    def claim(self, link: int, interval: Interval) -> bool:
        """Claim a link that a fault elsewhere affects; return False if the link has its own fault at that time."""
        if not self.is_claimable(link, interval):
            return False
        self._claimed_links[link].append(interval)
        return True

    def is_claimable(self, link: int, interval: Interval) -> bool:
        """Return True if a link and its devices have no other fault at that time."""
        wide = interval.widened(SEPARATION_NS)
        return self._is_free(link, wide, interval) and not any(
            _overlaps(self._claimed_devices[device], wide) for device in self.ends[link]
        )

    def _is_free(self, link: int, wide: Interval, interval: Interval) -> bool:
        """Return True if a link has no other fault at that time and is not part of an imbalance of its leaf."""
        return not _overlaps(self._claimed_links[link], wide) and not _overlaps(
            self._imbalanced.get(self.ends[link][0], ()), interval.widened(_SETTLED_NS)
        )

    def is_device_claimed(self, device: int, interval: Interval) -> bool:
        """Return True if a fault concerns the whole device at that time."""
        return _overlaps(self._claimed_devices[device], interval)

    def devices(self, tier: str) -> list[int]:
        """Return all devices of a tier; "host" for hosts."""
        return [device for device, own_tier in enumerate(self.tiers) if own_tier == tier]

    def links_of(self, device: int) -> list[int]:
        """Return the links of a device."""
        return self.fabric.links_of.get(device, [])

    def uplinks_of(self, device: int) -> list[int]:
        """Return the links whose lower end is a device."""
        return [link for link in self.links_of(device) if self.ends[link][0] == device]

    def rail_of(self, link: int) -> list[int]:
        """Return the other links of a host link's rail at its host: its other planes."""
        host, rail = self.ends[link][0], self._rails[link]
        return [other for other in self.uplinks_of(host) if other != link and self._rails[other] == rail]

    def is_busy(self, link: int, interval: Interval) -> bool:
        """Return True if a job runs on a host link's host for the whole interval; fabric links are always busy."""
        host = self._host_number.get(self.ends[link][0])
        before = Interval(interval.start_ns - _BUSY_BEFORE_NS, interval.end_ns)
        return host is None or self.traffic.is_busy(host, before)

    def peers_elsewhere(self, link: int, interval: Interval) -> list[int]:
        """Return the free links of the same rail and plane on the job's other hosts in other pods."""
        place = self._place(link)
        pod = self._pods[self.fabric.devices[self.ends[link][0]]]
        hosts = (self._hosts[number] for number in self.traffic.neighbors(self._host_number[self.ends[link][0]]))
        return [
            other
            for host in hosts
            if self._pods[self.fabric.devices[host]] != pod
            for other in self.uplinks_of(host)
            if self._place(other) == place and self.is_claimable(other, interval)
        ]

    def _place(self, link: int) -> int:
        """Return the row of a host's port; all hosts have their rails and planes in the same order."""
        return self.ports(link)[0] - int(self.fabric.first_port[self.ends[link][0]])

    def port(self, number: int) -> Port:
        """Return a port by its number."""
        return self.fabric.port(number)

    def named(self, link: int) -> Link:
        """Return a link by its number."""
        return self.fabric.link(link)

    def injected(
        self, fault: PlacedFault, kind: str, *, affected: tuple[Port, ...] = (), senders: tuple[str, ...] = (),
        parts: tuple[Part, ...] = (),
    ) -> InjectedFault:  # fmt: skip
        """Return a fault at the drawn place and time; `kind` names its variant."""
        return injected(fault, self.fabric, kind, affected=affected, senders=senders, parts=parts)

    def ports(self, link: int) -> tuple[int, int]:
        """Return the ports at both ends of a link, the lower first."""
        a, z = self.fabric.links[link].tolist()
        return int(a), int(z)


def _overlaps(intervals: Sequence[Interval], other: Interval) -> bool:
    return any(interval.overlaps(other) for interval in intervals)


@dataclass(frozen=True, slots=True)
class Fault:
    """One condition that the simulation can inject.

    `inject` draws a place and a time within an interval from the placer's random numbers, and returns the ground truth
    and the effects at all sources that would observe it. It uses nothing of the detector. Raises NoRoom.
    """

    condition: Condition
    inject: Callable[[FaultPlacer, Interval], InjectedFault]
    detection_goal_s: float | None = None
    """The promised 95th percentile of the time from the earliest possible detection; None if not promised."""
    own_stream: bool = False
    """True if it is placed last with its own random numbers: a seed's day is otherwise the same without it."""
    min_planes: int = 1
    """The number of planes from which on a fabric has the fault; others have the same days without it."""
    needs_spraying: bool = False
    """True if only a fabric that sprays packets has the fault; others have the same days without it."""
    is_of_trial: bool = False
    """True if only what neither the protocol servers of the demo nor the load have shows it: values of GPUs, reports of
    another collector."""

    @property
    def slug(self) -> str:
        """Return the slug of the detector that finds the fault."""
        return self.condition.slug
