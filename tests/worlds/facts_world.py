"""The small fabric as its devices describe themselves (Facts): who they hear at their ports, and what they run."""

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
    """What goes wrong with cables and versions."""

    swapped: dict[tuple[str, str], list[Seconds]] = field(default_factory=dict)
    """Two ports whose cables have changed places."""
    no_lldp: frozenset[str] = frozenset()
    """Devices that hear nobody."""
    firmware: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Host -> from when its NICs run what, instead of `28.41.1000`."""
    software: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Switch -> from when it runs what, instead of `4.30.1F`."""

    def other_messages(self, until: float) -> Iterator[Message]:
        """What all devices say of themselves, again and again."""
        for step in range(int(until // FACTS_S) + 1):
            for device in self.topology.links_of:
                if not self.is_silent(device, step * FACTS_S):
                    yield self.facts(device, step * FACTS_S + 0.5)

    def facts(self, device: str, t: float, source: Source = GNMI) -> Facts:
        """One device's word."""
        own = self.topology.devices[device]
        ports = self._ports(device)
        heard = () if device in self.no_lldp else (self._neighbor(port, t) for port in ports)
        nics = own.kind == "host"
        return Facts(
            device, at(t), source, vendor=own.vendor or "Maker", model=own.model or "Model",
            os_version="5.15" if nics else _at(self.software.get(device), t, "4.30.1F"),
            components=tuple(self._nic(port, t) for port in ports if nics),
            neighbors=tuple(each for each in heard if each is not None),
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
        # Of a cable that was moved, the other end hears where it was moved to.
        far = self._moved(cable.far_end(moved), t)
        return None if far.device in self.no_lldp else Neighbor(port.port, far.device, far.port)

    def _moved(self, port: Port, t: float) -> Port:
        """The port whose cable is in this one."""
        for pair, spans in self.swapped.items():
            names = [Port(*name.split("/", 1)) for name in pair]
            if port in names and any(begin <= t < end for begin, end in spans):
                return names[1 - names.index(port)]
        return port


def _at(changes: list[tuple[float, str]] | None, t: float, otherwise: str) -> str:
    return next((version for since, version in reversed(changes or ()) if t >= since), otherwise)


def lldp_facts(port: str, remote: str, t: float, source: Source = GNMI) -> Facts:
    """A device hears one neighbour, and no other."""
    (device, own), (far, other) = port.split("/", 1), remote.split("/", 1)
    return Facts(device, at(t), source, neighbors=(Neighbor(own, far, other),))
