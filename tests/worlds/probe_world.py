"""The probe reports that the hosts of the small fabric send, with links that drop probes."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from lab.world.effects import Interval
from lab.world.probe_mesh import Drop, ProbeMesh, with_addresses
from lab.world.probe_times import Queue
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import Message, ProbeReport
from tests.worlds.observations import at
from tests.worlds.small_world import ROUND_S, Seconds, SmallWorld


def probed(inventory: Inventory) -> tuple[Inventory, Topology]:
    """Return an inventory with addresses, and its topology."""
    with_ports = with_addresses(inventory)
    return with_ports, Topology(with_ports)


@dataclass
class ProbeWorld(SmallWorld):
    """Faults that only probes show, by the port into which a link drops, as (share, intervals)."""

    inventory: Inventory = field(default_factory=Inventory)
    dropping: dict[str, tuple[float, list[Seconds]]] = field(default_factory=dict)
    one_flow: frozenset[str] = frozenset()
    """Ports of `dropping` that drop one flow only."""
    queues: dict[str, tuple[float, list[Seconds]]] = field(default_factory=dict)
    """Ports before which packets wait, as (microseconds, intervals)."""
    slow_hosts: dict[str, tuple[float, list[Seconds]]] = field(default_factory=dict)
    """Hosts whose own probes all take longer, as (microseconds, intervals)."""
    stopped: dict[str, list[Seconds]] = field(default_factory=dict)
    """Hosts that answer no probe and send none."""
    seed: int = 7

    def drops(self) -> Iterator[Drop]:
        """Yield the drops of all faults."""
        for name, (share, intervals) in self.dropping.items():
            for begin, end in intervals:
                yield Drop(Port(*name.split("/", 1)), Interval(at(begin), at(end)), share, name in self.one_flow)
        for host, intervals in self.stopped.items():
            for link in self.inventory.links:
                if link.a_device == host:
                    yield from (Drop(link.a, Interval(at(begin), at(end)), 1.0) for begin, end in intervals)

    def other_messages(self, until: float) -> Iterator[Message]:
        """Yield the report of each host, every ROUND_S."""
        rng = np.random.default_rng(self.seed)
        mesh = ProbeMesh(self.inventory, list(self.drops()), rng, list(self._queues()))
        for step in range(1, int(until // ROUND_S) + 1):
            t = step * ROUND_S
            for host in mesh.probers:
                if not any(begin < t and t - ROUND_S < end for begin, end in self.stopped.get(host, ())):
                    yield self._slowed(mesh.report(host, at(t)), t)

    def _queues(self) -> Iterator[Queue]:
        for name, (delay_us, intervals) in self.queues.items():
            for begin, end in intervals:
                yield Queue(Port(*name.split("/", 1)), Interval(at(begin), at(end)), round(1000 * delay_us))

    def _slowed(self, report: ProbeReport, t: float) -> ProbeReport:
        """Return the report with the times that a slow host adds itself."""
        delay_us, intervals = self.slow_hosts.get(report.device, (0.0, []))
        if not any(begin < t <= end for begin, end in intervals):
            return report
        return replace(report, flow_rtt_p50_ns=tuple(one + round(1000 * delay_us) for one in report.flow_rtt_p50_ns))
