"""Simulates a fabric that can be read at any moment: the counters and states of ports, and the devices' reports.

The world is a function of (inventory, faults, seed, configuration, repairs, time): both ends of a link always agree,
and reading twice or in any order gives the same values. From any moment on, the configuration of ports can be changed
and a bad link repaired. Counters are sums of rates over intervals, without noise; a device's counters start at zero
when it boots. The detection benchmark reads poll after poll, with noise, from world.py instead.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from lab.world.bad_links import BadLink, BadLinkState, Repair
from lab.world.columns import FRAME_BYTES, LANES, Column
from lab.world.demo_links import CabledLink, DeviceState, PortState, UplinkGroup, covers, merge
from lab.world.effects import (
    BitErrors,
    CablesSwapped,
    ClockShift,
    CounterIncrement,
    CounterReset,
    EmitEvent,
    GaugeOverride,
    Interval,
    NotPolled,
    Rebooting,
    SignalLoss,
    TrafficReduction,
    TrafficShift,
    VersionChange,
)
from lab.world.fabric_arrays import fabric_arrays
from lab.world.facts_source import NIC, OPTICS, SOFTWARE
from lab.world.ground_truth import AnyFault, effects_of
from lab.world.port_configuration import Policies, PortConfiguration, Setting
from lab.world.probe_mesh import REPORTED_AFTER_NS, Drop, ProbeAgents, drops_of
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import NO_INDEX, Event, EventKind, ProbeReport

_S = 1_000_000_000
_DAY = 86_400 * _S
_LOAD = (0.46, 0.48)
"""The share of its speed that a link carries each way: a healthy fabric stays within 3 % (DETECTION 3)."""
_FCS_PER_LOSS = 3
"""Frames with a bad checksum at each loss of signal: the last frames before the loss."""
_PACKETS_OF = {Metric.RX_PACKETS: Metric.RX_BYTES, Metric.TX_PACKETS: Metric.TX_BYTES}

_SESSION_LOST = 0.5
"""The share of lost packets above which three consecutive hellos are lost within seconds, as BFD waits (RFC 5880)."""


class LinkEnabled(Exception):
    """Raised for the repair of a link whose ends are both enabled."""


class DemoWorld:
    """The fabric with its faults at any moment."""

    def __init__(
        self,
        inventory: Inventory,
        faults: Sequence[AnyFault],
        seed: int,
        start_ns: int,
        bad_links: Sequence[BadLink] = (),
        bytes_per_s: int | None = None,
    ) -> None:
        """Create it; each end of a link sends `bytes_per_s`, or a random share of the link's speed."""
        self.inventory = inventory
        self.faults = tuple(faults)
        self.bad_links = {bad.link.a: BadLinkState(bad) for bad in bad_links}
        self._rng = random.Random(seed)  # noqa: S311 — a simulated world
        self._bytes_per_s = bytes_per_s
        self._booted = {device.name: start_ns - self._rng.randint(3, 90) * _DAY for device in inventory.devices}
        self._fabric = fabric_arrays(inventory)
        self._effects = effects_of(faults, self._fabric)
        self._reboots = self._of_devices(Rebooting)
        self._not_polled = self._of_devices(NotPolled)
        self._resets = self._of_devices(CounterReset)
        self._disabled: dict[Port, tuple[Interval, ...]] = defaultdict(tuple)
        self._signal_losses: dict[int, list[SignalLoss]] = defaultdict(list)
        self._increments: dict[Port, list[CounterIncrement | BitErrors]] = defaultdict(list)
        self._overrides: dict[Port, list[GaugeOverride]] = defaultdict(list)
        self._swaps = [effect for effect in self._effects if isinstance(effect, CablesSwapped)]
        self._versions = [effect for effect in self._effects if isinstance(effect, VersionChange)]
        self._clock_shifts = [effect for effect in self._effects if isinstance(effect, ClockShift)]
        self._index_port_effects()
        self.configuration = PortConfiguration()
        self._links: dict[Port, CabledLink] = {}
        self._groups: dict[tuple[str, int | None], UplinkGroup] = defaultdict(UplinkGroup)
        for link in inventory.links:
            self._links[link.a] = self._links[link.z] = cabled = self._cabled_link(link)
            self._group(link).members.append(cabled)
        self._add_traffic_effects()

    def _index_port_effects(self) -> None:
        for effect in self._effects:
            match effect:
                case SignalLoss(link=number, interval=interval, disabled_port=disabled):
                    self._signal_losses[number].append(effect)
                    if disabled is not None:
                        port = self._fabric.port(disabled)
                        self._disabled[port] = merge((*self._disabled[port], interval))
                case CounterIncrement(port=number) | BitErrors(port=number):
                    self._increments[self._fabric.port(number)].append(effect)
                case GaugeOverride(port=number):
                    self._overrides[self._fabric.port(number)].append(effect)
                case _:
                    pass

    def _of_devices(self, kind: type[Rebooting | NotPolled | CounterReset]) -> dict[str, tuple[Interval, ...]]:
        found: dict[str, tuple[Interval, ...]] = {}
        for effect in self._effects:
            if isinstance(effect, Rebooting | NotPolled | CounterReset) and isinstance(effect, kind):
                name = self._fabric.devices[effect.device]
                found[name] = merge((*found.get(name, ()), effect.interval))
        return found

    def _cabled_link(self, link: Link) -> CabledLink:
        effects = self._signal_losses.get(self._fabric.link_number(link), ())
        losses = merge(effect.interval for effect in effects if effect.disabled_port is None)
        disabled = (effect.interval for effect in effects if effect.disabled_port is not None)
        reboots = (*self._reboots.get(link.a_device, ()), *self._reboots.get(link.z_device, ()))
        line = (link.speed_bps or 0) // 8
        rates = {end: self._bytes_per_s or int(line * self._rng.uniform(*_LOAD)) for end in (link.a, link.z)}
        down = merge((*losses, *reboots, *disabled))
        return CabledLink(link, losses, down, rates, {link.a: [], link.z: []}, self.bad_links.get(link.a))

    def _group(self, link: Link) -> UplinkGroup:
        return self._groups[link.a_device, link.rail]

    def configure(self, port: Port, setting: Setting, value: bool | Policies, at_ns: int) -> tuple[str, ...]:
        """Change a setting of a port from a moment on; return the devices on which a port changed."""
        if not self.configuration.set(port, setting, value, at_ns):
            return ()
        cabled = self._links[port]
        cabled.configure(self.configuration, at_ns)
        return (cabled.link.a_device, cabled.link.z_device)

    def link_between(self, one: Port, other: Port) -> Link | None:
        """Return the link with these two ends; None if there is none."""
        cabled = self._links.get(one)
        return cabled.link if cabled is not None and {cabled.link.a, cabled.link.z} == {one, other} else None

    def repair(self, link: Link, at_ns: int) -> Repair | None:
        """Repair the next part of a link at a moment; None if the link has no bad part.

        Raises LinkEnabled if both ends are enabled, because a repair takes the link down.
        """
        cabled = self._links[link.a]
        if not covers(cabled.configured_down, at_ns):
            raise LinkEnabled(f"{link.a.device}/{link.a.port} and {link.z.device}/{link.z.port} are enabled")
        return cabled.repair(at_ns)

    def _add_traffic_effects(self) -> None:
        for effect in self._effects:
            if not isinstance(effect, TrafficReduction | TrafficShift):
                continue
            ends = [self._fabric.port(number) for number in self._fabric.links[effect.link].tolist()]
            cabled = self._links[ends[0]]
            sender = None if effect.sent_by is None else self._fabric.port(effect.sent_by)
            for end in ends if sender is None else [sender]:
                if isinstance(effect, TrafficReduction):
                    share = effect.share - 1
                else:
                    shifted = effect.utilization * (cabled.link.speed_bps or 0) / 8
                    share = shifted / max(cabled.bytes_per_s[end], 1) - 1
                cabled.shares[end].append((effect.interval, share))

    @cached_property
    def ports(self) -> dict[str, tuple[str, ...]]:
        """Return the connected ports of each device, in the order of their numbers."""
        found: dict[str, list[str]] = defaultdict(list)
        for port in self._links:
            found[port.device].append(port.port)
        return {device: tuple(sorted(names, key=lambda n: (len(n), n))) for device, names in found.items()}

    @property
    def switches(self) -> tuple[str, ...]:
        """Return the switches, which are served over gNMI and SNMP."""
        return tuple(device.name for device in self.inventory.devices if device.kind == "switch")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts, whose NICs are the lower ends of links."""
        return tuple(device.name for device in self.inventory.devices if device.kind == "host")

    def device(self, name: str, at_ns: int) -> DeviceState:
        """Return a device at a moment."""
        boots = [interval.end_ns for interval in self._reboots.get(name, ()) if interval.end_ns <= at_ns]
        return DeviceState(name, not covers(self.unreachable(name), at_ns), max(boots, default=self._booted[name]))

    def clock_ns(self, name: str, at_ns: int) -> int:
        """Return the time by a device's clock at a moment."""
        shifts = [effect for effect in self._clock_shifts if self._fabric.devices[effect.device] == name]
        return at_ns + sum(round(shift.offset_s * _S) for shift in shifts if shift.interval.contains(at_ns))

    def reboots(self, name: str) -> tuple[Interval, ...]:
        """Return the intervals in which a device reboots."""
        return self._reboots.get(name, ())

    def unreachable(self, name: str) -> tuple[Interval, ...]:
        """Return the intervals in which a device does not answer: it reboots, or is not polled."""
        return merge((*self._reboots.get(name, ()), *self._not_polled.get(name, ())))

    def port(self, device: str, name: str, at_ns: int) -> PortState:
        """Return a port at a moment; a port of a rebooting device counts nothing."""
        port = Port(device, name)
        cabled = self._links[port]
        boot_ns = self.device(device, at_ns).boot_ns
        resets = [interval.start_ns for interval in self._resets.get(device, ()) if interval.start_ns <= at_ns]
        since_ns = max(boot_ns, *resets) if resets else boot_ns
        edges = [edge_ns for edge_ns, _ in self.transitions(port) if boot_ns < edge_ns <= at_ns]
        errors = [effect for effect in self._increments.get(port, ()) if isinstance(effect, BitErrors)]
        speed = self.gauge(port, Metric.SPEED_BPS, at_ns, float(cabled.link.speed_bps or 0))
        return PortState(
            name, int(speed), self.is_enabled(port, at_ns), self.is_up(port, at_ns),
            edges[-1] if edges else boot_ns, len(edges), self._counters(port, cabled, since_ns, at_ns),
            errors[-1].lane or 0 if errors else 0,
        )  # fmt: skip

    def is_up(self, port: Port, at_ns: int) -> bool:
        """Return True if the link of a port has a signal."""
        return not covers(self._links[port].down, at_ns)

    def transitions(self, port: Port) -> list[tuple[int, bool]]:
        """Return the times at which the link of a port goes down (False) or comes up (True), in order."""
        return [(at_ns, bool(edge)) for interval in self._links[port].down for edge, at_ns in enumerate(interval)]

    def is_enabled(self, port: Port, at_ns: int) -> bool:
        """Return True if a port is not shut by configuration."""
        is_enabled = self.configuration.value(port, Setting.ENABLED, at_ns) is True
        return is_enabled and not covers(self._disabled.get(port, ()), at_ns)

    def _sent_bytes(self, cabled: CabledLink, sender: Port, from_ns: int, until_ns: int) -> int:
        return self._group(cabled.link).sent_bytes(cabled, sender, from_ns, until_ns)

    def _counters(self, port: Port, cabled: CabledLink, since_ns: int, at_ns: int) -> dict[Column, int]:
        far = cabled.link.z if port == cabled.link.a else cabled.link.a
        counters: dict[Column, int] = defaultdict(int)
        counters[Metric.RX_BYTES, NO_INDEX] = self._sent_bytes(cabled, far, since_ns, at_ns)
        counters[Metric.TX_BYTES, NO_INDEX] = self._sent_bytes(cabled, port, since_ns, at_ns)
        for packets, octets in _PACKETS_OF.items():
            counters[packets, NO_INDEX] = counters[octets, NO_INDEX] // FRAME_BYTES
        counters[Metric.RX_BITS, NO_INDEX] = 8 * counters[Metric.RX_BYTES, NO_INDEX]
        losses = sum(1 for interval in cabled.losses if since_ns < interval.start_ns <= at_ns)
        counters[Metric.RX_FCS_ERRORS, NO_INDEX] = _FCS_PER_LOSS * losses
        for effect in self._increments.get(port, ()):
            start_ns, end_ns = max(effect.interval.start_ns, since_ns), min(effect.interval.end_ns, at_ns)
            if end_ns <= start_ns:
                continue
            if isinstance(effect, BitErrors):
                bits = 8 * cabled.offered_bytes(far, start_ns, end_ns)  # an idle link has codewords as well
                counters[Metric.FEC_CORRECTED_BITS, NO_INDEX] += int(effect.ber * bits)
                counters[Metric.LANE_RAW_ERRORS, (effect.lane or 0) % LANES] += int(effect.ber * bits)
                continue
            amount = effect.per_s * cabled.up_ns(effect.interval, start_ns, end_ns) / _S
            if effect.of_metric is not None:
                of_bytes = _PACKETS_OF.get(effect.of_metric, effect.of_metric)
                sender = far if of_bytes is Metric.RX_BYTES else port
                of_frames = self._sent_bytes(cabled, sender, start_ns, end_ns) / FRAME_BYTES
                amount += effect.share * (of_frames if effect.of_metric in _PACKETS_OF else of_frames * FRAME_BYTES)
            counters[effect.metric, effect.index] += int(amount)
        return counters

    def gauge(self, port: Port, metric: Metric, at_ns: int, usual: float) -> float:
        """Return the reading of a gauge from its usual reading."""
        for effect in self._overrides.get(port, ()):
            if effect.metric is metric and effect.interval.contains(at_ns):
                return effect.reading(usual, at_ns)
        return usual

    def drops(self) -> list[Drop]:
        """Return the causes of lost probes: links that drop packets, and links of hosts while they are down."""
        links = (self._links[link.a] for link in self.inventory.links if link.role == HOST_LINK)
        down = [Drop(cabled.link.a, interval, 1.0) for cabled in links for interval in cabled.down]
        return [*drops_of(self._effects, (), self._fabric), *down]

    @cached_property
    def _sessions_down(self) -> dict[Port, list[Interval]]:
        """The times in which the sessions over a link that is up are down: at both ends of a link that drops."""
        found: dict[Port, list[Interval]] = defaultdict(list)
        for drop in drops_of(self._effects, (), self._fabric):
            if drop.share >= _SESSION_LOST and not drop.one_flow:
                link = self._links[drop.port].link
                found[link.a].append(drop.interval)
                found[link.z].append(drop.interval)
        return found

    def is_session_up(self, device: str, name: str, at_ns: int) -> bool:
        """Return True if the BFD and BGP sessions over a link are up."""
        port = Port(device, name)
        return self.is_up(port, at_ns) and not covers(self._sessions_down.get(port, ()), at_ns)

    def gpu_events(self, host: str) -> list[Event]:
        """Return the Xid events of a host's GPUs, in order."""
        events = (effect.message for effect in self._effects if isinstance(effect, EmitEvent))
        xids = [e for e in events if isinstance(e, Event) and e.kind is EventKind.GPU_XID and e.device == host]
        return sorted(xids, key=lambda event: event.at_ns)

    def neighbor(self, device: str, name: str, at_ns: int) -> Port:
        """Return the far end of the cable in a port."""
        port = Port(device, name)
        link = self._links[port].link
        is_near = link.a == port
        number = self._fabric.link_number(link)
        for swap in self._swaps:
            if number in swap.links and swap.interval.contains(at_ns):
                other = swap.links[1] if number == swap.links[0] else swap.links[0]
                link = self._links[self._fabric.port(int(self._fabric.links[other][0]))].link
                break
        return link.z if is_near else link.a

    def version(self, device: str, usual: str, at_ns: int) -> str:
        """Return the version of a host's NICs or of a switch, `usual` if it was not changed.

        A switch of the demo reports one version, its software's, which also shows a change of its transceivers.
        """
        number = self._fabric.device_number(device)
        kinds = (NIC,) if self._fabric.is_host[number] else (SOFTWARE, OPTICS)
        changed = (
            effect.version
            for effect in self._versions
            if number in effect.devices and effect.kind in kinds and effect.interval.contains(at_ns)
        )
        return next(changed, usual)

    def changes(self, device: str) -> tuple[int, ...]:
        """Return every moment at which a state of one of the device's ports changes, in order."""
        moments: set[int] = set()
        for name in self.ports.get(device, ()):
            port = Port(device, name)
            for interval in (*self._links[port].down, *self._disabled.get(port, ())):
                moments.update(interval)
        return tuple(sorted(moments))


class DemoProbes:
    """Runs the probers of all hosts of a world from a moment on; no packets travel through its fabric."""

    def __init__(self, world: DemoWorld, seed: int, start_ns: int) -> None:
        self._world = world
        self._names = fabric_arrays(world.inventory).devices
        self._agents = ProbeAgents(world.inventory, fabric_arrays(world.inventory), (), seed)
        self._reported_ns = start_ns

    def due(self, now_ns: int) -> Iterator[ProbeReport]:
        """Yield the reports of the windows that ended since the last call, with their last replies."""
        begin_ns, self._reported_ns = self._reported_ns, max(self._reported_ns, now_ns - REPORTED_AFTER_NS)
        self._agents.mesh.drops = self._world.drops()
        for _, report in self._agents.reports(begin_ns, self._reported_ns, self._is_silent, self._skew_ns):
            yield report

    def _is_silent(self, host: int, at_ns: int) -> bool:
        return not self._world.device(self._names[host], at_ns).is_up

    def _skew_ns(self, host: int, at_ns: int) -> int:
        return self._world.clock_ns(self._names[host], at_ns) - at_ns
