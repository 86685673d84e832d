"""Bounds the ports that only events name: an invented name would take memory for as long as evidence is retained."""

from collections import Counter
from typing import TYPE_CHECKING

from streams.detect.measure.storage.reading_store import MAX_DEVICE_ROWS
from streams.fabric.topology import Topology
from streams.wire.models import Event

if TYPE_CHECKING:
    from streams.fabric.ids import Port

MAX_PORTS = 65_536
"""Ports of a partition that events named and the inventory does not, over all devices."""


class EventPorts:
    """The ports of one partition that events named and the inventory does not; a restart forgets them."""

    def __init__(self) -> None:
        self._ports: set[Port] = set()
        self._counts: Counter[str] = Counter()

    def admits(self, event: Event, topology: Topology) -> bool:
        """Return whether an event is processed: its port is known, or there is room for another one."""
        port = topology.resolve_port(event.device, event.port)
        if not event.port or port in self._ports or topology.link_at(port) is not None:
            return True
        if len(self._ports) >= MAX_PORTS or self._counts[port.device] >= MAX_DEVICE_ROWS:
            return False
        self._ports.add(port)
        self._counts[port.device] += 1
        return True
