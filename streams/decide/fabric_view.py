"""Combines the fabric inputs of `decide`: topology, capacity, and the states, the traffic and the parts of links.

A port that is drained by routing policy stays up, so its state does not show the drain. Its traffic does, if it had
any. Part numbers are those of the transceivers; devices with equal ports and parts share one copy.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import cramjam
import orjson

from streams.decide.capacity import Capacity
from streams.decide.controls import Identity
from streams.decide.guards import TAKES_HOST_OUT, TAKES_LINK_OUT
from streams.decide.link_states import LinkMessage, LinkStates
from streams.decide.params import DecideParams
from streams.fabric.decompression import zstd
from streams.fabric.ids import Port, device_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.errors import Reject
from streams.wire.models import Action, Endpoint, Finding, PortModules, PortQuality, PortReadings, Source, Subject

_RETAINED_NS = 86_400_000_000_000
"""The traffic of a port that is no longer read is dropped after a day."""


@dataclass(frozen=True, slots=True)
class TrafficRun:
    """Consecutive readings of one port, all with traffic (`is_busy`) or all without."""

    is_busy: bool
    begin_ns: int
    first_end_ns: int
    """The end of the first reading, during which the traffic may have begun or stopped."""
    end_ns: int
    busy_ns: int = 0
    """The end of the newest reading with traffic, also before this run; 0 if there was none."""


_run_fields = attrgetter(*(own.name for own in fields(TrafficRun)))


def extend_traffic(run: TrafficRun | None, readings: PortReadings, idle_bps: float) -> TrafficRun | None:
    """Return the run extended by the next readings of its port; None if no frame counter is read."""
    if run is not None and readings.end_ns <= run.end_ns:
        return run
    if readings.rx_bytes is None:
        return None
    is_busy = readings.rx_bytes * 8 >= idle_bps * (readings.end_ns - readings.begin_ns) / 1e9
    busy_ns = readings.end_ns if is_busy else run.busy_ns if run is not None else 0
    if run is not None and run.is_busy is is_busy and run.end_ns == readings.begin_ns:
        return TrafficRun(is_busy, run.begin_ns, run.first_end_ns, readings.end_ns, busy_ns)
    return TrafficRun(is_busy, readings.begin_ns, readings.end_ns, readings.end_ns, busy_ns)


class LinkTraffic:
    """The newest run of each port of the inventory, by source and the source's port name."""

    def __init__(self, idle_bps: float) -> None:
        self._idle_bps = idle_bps
        self._runs: dict[str, dict[tuple[Source, str], TrafficRun]] = {}
        self._pruned_ns = 0

    def update(self, message: PortQuality) -> None:
        """Process the readings of a device."""
        own = self._runs.setdefault(message.device, {})
        for readings in message.readings:
            key = message.source, readings.port
            run = extend_traffic(own.get(key), readings, self._idle_bps)
            if run is not None:
                own[key] = run
            else:
                own.pop(key, None)

    def runs(self, end: Port, topology: Topology, after_ns: int) -> list[TrafficRun]:
        """Return the runs of a link's end that continue after a time, one for each source."""
        return [
            run
            for (_, name), run in self._runs.get(end.device, {}).items()
            if run.end_ns > after_ns and (name == end.port or topology.resolve_port(end.device, name) == end)
        ]

    def advance(self, now_ns: int, topology: Topology) -> None:
        """Once an hour, drop the runs that ended a day ago and those of devices that the inventory does not name."""
        if now_ns - self._pruned_ns < _RETAINED_NS // 24:
            return
        self._pruned_ns = now_ns
        self._runs = {
            device: retained
            for device, runs in self._runs.items()
            if device in topology.devices
            and (retained := {key: run for key, run in runs.items() if now_ns - run.end_ns < _RETAINED_NS})
        }

    def dump(self) -> list[list[Any]]:
        """Return the runs for a snapshot, in JSON types."""
        return [[device, *key, *_run_fields(run)] for device, runs in self._runs.items() for key, run in runs.items()]

    def load(self, rows: Sequence[Sequence[Any]]) -> None:
        """Restore the runs that `dump` returned; raises Reject on invalid data."""
        try:
            for device, source, port, *run in rows:
                self._runs.setdefault(device, {})[Source(source), port] = TrafficRun(*run)
        except (ValueError, TypeError) as error:
            raise Reject(f"the data is not the traffic of links: {error}") from error


MAX_DEVICES = 65_536
"""The most devices whose modules are retained: three times the largest fabric. Further devices are ignored."""

_MAX_BYTES = 1 << 28

_Modules = tuple[tuple[str, ...], tuple[str, ...]]


class ModuleParts:
    """The newest PortModules of each source of each device."""

    def __init__(self) -> None:
        self._devices: dict[str, dict[Source, tuple[int, _Modules]]] = {}
        self._shared: dict[_Modules, _Modules] = {}
        self._dumped: str | None = None

    def update(self, message: PortModules) -> None:
        """Process a message; a message that is older than the newest of its source changes nothing."""
        if message.device not in self._devices and len(self._devices) >= MAX_DEVICES:
            return
        sources = self._devices.setdefault(message.device, {})
        known = sources.get(message.source)
        if known is None or known[0] <= message.observed_ns:
            modules = message.ports, message.part_numbers
            sources[message.source] = message.observed_ns, self._shared.setdefault(modules, modules)
            self._dumped = None

    def part_number(self, link_id: str, topology: Topology) -> str:
        """Return the part numbers at the ends of a link: once if they are equal, empty if none is known."""
        link = topology.links.get(link_id)
        if link is None:
            return ""
        parts = {self._at(port, topology) for port in (link.lower, link.upper)}
        return " + ".join(sorted(parts - {""}))

    def _at(self, port: Port, topology: Topology) -> str:
        for source in sorted(sources := self._devices.get(port.device, {})):
            for name, part in zip(*sources[source][1], strict=True):
                if name == port.port or topology.resolve_port(port.device, name) == port:
                    return part
        return ""

    def dump(self) -> str:
        """Return the compressed state for a snapshot; compresses again only after a change."""
        if self._dumped is None:
            used = {id(modules): modules for by in self._devices.values() for _, modules in by.values()}
            numbers = {identity: number for number, identity in enumerate(used)}
            rows = [
                [device, int(source), at_ns, numbers[id(modules)]]
                for device, by in self._devices.items()
                for source, (at_ns, modules) in by.items()
            ]
            columns = list(zip(*rows, strict=True))
            packed = bytes(cramjam.zstd.compress(orjson.dumps([list(used.values()), columns])))
            self._dumped = base64.b64encode(packed).decode()
            self._shared = {modules: modules for modules in used.values()}
        return self._dumped

    def load(self, data: str) -> None:
        """Restore the state that `dump` returned; raises Reject on invalid data."""
        if not data:
            return
        try:
            tables, columns = orjson.loads(zstd(base64.b64decode(data), _MAX_BYTES))
            shared: list[Any] = [(tuple(ports), tuple(parts)) for ports, parts in tables]
            self._shared = {modules: modules for modules in shared}
            for device, source, at_ns, number in zip(*columns, strict=True):
                self._devices.setdefault(device, {})[Source(source)] = int(at_ns), shared[number]
        except (cramjam.DecompressionError, LookupError, ValueError, TypeError) as error:
            raise Reject(f"the data is not a state of modules: {error}") from error
        self._dumped = data


DEVICE, PORT, RAIL = "device:", "port:", "rail:"


class FabricView:
    """The newest version of the inventory, with the states of its links."""

    def __init__(self, params: DecideParams) -> None:
        self._params = params
        self.topology = Topology(Inventory())
        self.capacity = Capacity(self.topology)
        self.links, self.modules, self.traffic = self.no_links(), ModuleParts(), self.no_traffic()

    def no_links(self) -> LinkStates:
        """Return states without any evidence."""
        own = self._params
        return LinkStates(own.freshness_limit_s, own.qualification, accept_unread_hosts=own.accept_unread_hosts)

    def no_traffic(self) -> LinkTraffic:
        """Return the traffic of links before any reading."""
        return LinkTraffic(self._params.idle_bps)

    def update(self, message: LinkMessage | PortModules) -> None:
        """Process a message of `measure`."""
        if isinstance(message, PortModules):
            self.modules.update(message)
            return
        self.links.update(message)
        if isinstance(message, PortQuality):
            self.traffic.update(message)

    def advance(self, now_ns: int) -> None:
        """Advance to a time."""
        self.links.advance(now_ns)
        self.traffic.advance(now_ns, self.topology)

    def set_topology(self, topology: Topology) -> None:
        """Replace the version of the inventory."""
        self.topology = topology
        if topology.graph is not self.capacity.graph:
            self.capacity = Capacity(topology)
        self.links.set_topology(topology)

    def link(self, finding: Finding) -> TopologyLink | None:
        """Return the link of a finding."""
        end = finding.subject.a
        return self.topology.link_at(Port(end.device, end.port)) if end and end.port else None

    def members(self, target: Subject) -> tuple[str, ...]:
        """Return the switches of a pod; empty for an unknown pod and any other target."""
        if target.a is not None or not target.pod:
            return ()
        devices = self.topology.devices.values()
        return tuple(
            own.name for own in devices if own.kind == "switch" and self.topology.pod_of(own.name) == target.pod
        )

    def has(self, target: Subject) -> bool:
        """Return whether the inventory has a link or a device."""
        if target.a is None or target.id != device_id(target.a.device):
            return target.id in self.topology.links
        return target.a.device in self.topology.devices

    def identity(self, name: str) -> Identity:
        """Return the identity of a device, port, rail of a host, or link of the inventory; empty for anything else."""
        topology = self.topology
        if (link := topology.links.get(name)) is not None:
            ends = ((topology.devices[end.device].id, *end) for end in (link.lower, link.upper))
            return (topology.link_row_ids.get(name, ""), *(part for end in ends for part in end))
        kind = next((kind for kind in (DEVICE, PORT, RAIL) if name.startswith(kind)), "")
        device, _, part = name.removeprefix(kind).partition("/")
        found = topology.devices.get(device) if bool(part) == (kind in (PORT, RAIL)) else None
        return () if found is None else (found.id, device, part)

    def part_number(self, link_id: str) -> str:
        """Return the part number of a link's transceivers; empty if it is unknown."""
        return self.modules.part_number(link_id, self.topology)

    def target(self, finding: Finding, action: Action) -> Subject:
        """Return the target of an action: the host or the link to which the finding's subject belongs."""
        subject, end, link = finding.subject, finding.subject.a, self.link(finding)
        if action in TAKES_HOST_OUT and end is not None:
            identity = device_id(end.device)
            return subject if subject.id == identity else Subject(identity, Endpoint(end.device), pod=subject.pod)
        if action in TAKES_LINK_OUT and link is not None and link.id != subject.id:
            return Subject(
                link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, link.rail, link.plane, link.pod
            )
        return subject

    def interrupted_with(self, link_id: str) -> str:
        """Return the links that a repair of a link interrupts too, in a sentence; empty if there are none."""
        link = self.topology.links.get(link_id)
        others = self.topology.handled_with(link) if link is not None else ()
        return f"the repair also interrupts {', '.join(one.id for one in others)}" if others else ""

    def qualifies(self, target: Subject, after_ns: int = 0) -> bool:
        """Return whether a link, or every link of a host, is proven sound by readings after a time."""
        links = self.links_of(target)
        return bool(links) and not any(self.links.doubts(link.id, after_ns) for link in links)

    def links_of(self, target: Subject) -> Sequence[TopologyLink]:
        """Return a link, or every link of a host; empty if the inventory does not have the target any more."""
        if (link := self.topology.links.get(target.id)) is not None:
            return (link,)
        is_device = target.a is not None and target.id == device_id(target.a.device)
        return self.topology.uplinks_of.get(target.a.device, ()) if target.a is not None and is_device else ()
