"""Assigns lines to devices by the sender's address, its certificate, or the name in the line. Refuses all others."""

from collections.abc import Iterable, Mapping

import structlog

from collectors.core.context import CollectorContext, Emitter, StatusReporter
from collectors.dialout.params import Peer, Target, candidates
from collectors.syslog.device import Arrival, LineShare, SyslogDevice
from collectors.syslog.lines import Line, host_name, parse
from collectors.syslog.params import Params
from collectors.syslog.port_names import PortNames, known_ports
from streams.fabric.inventory import Inventory
from streams.fabric.name_resolution import NameResolver
from streams.fabric.topology import Topology
from streams.wire.errors import Reject

_log = structlog.get_logger("railsight.syslog")

_STATUS_S = 60.0
_REFUSED = "unknown senders"
_MOST_ADDRESSES = 4096
"""Limit of addresses whose targets are remembered."""


class Receiver:
    """The devices of one process."""

    def __init__(self, params: Params, context: CollectorContext, emitter: Emitter) -> None:
        self._params = params
        self._metrics = context.metrics
        self._clock = context.clock
        self._emitter = emitter
        self._targets: tuple[Target, ...] = ()
        self._by_address: dict[str, Target | None] = {}
        self._by_host: dict[str, str] = {}
        self._zones: dict[str, str] = {}
        self._ports: Mapping[str, Mapping[str, str]] = {}
        self._topology = Topology(Inventory())
        self._resolver = NameResolver(self._topology)
        self._devices: dict[str, SyslogDevice] = {}
        self._statuses: dict[str, StatusReporter] = {}
        self._relays: dict[str, LineShare] = {}

    def configure(self, targets: Iterable[Target], inventory: Inventory) -> None:
        """Set the targets, and the inventory with the names of devices and ports."""
        self._targets = tuple(targets)
        self._by_address.clear()
        self._by_host = {
            name.lower(): one.name for one in self._targets if not one.relay for name in (one.node_name, one.name)
        }
        self._zones = {one.name: one.zone for one in self._targets}
        topology = Topology(inventory)
        self._topology, self._resolver = topology, NameResolver(topology)
        ends = ((end[0], end[1]) for link in inventory.links for end in (link[:2], link[2:4]))
        self._ports = known_ports(ends, ((one.device, one.port, one.alias) for one in inventory.ports))
        known = {one.name for one in self._targets} | topology.devices.keys()
        self._devices = {name: own for name, own in self._devices.items() if name in known}
        for name, own in self._devices.items():
            own.ports = PortNames(self._ports.get(name))

    @property
    def waits(self) -> bool:
        """True if any event of a line waits."""
        return any(own.waits for own in self._devices.values())

    def sender(self, address: str, names: frozenset[str] = frozenset()) -> Target | None:
        """Return the target that may send from an address, with these names in its certificate; None if none may."""
        if names or address not in self._by_address:
            by_certificate = self._params.client_ca_file is not None and bool(names)
            found = candidates(self._targets, Peer(address, names), by_certificate=by_certificate)
            target = found[0] if len(found) == 1 else next((one for one in found if address in one.addresses), None)
            if target is None and not names and (port := self._topology.addresses.get(address)) is not None:
                target = Target(name=port.device)
            if names:
                return target
            if len(self._by_address) >= _MOST_ADDRESSES:
                self._by_address.clear()
            self._by_address[address] = target
        return self._by_address[address]

    def refuse(self, what: str) -> None:
        """Count what no target may send, and log it at each doubling of the count."""
        self._metrics.add("not_admitted", _REFUSED)
        count = self._metrics.value("not_admitted", _REFUSED)
        if count.bit_count() == 1:
            _log.warning(
                "not a target", count=count, newest=what[:200], next="see collect.syslog targets and inventory"
            )

    def receive(self, data: bytes, sender: Target | None, arrival: Arrival) -> None:
        """Process one line; without a `sender` it names its device, as the lines of files and topics."""
        device: SyslogDevice | None = None
        if sender is not None and not sender.relay:
            device = self._device(sender.name)
            if not device.share.admits(arrival.now_s):
                return
        elif sender is not None and not self._relay(sender.name).admits(arrival.now_s):
            return
        try:
            line = parse(data)
        except Reject:
            self._metrics.add("unreadable", arrival.path if sender is None else sender.name)
            return
        if device is None:
            device = self._named(line)
            if device is None:
                self.refuse(f"host {line.host or 'without a name'} in lines of {arrival.path}")
                return
            device.relay = None if sender is None else (sender.name, self._relay(sender.name))
            if not device.share.admits(arrival.now_s):
                return
        device.add(line, arrival)

    def flush(self, now_s: float) -> None:
        """Publish delayed events that are due, and statuses."""
        now_ns = self._clock.now_ns()
        for name, own in self._devices.items():
            own.flush(now_ns, now_s)
            if own.newest_ns:
                status = self._statuses.setdefault(
                    name, StatusReporter(self._emitter, name, _STATUS_S, _STATUS_S, self._clock)
                )
                if own.newest_ns != status.last_sample_ns:
                    status.sampled(own.newest_ns)
                status.report(reachable=True, error=own.report(now_s), unknown_lines=own.unknown_lines)

    def end(self) -> None:
        """Publish all delayed events."""
        for own in self._devices.values():
            own.end(self._clock.now_ns())

    def _relay(self, name: str) -> LineShare:
        params, factor = self._params, self._params.relay_factor
        if name not in self._relays:
            limits = factor * params.lines_per_s, factor * params.lines_burst
            self._relays[name] = LineShare(name, *limits, self._metrics)
        return self._relays[name]

    def _device(self, name: str) -> SyslogDevice:
        own = self._devices.get(name)
        if own is None:
            ports = PortNames(self._ports.get(name))
            own = SyslogDevice(name, self._zones.get(name, ""), ports, self._params, self._metrics, self._emitter)
            self._devices[name] = own
        return own

    def _named(self, line: Line) -> SyslogDevice | None:
        """Return the device that a line names: by a target's name or address, or by the inventory."""
        if line.peer and (target := self.sender(line.peer)) is not None and not target.relay:
            return self._device(target.name)
        host = host_name(line.host)
        if not host:
            return None
        name = self._by_host.get(host.lower()) or self._by_host.get(host.lower().partition(".")[0])
        if name is None and (target := self.sender(host)) is not None and not target.relay:
            name = target.name
        name = name or self._resolver.resolve_device(host)
        return None if name is None else self._device(name)
