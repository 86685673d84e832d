"""Publishes what `measure` would publish about a fabric's ports: states, heartbeats, and readings of drained links."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from lab.world.health_noise import Fault
from streams.fabric.ids import Port
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    Condition,
    PortQuality,
    PortReadings,
    PortState,
    PortStates,
    ReadingsHeartbeat,
    Source,
)

HEARTBEAT_NS, READINGS_NS = 10 * 10**9, 60 * 10**9
_SHARD = 0
_BER, _BER_LIMIT = 1e-9, 5e-6
_SPEED_BPS = 10**11
"""The speed of a link without a speed in the inventory."""


@dataclass(slots=True)
class _Device:
    ports: tuple[str, ...]
    index: dict[str, int]
    states: bytearray
    since_ns: dict[int, int]


class PortFeed:
    """The ports of all devices, read by one shard; a link that is down is down at both ends."""

    def __init__(self, topology: Topology, start_ns: int) -> None:
        self._topology, self._start_ns = topology, start_ns
        self.watched: set[str] = set()
        """Links whose readings are published."""
        self._devices: dict[str, _Device] = {}
        for device, links in topology.links_of.items():
            ports = tuple(end.port for link in links for end in (link.lower, link.upper) if end.device == device)
            states = bytearray([PortState.UP] * len(ports))
            self._devices[device] = _Device(ports, {port: i for i, port in enumerate(ports)}, states, {})
        self._next_heartbeat_ns = self._next_readings_ns = start_ns

    def begin(self) -> Iterator[PortStates]:
        """Yield the states of all devices."""
        return (self._states(device, self._start_ns) for device in self._devices)

    def advance(self, now_ns: int) -> Iterator[ReadingsHeartbeat | PortQuality]:
        """Yield the due heartbeat and readings."""
        if now_ns >= self._next_heartbeat_ns:
            self._next_heartbeat_ns = now_ns + HEARTBEAT_NS
            yield ReadingsHeartbeat(_SHARD, now_ns)
        if now_ns >= self._next_readings_ns:
            begin_ns, self._next_readings_ns = (
                self._next_readings_ns - READINGS_NS,
                self._next_readings_ns + READINGS_NS,
            )
            yield from self._readings(begin_ns, begin_ns + READINGS_NS)

    def change(self, fault: Fault, at_ns: int, *, is_over: bool) -> Iterator[PortStates]:
        """Yield the states of both ends of a link whose fault starts or ends."""
        link = self._topology.links.get(fault.subject.id)
        if link is None or fault.condition not in (Condition.LINK_DOWN, Condition.LINK_FLAP):
            return
        is_down = fault.condition is Condition.LINK_DOWN and not is_over
        for end in (link.lower, link.upper):
            yield self._change(end, PortState.DOWN if is_down else PortState.UP, at_ns)

    def _change(self, end: Port, state: PortState, at_ns: int) -> PortStates:
        device = self._devices[end.device]
        index = device.index[end.port]
        device.states[index] = state
        device.since_ns[index] = at_ns
        return self._states(end.device, at_ns)

    def _states(self, name: str, at_ns: int) -> PortStates:
        own = self._devices[name]
        return PortStates(
            name, Source.SOURCE_GNMI, _SHARD, at_ns, 0, self._start_ns - 3600 * 10**9, own.ports, bytes(own.states),
            tuple(own.since_ns), tuple(own.since_ns.values()),
        )  # fmt: skip

    def _readings(self, begin_ns: int, end_ns: int) -> Iterator[PortQuality]:
        """Yield error-free readings of all watched links; a link that is down has none."""
        by_device: defaultdict[str, list[tuple[str, TopologyLink]]] = defaultdict(list)
        for identity in sorted(self.watched):
            link = self._topology.links[identity]
            for end in (link.lower, link.upper):
                device = self._devices[end.device]
                if device.states[device.index[end.port]] == PortState.UP:
                    by_device[end.device].append((end.port, link))
        for name, ports in by_device.items():
            seconds = (end_ns - begin_ns) / 1e9
            readings = (
                PortReadings(
                    port, begin_ns, end_ns, (link.speed_bps or _SPEED_BPS) * seconds, _BER_LIMIT, _BER, None, 0.0
                )
                for port, link in ports
            )
            yield PortQuality(name, Source.SOURCE_GNMI, tuple(readings))
