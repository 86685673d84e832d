"""Simulates the active probes of all hosts: the flows of a mesh, their paths by ECMP, and the report of each window.

As in `collect probe`, each rail probes rails of its leaf and rails of other leaves, each from a different source port.
A path is drawn once for each flow, as a switch selects it from the 5-tuple. Random numbers are an argument.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import NamedTuple
from zlib import crc32

import numpy as np

from lab.world.effects import Effect, Interval, PacketDrop, QueueDelay, SignalLoss
from lab.world.fabric_arrays import FabricArrays
from lab.world.probe_times import ProbedPath, ProbeNoise, ProbeTimes, Queue
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link, PortName
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import ProbeReport

WINDOW_NS = 10 * 10**9
_SENT = 10
"""The number of probes of a flow in a window: one per second."""
_TOR_FLOWS, _FABRIC_FLOWS = 3, 10
_SOURCE_PORT = 20_001
_FIRST_ADDRESS = int(IPv4Address("10.0.0.1"))
_RESPONDER_NS = 50_000_000
_LOSS_FIELDS = ("forward_lost", "reverse_lost", "unanswered", "lost_run", "forward_reach", "reverse_reach")
_LATE = 1.5
"""The ratio of the slowest of ten probes to their median (choice)."""
REPORTED_AFTER_NS = 1_000_000_000
"""A report waits twice the timeout for replies."""


class Drop(NamedTuple):
    """A link loses this share of the probes that it carries into `port`; with `one_flow`, only probes of one flow."""

    port: Port
    interval: Interval
    share: float
    one_flow: bool = False


@dataclass(slots=True)
class _Flow:
    source: Link
    target: Link
    source_port: int
    forward: tuple[Port, ...]
    """The ports at which the flow's probes enter switches, then the target's rail."""
    back: tuple[Port, ...]
    lost_run: int = 0


@dataclass(slots=True)
class _Prober:
    flows: list[_Flow]
    fields: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """The fields of a report without losses or times; each report replaces some of them."""
    crossing: dict[Port, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of the flows with a path into a port, by port."""
    lossy: set[int] = field(default_factory=set)
    """The numbers of the flows that lost probes in the last window."""
    sequence: int = 0


def with_addresses(inventory: Inventory) -> Inventory:
    """Return the inventory with an IPv4 address for each port, as an alias."""
    names = (PortName(*port, address, "probe") for port, address in _addresses(inventory).items())
    return replace(inventory, ports=(*inventory.ports, *names))


def _addresses(inventory: Inventory) -> dict[Port, str]:
    ports = (end for link in inventory.links for end in (link.a, link.z))
    return {port: str(IPv4Address(_FIRST_ADDRESS + number)) for number, port in enumerate(ports)}


class ProbeMesh:
    """The probers of all hosts; `drops` may be replaced between two windows."""

    def __init__(
        self, inventory: Inventory, drops: Sequence[Drop], rng: np.random.Generator, queues: Sequence[Queue] = ()
    ) -> None:
        self._rng = rng
        self.drops = list(drops)
        self._addresses = _addresses(inventory)
        self._links_of: dict[str, list[tuple[Port, Port]]] = defaultdict(list)
        """The links of a switch to other switches as (own port, far port), by switch."""
        hosts = {device.name for device in inventory.devices if device.kind == "host"}
        rails: dict[str, list[Link]] = defaultdict(list)
        planes = {device.name: device.plane for device in inventory.devices}
        for link in inventory.links:
            if link.role == HOST_LINK and link.a_device in hosts:
                rails[link.z_device].append(link)
            else:
                self._links_of[link.a_device].append((link.a, link.z))
                self._links_of[link.z_device].append((link.z, link.a))
        leaves: dict[int | None, list[str]] = defaultdict(list)
        for leaf in rails:
            leaves[planes[leaf]].append(leaf)
        self._next_hops: dict[tuple[str, str], list[tuple[Port, Port]]] = {}
        self.probers: dict[str, _Prober] = {}
        for leaf, links in rails.items():
            for place, link in enumerate(links):
                flows = self._flows(rails, leaves[planes[leaf]], leaf, place)
                self.probers.setdefault(link.a_device, _Prober([])).flows.extend(flows)
        self._one_flow: dict[Port, _Flow] = {}
        for prober in self.probers.values():
            prober.fields = self._fields(prober.flows)
            for number, flow in enumerate(prober.flows):
                for port in flow.forward[:-1]:
                    self._one_flow.setdefault(port, flow)
                for port in dict.fromkeys((*flow.forward, *flow.back)):
                    prober.crossing[port].append(number)
        self._noise = ProbeNoise(self._addresses, rng)
        paths = {
            name: [ProbedPath(flow.forward, flow.back, flow.target.a_device) for flow in prober.flows]
            for name, prober in self.probers.items()
        }
        self._noise.add_probers(paths)
        self.times = ProbeTimes(paths, queues, rng.spawn(1)[0])

    def _flows(self, rails: dict[str, list[Link]], leaves: list[str], leaf: str, place: int) -> Iterator[_Flow]:
        source = rails[leaf][place]
        ring = [link for link in (*rails[leaf][place + 1 :], *rails[leaf][:place]) if link.a_device != source.a_device]
        others = [other for other in leaves if other != leaf]
        targets = [(ring[n], n) for n in range(min(_TOR_FLOWS, len(ring)))]
        for slot in range(_FABRIC_FLOWS if others else 0):
            choices = rails[others[(place + slot) % len(others)]]
            choices = [link for link in choices if link.a_device != source.a_device]
            if choices:
                targets.append((choices[crc32(f"{source.a}{slot}".encode()) % len(choices)], _TOR_FLOWS + slot))
        for target, slot in targets:
            forward, back = (
                (one.z, *self._path(one.z_device, other.z_device, f"{one.a}{slot}{other.a}"), other.a)
                for one, other in ((source, target), (target, source))
            )
            yield _Flow(source, target, _SOURCE_PORT + slot, forward, back)

    def _path(self, begin: str, end: str, flow: str) -> Iterator[Port]:
        """Yield the ports at which a flow enters the switches after the first."""
        at = begin
        while at != end:
            choices = self._towards(at, end)
            far = choices[crc32(f"{flow}{at}".encode()) % len(choices)][1]
            yield far
            at = far.device

    def _towards(self, at: str, end: str) -> list[tuple[Port, Port]]:
        """Return the links of a switch that are on shortest paths to another switch."""
        if (at, end) not in self._next_hops:
            distance = {end: 0}
            frontier = [end]
            while frontier and at not in distance:
                found = [far.device for one in frontier for _, far in self._links_of[one] if far.device not in distance]
                distance |= dict.fromkeys(found, distance[frontier[0]] + 1)
                frontier = list(dict.fromkeys(found))
            self._next_hops[at, end] = [
                link for link in self._links_of[at] if distance.get(link[1].device, 1 << 20) < distance[at]
            ]
        return self._next_hops[at, end]

    def _fields(self, flows: Sequence[_Flow]) -> dict[str, tuple[object, ...]]:
        places: dict[str, int] = {}

        def place(port: Port) -> int:
            return places.setdefault(self._addresses[port], len(places))

        zero, count = (0,) * len(flows), len(flows)
        fields: dict[str, tuple[object, ...]] = {
            "flow_source": tuple(place(flow.source.a) for flow in flows),
            "flow_target": tuple(place(flow.target.a) for flow in flows),
            "flow_source_port": tuple(flow.source_port for flow in flows),
            "flow_forward_hops": tuple(len(flow.forward) - 1 for flow in flows),
            "flow_reverse_hops": tuple(len(flow.back) - 1 for flow in flows),
            "hop": tuple(
                1 + place(port) for flow in flows for path in (flow.forward, flow.back) for port in path[:-1]
            ),
            "flow_sent": (_SENT,) * count, "flow_responder_p50_ns": (_RESPONDER_NS,) * count,
        }  # fmt: skip
        names = (*_LOSS_FIELDS, "discarded", "reordered")
        return {"address": tuple(places)} | {f"flow_{name}": zero for name in names} | fields

    def report(self, host: str, end_ns: int, skew_ns: int = 0) -> ProbeReport:
        """Return the report of a host for the window that ends at a time."""
        prober = self.probers[host]
        prober.sequence += 1
        window = Interval(end_ns - WINDOW_NS, end_ns)
        fields = dict(prober.fields)
        drops = [drop for drop in self.drops if drop.interval.overlaps(window)]
        stalls, noise = self._noise.losses(host, end_ns, _SENT)
        crossed = {number for drop in drops for number in prober.crossing.get(drop.port, ())}
        if affected := crossed | noise.keys() | prober.lossy:
            fields |= self._losses(prober, affected, drops, window, noise)
        fields |= self._rtts(prober, self.times.medians(host, window, prober.crossing).tolist())
        return ProbeReport(
            host, f"probe@{host}", 1, prober.sequence, window.start_ns + skew_ns, end_ns + skew_ns,
            end_ns + REPORTED_AFTER_NS, stalls, **fields,  # type: ignore[arg-type]
        )  # fmt: skip

    def _rtts(self, prober: _Prober, medians: list[float]) -> dict[str, tuple[object, ...]]:
        """Return the fields with the times of flows; flows that lost all probes have none."""
        for number in prober.lossy:
            if prober.flows[number].lost_run >= _SENT:
                medians[number] = 0.0
        return {
            "flow_rtt_p50_ns": tuple(map(int, medians)),
            "flow_rtt_p99_ns": tuple(int(_LATE * time) for time in medians),
        }

    def _losses(
        self,
        prober: _Prober,
        affected: set[int],
        drops: Sequence[Drop],
        window: Interval,
        noise: Mapping[int, tuple[int, int]],
    ) -> dict[str, tuple[object, ...]]:
        """Return the fields of a report in which some flows may have lost probes."""
        by_port: dict[Port, list[Drop]] = defaultdict(list)
        for drop in drops:
            by_port[drop.port].append(drop)
        fields = {f"flow_{name}": [0] * len(prober.flows) for name in _LOSS_FIELDS}
        forward, back, unanswered, runs, forward_reach, back_reach = fields.values()
        prober.lossy.clear()
        for number in sorted(affected):
            flow, extra = prober.flows[number], noise.get(number, (0, 0))
            lost = [
                own + self._lost(flow, path, by_port, window)
                for own, path in zip(extra, (flow.forward, flow.back), strict=True)
            ]
            total = min(_SENT, sum(lost))
            if total == _SENT:
                flow.lost_run += total
                unanswered[number] = total
                forward_reach[number], back_reach[number] = self._reach(flow, by_port, window)
            else:
                flow.lost_run = total
                forward[number] = min(lost[0], total)
                back[number] = total - forward[number]
            runs[number] = flow.lost_run
            if total:
                prober.lossy.add(number)
        return {name: tuple(values) for name, values in fields.items()}

    def _lost(self, flow: _Flow, path: Sequence[Port], by_port: dict[Port, list[Drop]], window: Interval) -> int:
        """Return the number of a window's probes that a path loses in one direction."""
        arrived = _SENT
        for drop in self._crossed(flow, path, by_port):
            covered_ns = min(drop.interval.end_ns, window.end_ns) - max(drop.interval.start_ns, window.start_ns)
            arrived -= int(self._rng.binomial(arrived, drop.share * max(0.0, min(1.0, covered_ns / WINDOW_NS))))
        return _SENT - arrived

    def _crossed(self, flow: _Flow, path: Sequence[Port], by_port: dict[Port, list[Drop]]) -> Iterator[Drop]:
        for port in path:
            for drop in by_port.get(port, ()):
                if not drop.one_flow or (self._one_flow.get(port) is flow and path is flow.forward):
                    yield drop

    def _reach(self, flow: _Flow, by_port: dict[Port, list[Drop]], window: Interval) -> tuple[int, int]:
        """Return the reach of a lost flow's traces in both directions, in the form of a report."""
        found = []
        for path in (flow.forward, flow.back):
            drops = [drop for drop in self._crossed(flow, path, by_port) if drop.interval.contains(window.end_ns - 1)]
            places = [path.index(drop.port) for drop in drops if drop.share >= 1]
            found.append(1 + min((*places, len(path) - 1)))
        return found[0], found[1]


_STREAM = 0x50
"""The name of the stream of random numbers: a day is the same without probes."""


def drops_of(effects: Sequence[Effect], losses: Sequence[SignalLoss], fabric: FabricArrays) -> Iterator[Drop]:
    """Yield the causes of lost probes: links that lose packets, and links of hosts without a signal.

    Around a fabric link without a signal, probes take another path within less than a probe's interval.
    """
    for effect in effects:
        if isinstance(effect, PacketDrop):
            yield Drop(fabric.port(effect.port), effect.interval, effect.share, effect.one_flow)
    for loss in losses:
        port = int(fabric.links[loss.link][0])
        if fabric.is_host[fabric.device_of(port)]:
            yield Drop(fabric.port(port), loss.interval, 1.0)


def queues_of(effects: Sequence[Effect], fabric: FabricArrays) -> Iterator[Queue]:
    """Yield the queues in which probes wait."""
    for effect in effects:
        if isinstance(effect, QueueDelay):
            yield Queue(fabric.port(effect.port), effect.interval, round(effect.delay_s * 1e9))


class ProbeAgents:
    """Runs the probers of all hosts of a fabric."""

    def __init__(
        self, inventory: Inventory, fabric: FabricArrays, drops: Sequence[Drop], seed: int, queues: Sequence[Queue] = ()
    ) -> None:
        self.rng = np.random.default_rng([seed, _STREAM])
        self.mesh = ProbeMesh(inventory, drops, self.rng, queues)
        self._hosts = [number for number, name in enumerate(fabric.devices) if name in self.mesh.probers]
        self._names = fabric.devices

    def reports(
        self, begin_ns: int, end_ns: int, is_silent: Callable[[int, int], bool], skew_ns: Callable[[int, int], int]
    ) -> Iterator[tuple[int, ProbeReport]]:
        """Yield (arrival, report) of the windows that end within an interval; both hooks take a device and a time."""
        for at_ns in range(-(-begin_ns // WINDOW_NS) * WINDOW_NS, end_ns, WINDOW_NS):
            for host in self._hosts:
                if not is_silent(host, at_ns):
                    arrival_ns = at_ns + REPORTED_AFTER_NS + int(self.rng.integers(20_000_000, 400_000_000))
                    yield arrival_ns, self.mesh.report(self._names[host], at_ns, skew_ns(host, at_ns))
