"""What devices say of themselves: who is at the other end of each cable, and which versions their parts run.

They say so each hour, and when somebody asks them after a change.
"""

from collections import defaultdict
from collections.abc import Sequence

from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.simulation.effects import CablesSwapped, Effect, Interval, VersionChange
from streams.simulation.world import World
from streams.wire.models import Component, Facts, Neighbor, Source

_S = 10**9
_EVERY_NS = 3600 * _S
NIC, SOFTWARE, OPTICS = "nic", "os", "transceiver"
VERSIONS = {NIC: "28.39.3004", SOFTWARE: "4.33.1F", OPTICS: "2.0.7"}
"""What all run but those that do not."""
_MODELS = {NIC: "MCX75310AAS-NEAT", OPTICS: "MMS4X00-NS"}


class FactsSource:
    """The Facts of all devices, by what happens to cables and versions."""

    def __init__(self, world: World, topology: Topology, effects: Sequence[Effect]) -> None:
        self._world, self._topology = world, topology
        self._asked: dict[int, list[int]] = defaultdict(list)
        self._swaps: dict[Port, list[tuple[Interval, Port]]] = defaultdict(list)
        self._runs: dict[int, list[VersionChange]] = defaultdict(list)
        self._parts: dict[tuple[tuple[str, ...], str, str], tuple[Component, ...]] = {}
        for effect in effects:
            if isinstance(effect, CablesSwapped):
                self._swap(effect)
            elif isinstance(effect, VersionChange):
                for device in effect.devices:
                    self._runs[device].append(effect)
                    self._asked[device] += effect.polled_at_ns

    def is_due(self, device: int, last_ns: int, at_ns: int) -> bool:
        """Whether a device is to say it now, that was read before at `last_ns` (0: never)."""
        if not last_ns or at_ns // _EVERY_NS != last_ns // _EVERY_NS:
            return True
        return any(last_ns < asked_ns <= at_ns for asked_ns in self._asked.get(device, ()))

    def facts(self, device: int, at_ns: int) -> Facts:
        """What it says then."""
        plant = self._world.plant
        name, is_host = plant.devices[device], plant.is_host[device]
        own = [(c.lower, c.upper) if c.lower.device == name else (c.upper, c.lower)
               for c in self._topology.links_of.get(name, ())]  # fmt: skip
        heard = [(near, self._heard_by(near, far, at_ns)) for near, far in own]
        neighbors = tuple(Neighbor(near.port, far.device, far.port) for near, far in heard)
        kind = NIC if is_host else OPTICS
        parts = self._components(plant.ports[device], kind, self._version(device, kind, at_ns))
        software = "" if is_host else self._version(device, SOFTWARE, at_ns)
        source = Source.SOURCE_HOST if is_host else Source.SOURCE_GNMI
        return Facts(name, at_ns, source, "Railsight", "", software, components=parts, neighbors=neighbors)

    def _version(self, device: int, kind: str, at_ns: int) -> str:
        runs = self._runs.get(device, ())
        return next(
            (r.version for r in runs if r.kind == kind and r.interval.start_ns <= at_ns < r.interval.end_ns),
            VERSIONS[kind],
        )

    def _components(self, rows: tuple[str, ...], kind: str, version: str) -> tuple[Component, ...]:
        known = self._parts.get((rows, kind, version))
        if known is None:
            parts = (Component(row, kind, _MODELS[kind], firmware=version) for row in rows)
            known = self._parts[rows, kind, version] = tuple(parts)
        return known

    def _swap(self, effect: CablesSwapped) -> None:
        """What the four ends hear, and when their devices are asked: after the change, and after it is undone."""
        (a, b), (c, d) = (
            [self._port(port) for port in self._world.plant.links[link].tolist()] for link in effect.links
        )
        for near, far in ((a, d), (d, a), (c, b), (b, c)):
            self._swaps[near].append((effect.interval, far))
        for link in effect.links:
            for port in self._world.plant.links[link].tolist():
                own = self._asked[int(self._world.owner[port])]
                own += [at_ns + round(effect.polled_after_s * _S) for at_ns in effect.interval]

    def _port(self, number: int) -> Port:
        device = int(self._world.owner[number])
        plant = self._world.plant
        return Port(plant.devices[device], plant.ports[device][number - int(self._world.first[device])])

    def _heard_by(self, near: Port, far: Port, at_ns: int) -> Port:
        swaps = self._swaps.get(near, ())
        return next((other for span, other in swaps if span.start_ns <= at_ns < span.end_ns), far)
