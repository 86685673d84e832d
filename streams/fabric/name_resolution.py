"""Resolves the names that devices report for each other: full host names, MACs, netdevs, RDMA devices.

The names of the inventory take precedence, then its aliases (`id`, `serial`, the table of ports), then the names that
devices report for their own ports (`set_components`). An ambiguous name resolves to nothing.
"""

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from streams.fabric.ids import Port
from streams.fabric.lldp_verdict import Neighbor, NeighborMatch
from streams.fabric.topology import Topology, TopologyLink

_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]?){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")


class Component(Protocol):
    """A component of a device, as the device reports it; implemented by streams.wire.models.Component."""

    @property
    def name(self) -> str:
        """The name that the collector uses."""

    @property
    def alias(self) -> Sequence[str]:
        """The other names of the component."""


class NameResolver:
    """The names of one version of the inventory, and those that devices reported since."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._devices: dict[str, str | None] = {}
        for name, device in topology.devices.items():
            for alias in {
                _normalized(name),
                _normalized(name).partition(".")[0],
                _normalized(device.id),
                _normalized(device.serial),
            } - {""}:
                self._devices[alias] = name if self._devices.get(alias, name) == name else None
        self._ports: dict[str, dict[Hashable, dict[str, str | None]]] = {}

    def resolve_device(self, name: str) -> str | None:
        """Return the device of a name, or None; ignores a domain that only one side has."""
        if name in self._topology.devices:
            return name
        plain = _normalized(name)
        return self._devices[plain] if plain in self._devices else self._devices.get(plain.partition(".")[0])

    def resolve_port(self, device: str, name: str) -> str | None:
        """Return the port of a device with this name that is the end of a link, or None."""
        known = self._topology.resolve_port(device, name)
        if self._topology.link_at(known) is not None:
            return known.port
        plain = _normalized(name)
        found = {
            ports_by_name[plain] for ports_by_name in self._ports.get(device, {}).values() if plain in ports_by_name
        }
        return found.pop() if len(found) == 1 else None

    def set_components(self, device: str, source: Hashable, components: Iterable[Component]) -> bool:
        """Replace the components that a device reports by one source; return whether that changed anything."""
        ports_by_name: dict[str, str | None] = {}
        for component in components:
            names = (component.name, *component.alias)
            ports = {known.port for name in names if (known := self._link_port(device, name)) is not None}
            if len(ports) == 1:
                (port,) = ports
                for name in map(_normalized, names):
                    ports_by_name[name] = port if ports_by_name.get(name, port) == port else None
        by_source = self._ports.setdefault(device, {})
        is_news = by_source.get(source, {}) != ports_by_name
        by_source[source] = ports_by_name
        return is_news

    def match_neighbor(self, link: TopologyLink, far: Port, neighbor: Neighbor) -> tuple[NeighborMatch, Port | None]:
        """Compare the neighbor at an end of a link with the expected port `far`; return the match and its port."""
        device = self.resolve_device(neighbor.remote_device)
        if device is None:
            return NeighborMatch.UNKNOWN_NAME, None
        port = self.resolve_port(device, neighbor.remote_port)
        if port is not None:
            remote = Port(device, port)
            return (NeighborMatch.EXPECTED if remote == far else NeighborMatch.UNEXPECTED), remote
        if device != far.device or differ_only_in_digits(neighbor.remote_port, far.port):
            return NeighborMatch.UNEXPECTED, None
        # The expected device with another kind of port name: a match if a single link leads there.
        parallel = sum(c.upper.device == link.upper.device for c in self._topology.uplinks_of[link.lower.device])
        return (NeighborMatch.EXPECTED, far) if parallel == 1 else (NeighborMatch.UNKNOWN_NAME, None)

    def _link_port(self, device: str, name: str) -> Port | None:
        known = self._topology.resolve_port(device, name)
        return None if self._topology.link_at(known) is None else known


def differ_only_in_digits(one: str, other: str) -> bool:
    """Return whether two port names differ only in their digits, so that they name two ports."""
    return _DIGITS.sub("#", one) == _DIGITS.sub("#", other)


def _normalized(name: str) -> str:
    """Normalize a name: ignore case and the separators of a MAC address."""
    plain = name.strip().lower()
    return re.sub("[^0-9a-f]", "", plain) if _MAC.fullmatch(plain) else plain
