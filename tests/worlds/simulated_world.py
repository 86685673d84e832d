"""The messages of a simulated fabric with one injected fault, for tests of the stages."""

from dataclasses import dataclass, replace

import numpy as np

from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.effects import Interval
from lab.world.fabric_arrays import fabric_arrays
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import Fault
from lab.world.probe_mesh import ProbeAgents, drops_of, queues_of, with_addresses
from lab.world.scenario import START_NS
from lab.world.telemetry import Telemetry
from lab.world.traffic import Traffic
from lab.world.world import World
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import Message

S = 10**9
IMMEDIATE = DeliveryModel(late_ratio=0, duplicate_ratio=0, poll_only_ratio=0, max_skew_s=0.5)
"""Nothing is late, nothing arrives twice, and all switches send events."""


@dataclass
class SimulatedWorld:
    """A fabric with one fault of the list, placed randomly between two moments; time begins at START_NS."""

    inventory: Inventory
    fault: Fault
    within_s: tuple[float, float]
    until_s: float
    seed: int = 3

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        fabric = fabric_arrays(self.inventory)
        hosts = [name for name, is_host in zip(fabric.devices, fabric.is_host, strict=True) if is_host]
        self.whole = Interval(START_NS, START_NS + round(self.until_s * S))
        traffic = Traffic(len(hosts), max(4, len(hosts) // 4), self.whole, rng)
        placer = FaultPlacer(self.inventory, fabric, traffic, rng)
        within = Interval(*(START_NS + round(at_s * S) for at_s in self.within_s))
        self.injected = self.fault.inject(placer, within)
        self.topology = Topology(replace(with_addresses(self.inventory), jobs=traffic.jobs(hosts)))
        self._parts = fabric, traffic, rng

    def messages(self, cadence_s: float = 10.0) -> list[Message]:
        """Return all messages in order of arrival."""
        fabric, traffic, rng = self._parts
        effects = self.injected.effects
        world = World(self.inventory, fabric, traffic, effects, START_NS, rng)
        drops = list(drops_of(effects, world.signal_losses, fabric))
        probes = ProbeAgents(self.inventory, fabric, drops, self.seed, list(queues_of(effects, fabric)))
        telemetry = Telemetry(world, self.topology, effects, Cadence(cadence_s, cadence_s), IMMEDIATE, rng, probes)
        return [message for _, arrived in telemetry.batches(*self.whole, S) for message in arrived]
