"""Produces the Facts that devices report: LLDP neighbors and the versions of their components.

The facts of a device are polled once an hour, and after a change of its cables or versions.
"""

from collections import defaultdict
from collections.abc import Sequence

from lab.world.effects import CablesSwapped, Effect, Interval, VersionChange
from lab.world.fabric_arrays import FabricArrays
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Component, Facts, Neighbor, Source

_S = 10**9
_INTERVAL_NS = 3600 * _S
NIC, SOFTWARE, OPTICS = "nic", "os", "transceiver"
VERSIONS = {NIC: "28.39.3004", SOFTWARE: "4.33.1F", OPTICS: "2.0.7"}
"""The versions on all devices, unless a VersionChange replaces them."""
_MODELS = {NIC: "MCX75310AAS-NEAT", OPTICS: "MMS4X00-NS"}


class FactsSource:
    """The Facts of all devices, after swaps of cables and changes of versions."""

    def __init__(self, fabric: FabricArrays, topology: Topology, effects: Sequence[Effect]) -> None:
        self._fabric, self._topology = fabric, topology
        self._polled_ns: dict[int, list[int]] = defaultdict(list)
        self._swaps: dict[Port, list[tuple[Interval, Port]]] = defaultdict(list)
        self._changes: dict[int, list[VersionChange]] = defaultdict(list)
        self._components_of: dict[tuple[tuple[str, ...], str, str], tuple[Component, ...]] = {}
        for effect in effects:
            if isinstance(effect, CablesSwapped):
                self._swap(effect)
            elif isinstance(effect, VersionChange):
                for device in effect.devices:
                    self._changes[device].append(effect)
                    self._polled_ns[device] += effect.polled_at_ns

    def is_due(self, device: int, last_ns: int, at_ns: int) -> bool:
        """Return True if facts are due at `at_ns` for a device that was last polled at `last_ns` (0: never)."""
        if not last_ns or at_ns // _INTERVAL_NS != last_ns // _INTERVAL_NS:
            return True
        return any(last_ns < polled_ns <= at_ns for polled_ns in self._polled_ns.get(device, ()))

    def polled_ns(self) -> list[tuple[int, int]]:
        """Return (time, device) of all polls that follow a change, in order."""
        return sorted((at_ns, device) for device, times in self._polled_ns.items() for at_ns in times)

    def facts(self, device: int, at_ns: int) -> Facts:
        """Return the facts that a device reports at a moment."""
        fabric = self._fabric
        name, is_host = fabric.devices[device], fabric.is_host[device]
        links = self._topology.links_of.get(name, ())
        ends = [(c.lower, c.upper) if c.lower.device == name else (c.upper, c.lower) for c in links]
        advertised = [(near, self._neighbor(near, far, at_ns)) for near, far in ends]
        neighbors = tuple(Neighbor(near.port, far.device, far.port) for near, far in advertised)
        kind = NIC if is_host else OPTICS
        components = self._components(fabric.ports[device], kind, self._version(device, kind, at_ns))
        software = "" if is_host else self._version(device, SOFTWARE, at_ns)
        source = Source.SOURCE_HOST if is_host else Source.SOURCE_GNMI
        return Facts(name, at_ns, source, "Railsight", "", software, components=components, neighbors=neighbors)

    def _version(self, device: int, kind: str, at_ns: int) -> str:
        changes = self._changes.get(device, ())
        changed = (c.version for c in changes if c.kind == kind and c.interval.contains(at_ns))
        return next(changed, VERSIONS[kind])

    def _components(self, rows: tuple[str, ...], kind: str, version: str) -> tuple[Component, ...]:
        cached = self._components_of.get((rows, kind, version))
        if cached is None:
            cached = tuple(Component(row, kind, _MODELS[kind], firmware=version) for row in rows)
            self._components_of[rows, kind, version] = cached
        return cached

    def _swap(self, effect: CablesSwapped) -> None:
        """Record the neighbors of the four ends, and poll their devices after the change and after it is undone."""
        (a, b), (c, d) = (
            [self._fabric.port(port) for port in self._fabric.links[link].tolist()] for link in effect.links
        )
        for near, far in ((a, d), (d, a), (c, b), (b, c)):
            self._swaps[near].append((effect.interval, far))
        for link in effect.links:
            for port in self._fabric.links[link].tolist():
                polled_ns = self._polled_ns[self._fabric.device_of(port)]
                polled_ns += [at_ns + round(effect.polled_after_s * _S) for at_ns in effect.interval]

    def _neighbor(self, near: Port, far: Port, at_ns: int) -> Port:
        swaps = self._swaps.get(near, ())
        return next((other for interval, other in swaps if interval.contains(at_ns)), far)
