"""The Facts that the devices of the small fabric report: LLDP neighbors and versions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from lab.world.effects import Interval
from lab.world.faults.devices import OtherVersion
from lab.world.faults.links import SwappedCables
from lab.world.ground_truth import PlacedFault
from streams.fabric.ids import Port
from streams.wire.models import Component, Facts, Message, Neighbor, Source
from tests.worlds.observations import GNMI, at
from tests.worlds.small_world import Seconds, SmallWorld

FACTS_S = 60
NIC_MODEL = "MCX755106AS"
END_S = 1e9


@dataclass
class FactsWorld(SmallWorld):
    """Faults of cables and versions."""

    swapped: dict[tuple[str, str], list[Seconds]] = field(default_factory=dict)
    """Pairs of ports whose cables are swapped."""
    no_lldp: frozenset[str] = frozenset()
    """Devices without LLDP."""
    firmware: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """By host, from when its NICs run which version; before that `28.41.1000`."""
    software: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """By switch, from when it runs which version; before that `4.30.1F`."""

    def other_messages(self, until: float) -> Iterator[Message]:
        """Yield the Facts of all devices, every FACTS_S."""
        for step in range(int(until // FACTS_S) + 1):
            for device in self.topology.links_of:
                if not self.is_silent(device, step * FACTS_S):
                    yield self.facts(device, step * FACTS_S + 0.5)

    def placed_faults(self) -> Iterator[PlacedFault]:
        """Yield the faults of all fields."""
        yield from super().placed_faults()
        for pair, intervals in self.swapped.items():
            one, other = (self.link_at(Port(*name.split("/", 1))) for name in pair)
            yield from (SwappedCables(one, other, Interval(at(begin), at(end))) for begin, end in intervals)
        for device, changes in (*self.firmware.items(), *self.software.items()):
            for (since, version), (until, _) in pairwise((*changes, (END_S, ""))):
                yield OtherVersion((device,), Interval(at(since), at(until)), version)

    def facts(self, device: str, t: float, source: Source = GNMI) -> Facts:
        own, now_ns = self.topology.devices[device], at(t)
        nics, ports = own.kind == "host", self.ports_of(device)
        far_ends = [(port, self.fabric.neighbor(device, port, now_ns)) for port in ports if device not in self.no_lldp]
        neighbors = (Neighbor(port, *far) for port, far in far_ends if far.device not in self.no_lldp)
        running = self.fabric.version(device, "28.41.1000" if nics else "4.30.1F", now_ns)
        components = (Component(port, "nic", NIC_MODEL, f"{device}-{port}", running) for port in ports if nics)
        return Facts(
            device, now_ns, source, vendor=own.vendor or "Maker", model=own.model or "Model",
            os_version="5.15" if nics else running, components=tuple(components), neighbors=tuple(neighbors),
        )  # fmt: skip


def lldp_facts(port: str, remote: str, t: float, source: Source = GNMI) -> Facts:
    """Return the Facts of a device with one LLDP neighbor."""
    (device, own), (far, other) = port.split("/", 1), remote.split("/", 1)
    return Facts(device, at(t), source, neighbors=(Neighbor(own, far, other),))
