"""Finds the part number of a link: the part numbers that the devices report for the transceivers at its ends.

Devices with equal ports and parts share one copy, so memory grows with the number of devices, not of ports: the largest
fabric has 21,504 devices and 786,432 ports.
"""

import base64
from typing import Any

import cramjam
import orjson

from streams.fabric.decompression import zstd
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import PortModules, Source

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
