"""The Facts that the devices of the small fabric report: LLDP neighbors and versions."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from streams.fabric.ids import Port
from streams.wire.models import Component, Facts, Message, Neighbor, Source
from tests.worlds.observations import GNMI, at
from tests.worlds.small_world import Seconds, SmallWorld

FACTS_S = 60
NIC_MODEL = "MCX755106AS"


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

    def facts(self, device: str, t: float, source: Source = GNMI) -> Facts:
        """Return the Facts of one device."""
        own = self.topology.devices[device]
        ports = self._ports(device)
        neighbors_of = () if device in self.no_lldp else (self._neighbor(port, t) for port in ports)
        nics = own.kind == "host"
        return Facts(
            device, at(t), source, vendor=own.vendor or "Maker", model=own.model or "Model",
            os_version="5.15" if nics else _at(self.software.get(device), t, "4.30.1F"),
            components=tuple(self._nic(port, t) for port in ports if nics),
            neighbors=tuple(each for each in neighbors_of if each is not None),
        )  # fmt: skip

    def _nic(self, port: Port, t: float) -> Component:
        running = _at(self.firmware.get(port.device), t, "28.41.1000")
        return Component(port.port, "nic", NIC_MODEL, f"{port.device}-{port.port}", running)

    def _ports(self, device: str) -> list[Port]:
        cables = self.topology.links_of[device]
        return [end for cable in cables for end in (cable.lower, cable.upper) if end.device == device]

    def _neighbor(self, port: Port, t: float) -> Neighbor | None:
        moved = self._moved(port, t)
        cable = self.topology.link_at(moved)
        assert cable is not None
        # The other end of a moved cable receives the LLDP of the port to which it was moved.
        far = self._moved(cable.far_end(moved), t)
        return None if far.device in self.no_lldp else Neighbor(port.port, far.device, far.port)

    def _moved(self, port: Port, t: float) -> Port:
        """Return the port whose cable is in this one."""
        for pair, intervals in self.swapped.items():
            names = [Port(*name.split("/", 1)) for name in pair]
            if port in names and any(begin <= t < end for begin, end in intervals):
                return names[1 - names.index(port)]
        return port


def _at(changes: list[tuple[float, str]] | None, t: float, otherwise: str) -> str:
    return next((version for since, version in reversed(changes or ()) if t >= since), otherwise)


def lldp_facts(port: str, remote: str, t: float, source: Source = GNMI) -> Facts:
    """Return the Facts of a device with one LLDP neighbor."""
    (device, own), (far, other) = port.split("/", 1), remote.split("/", 1)
    return Facts(device, at(t), source, neighbors=(Neighbor(own, far, other),))
