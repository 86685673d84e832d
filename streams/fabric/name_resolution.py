"""Which device and which port a name means, as devices call each other: full host names, MACs, netdevs, RDMA devices.

The inventory's own names come first, then its other names (`id`, `serial`, the table of ports), then what devices say
of their own ports (`learn`). A name that could mean two things means neither.
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
    """A part of a device, by its own words: streams.wire.models.Component is one."""

    @property
    def name(self) -> str:
        """What the collector calls it."""

    @property
    def alias(self) -> Sequence[str]:
        """Other names of the same."""


class NameResolver:
    """Names under one version of the inventory, and those that were learnt since."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._devices: dict[str, str | None] = {}
        for name, device in topology.devices.items():
            for said in {
                _normalized(name),
                _normalized(name).partition(".")[0],
                _normalized(device.id),
                _normalized(device.serial),
            } - {""}:
                self._devices[said] = name if self._devices.get(said, name) == name else None
        self._ports: dict[str, dict[Hashable, dict[str, str | None]]] = {}

    def resolve_device(self, name: str) -> str | None:
        """The device that is called so, or None. A domain that either side leaves out makes no difference."""
        if name in self._topology.devices:
            return name
        plain = _normalized(name)
        return self._devices[plain] if plain in self._devices else self._devices.get(plain.partition(".")[0])

    def resolve_port(self, device: str, name: str) -> str | None:
        """The port of a device that a link ends at and that is called so, or None."""
        known = self._topology.resolve_port(device, name)
        if self._topology.link_at(known) is not None:
            return known.port
        plain = _normalized(name)
        found = {means[plain] for means in self._ports.get(device, {}).values() if plain in means}
        return found.pop() if len(found) == 1 else None

    def set_components(self, device: str, source: Hashable, components: Iterable[Component]) -> bool:
        """Take what a device says of its parts by one source, instead of what it said before; whether that is news."""
        means: dict[str, str | None] = {}
        for component in components:
            called = (component.name, *component.alias)
            ports = {known.port for name in called if (known := self._link_port(device, name)) is not None}
            if len(ports) == 1:
                (port,) = ports
                for name in map(_normalized, called):
                    means[name] = port if means.get(name, port) == port else None
        by_source = self._ports.setdefault(device, {})
        is_news = by_source.get(source, {}) != means
        by_source[source] = means
        return is_news

    def match_neighbor(self, link: TopologyLink, far: Port, neighbor: Neighbor) -> tuple[NeighborMatch, Port | None]:
        """What an end of a link hears that should hear `far`, and which port of the inventory that is."""
        device = self.resolve_device(neighbor.remote_device)
        if device is None:
            return NeighborMatch.UNKNOWN_NAME, None
        port = self.resolve_port(device, neighbor.remote_port)
        if port is not None:
            meant = Port(device, port)
            return (NeighborMatch.EXPECTED if meant == far else NeighborMatch.UNEXPECTED), meant
        if device != far.device or differ_only_in_digits(neighbor.remote_port, far.port):
            return NeighborMatch.UNEXPECTED, None
        # The right device, and its port by a name of another sort: enough where only one cable leads there.
        beside = sum(c.upper.device == link.upper.device for c in self._topology.uplinks_of[link.lower.device])
        return (NeighborMatch.EXPECTED, far) if beside == 1 else (NeighborMatch.UNKNOWN_NAME, None)

    def _link_port(self, device: str, name: str) -> Port | None:
        known = self._topology.resolve_port(device, name)
        return None if self._topology.link_at(known) is None else known


def differ_only_in_digits(one: str, other: str) -> bool:
    """Whether two names of ports differ only in their numbers, so that they are names of two ports."""
    return _DIGITS.sub("#", one) == _DIGITS.sub("#", other)


def _normalized(name: str) -> str:
    """Case makes no difference, nor how a MAC's bytes are set apart."""
    plain = name.strip().lower()
    return re.sub("[^0-9a-f]", "", plain) if _MAC.fullmatch(plain) else plain
