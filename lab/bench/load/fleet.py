"""Plays every device of a fabric: the times of its readings, the changes by faults, and the collectors' reports.

Devices of one source and one number of ports form a group (group.py). player.py sends the messages.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lab.bench.load.encoding import FIRST_SEQUENCE, stamp
from lab.bench.load.group import Group, Reader
from lab.bench.load.injected_effects import InjectedEffects
from lab.world.effects import ClockShift, CounterReset, Effect, EmitEvent, NotPolled, Rebooting, SignalLoss
from lab.world.fabric_arrays import FabricArrays
from lab.world.ground_truth import InjectedFault
from lab.world.probe_mesh import ProbeAgents, drops_of
from streams.fabric.inventory import Inventory
from streams.wire.codec import to_bytes
from streams.wire.models import Event, EventKind, Facts, ProbeReport, Source

STATUS_INTERVAL_S = 60.0
"""The interval at which a collector reports the status of a target; a test compares it with the collectors' own."""
_PROBES_SEED = 1
COLLECTORS = {Source.SOURCE_NIC: "nic", Source.SOURCE_GNMI: "gnmi"}


@dataclass(frozen=True, slots=True)
class Encoded:
    """One encoded message, its device, and the number of ports that it reads."""

    device: int
    key: bytes
    value: bytes
    rows: int


@dataclass(slots=True)
class _GroupState:
    """One group: its devices, the times of their readings, and the last reports about each."""

    group: Group
    devices: list[int]
    phases_s: list[float]
    keys: list[bytes]
    status_phases_s: list[float]
    """The times at which each device's status is reported even without a change."""
    status_keys: list[bytes]
    sequence: list[int]
    last_ns: list[int]
    read: int = 0
    stated: int = 0
    changed: list[int] = field(default_factory=list)
    """Devices whose status is to be reported at once."""


@dataclass(slots=True)
class PlayedFault:
    """One fault as it was played, with the times of its changes as sent."""

    fault: InjectedFault
    at_ns: list[int] = field(default_factory=list)


class Fleet:
    """Plays every device of a fabric. Times are seconds since the start of the load."""

    def __init__(
        self, fabric: FabricArrays, cadence_s: float, rng: np.random.Generator, runs: dict[Source, int],
        faults: Sequence[InjectedFault] = (), inventory: Inventory | None = None,
    ) -> None:  # fmt: skip
        """Create it with faults, whose times are nanoseconds since the start.

        Only with an inventory do faults change the counters and gauges of ports, and do hosts send probes.
        """
        self._fabric = fabric
        self._cadence_s = cadence_s
        self._first_port = fabric.first_port
        self._runs = runs
        self._events = [0] * len(fabric.devices)
        self._unreachable: dict[int, bool] = {}
        """Unreachable devices, with True if the collector reports that."""
        self._clock_ahead_ns: dict[int, int] = {}
        """The error of each wrong device clock."""
        self._position: dict[int, tuple[_GroupState, int]] = {}
        self._groups = self._make_groups(rng)
        self._injected = None if inventory is None else InjectedEffects(fabric, inventory, faults)
        self._probes = None if inventory is None else self._make_probes(faults, inventory)
        self._probed_ns = 1
        self.played = [PlayedFault(fault) for fault in faults]
        self._edges = sorted(
            (
                (at_ns, played, bool(is_end), effect)
                for played in self.played
                for effect in played.fault.effects
                for is_end, at_ns in enumerate(effect.interval)
            ),
            key=lambda edge: edge[0],
        )
        self.last_edge_ns = self._edges[-1][0] if self._edges else 0
        """The time of the last change by a fault."""

    def _make_groups(self, rng: np.random.Generator) -> list[_GroupState]:
        fabric, groups = self._fabric, []
        order = rng.permutation(len(fabric.devices)).tolist()
        phase_s = {device: i * self._cadence_s / len(order) for i, device in enumerate(order)}
        kinds = sorted({(is_host, len(ports)) for is_host, ports in zip(fabric.is_host, fabric.ports, strict=True)})
        for is_host, count in kinds:
            devices = [d for d in order if fabric.is_host[d] is is_host and len(fabric.ports[d]) == count]
            source = Source.SOURCE_NIC if is_host else Source.SOURCE_GNMI
            reader = Reader(source, COLLECTORS[source], self._runs[source], self._cadence_s)
            names = [fabric.devices[d] for d in devices]
            state = _GroupState(
                Group(reader, names, [fabric.ports[d] for d in devices], rng),
                devices,
                [phase_s[d] for d in devices],
                [name.encode() for name in names],
                [phase_s[d] / self._cadence_s * STATUS_INTERVAL_S for d in devices],
                [f"{name}/{source.name}/{reader.collector}".encode() for name in names],
                [FIRST_SEQUENCE] * len(devices),
                [0] * len(devices),
            )
            groups.append(state)
            self._position |= {device: (state, i) for i, device in enumerate(devices)}
        return groups

    def _make_probes(self, faults: Sequence[InjectedFault], inventory: Inventory) -> ProbeAgents:
        effects = [effect for fault in faults for effect in fault.effects]
        losses = [effect for effect in effects if isinstance(effect, SignalLoss)]
        losses += [
            SignalLoss(link, effect.interval)
            for effect in effects
            if isinstance(effect, Rebooting)
            for link in self._fabric.links_at(effect.device)
        ]
        drops = list(drops_of(effects, losses, self._fabric))
        return ProbeAgents(inventory, self._fabric, drops, _PROBES_SEED)

    def injected(self, until_s: float, now_ns: int) -> Iterator[tuple[int, Event | Facts | ProbeReport]]:
        """Apply the effects that start or end until a time; yield (device, message) to send at once."""
        until_ns = round(until_s * 1e9)
        while self._edges and self._edges[0][0] <= until_ns:
            _, played, is_end, effect = self._edges.pop(0)
            played.at_ns.append(now_ns)
            yield from self._end(effect, now_ns) if is_end else self._begin(effect, now_ns)
        if self._injected is not None:
            yield from self._injected.facts_due(until_ns, now_ns)
        yield from self._probe_reports(until_ns, now_ns)

    def _probe_reports(self, until_ns: int, now_ns: int) -> Iterator[tuple[int, ProbeReport]]:
        """Yield (device, report) of the probers' windows that end before a time, which is `now_ns` on the clocks."""
        if self._probes is None or until_ns <= self._probed_ns:
            return
        begin_ns, self._probed_ns = self._probed_ns, until_ns
        ahead_ns = now_ns - until_ns

        def is_silent(device: int, _: int) -> bool:
            return device in self._unreachable

        def skew_ns(device: int, _: int) -> int:
            return ahead_ns + self._clock_ahead_ns.get(device, 0)

        for _, report in self._probes.reports(begin_ns, until_ns, is_silent, skew_ns):
            yield self._fabric.devices.index(report.device), replace(report, received_at_ns=now_ns)

    def _begin(self, effect: Effect, now_ns: int) -> Iterator[tuple[int, Event]]:
        match effect:
            case SignalLoss(link=link):
                yield from self._link(link, now_ns, up=False)
            case Rebooting(device=device):
                yield from self._reboot(device, now_ns, up=False)
            case NotPolled(device=device, is_reported=is_reported):
                self._unreachable[device] = is_reported
                self._report_at_once(device)
            case ClockShift(device=device, offset_s=offset_s):
                self._clock_ahead_ns[device] = round(offset_s * 1e9)
            case CounterReset(device=device):
                state, i = self._position[device]
                state.group.counters[i] = 0
            case EmitEvent(message=Event() as event):
                device = self._fabric.devices.index(event.device)
                yield device, replace(event, at_ns=now_ns, received_at_ns=now_ns)
            case _:
                pass

    def _end(self, effect: Effect, now_ns: int) -> Iterator[tuple[int, Event]]:
        match effect:
            case SignalLoss(link=link):
                yield from self._link(link, now_ns, up=True)
            case Rebooting(device=device):
                yield from self._reboot(device, now_ns, up=True)
            case NotPolled(device=device):
                self._unreachable.pop(device, None)
                self._report_at_once(device)
            case ClockShift(device=device):
                del self._clock_ahead_ns[device]
            case _:
                pass

    def readings(self, until_s: float, now_ns: int) -> Iterator[Encoded]:
        """Yield the samples of all devices that are due by `until_s` and not read yet; each device once per cadence."""
        for state in self._groups:
            for first, last in _due(state.phases_s, state.read, until_s, self._cadence_s):
                state.group.grow(first, last)
                yield from self._samples(state, first, last, until_s, now_ns)
                state.read += last - first

    def _samples(self, state: _GroupState, first: int, last: int, until_s: float, now_ns: int) -> Iterator[Encoded]:
        group, run, count = state.group, state.group.reader.run, state.group.counters.shape[2]
        injected = self._injected
        for i in range(first, last):
            device = state.devices[i]
            if device in self._unreachable:
                state.changed.append(i)
                continue
            if not state.last_ns[i]:
                state.changed.append(i)
            state.sequence[i] += 1
            state.last_ns[i] = now_ns
            sampled_ns = now_ns + self._clock_ahead_ns.get(device, 0)
            if injected is not None and device in injected:
                at_ns = round(until_s * 1e9)
                samples = injected.samples(device, group, i, at_ns, state.sequence[i], now_ns)
                value = to_bytes(replace(samples, sampled_at_ns=sampled_ns))
            else:
                stamped = stamp(run, state.sequence[i], sampled_ns, now_ns, group.boot_id[i])
                value = group.samples[i].message(stamped, group.counters[i], group.gauges[i])
            yield Encoded(device, state.keys[i], value, count)

    def statuses(self, until_s: float, now_ns: int) -> Iterator[Encoded]:
        """Yield the statuses that collectors report by `until_s`, as the schedule in collectors/core does.

        A status is reported at first contact, when a device becomes unreachable or answers again, at each failed
        reading, and otherwise once per STATUS_INTERVAL_S.
        """
        for state in self._groups:
            changed, state.changed = state.changed, []
            for i in changed:
                yield from self._status(state, i, now_ns)
            due = _due(state.status_phases_s, state.stated, until_s - self._cadence_s, STATUS_INTERVAL_S)
            for first, last in due:
                for i in range(first, last):
                    if state.devices[i] not in self._unreachable:
                        yield from self._status(state, i, now_ns)
                state.stated += last - first

    def _status(self, state: _GroupState, i: int, now_ns: int) -> Iterator[Encoded]:
        device = state.devices[i]
        if device not in self._unreachable:
            value = state.group.statuses[i].message(now_ns, state.last_ns[i])
        elif not self._unreachable[device]:
            return
        else:
            value = to_bytes(state.group.unreachable_status(i, now_ns, state.last_ns[i]))
        yield Encoded(device, state.status_keys[i], value, 0)

    def _reboot(self, device: int, now_ns: int, *, up: bool) -> Iterator[tuple[int, Event]]:
        """Make a device unreachable, or reachable again; a host's collector stops and starts with it."""
        self._report_at_once(device)
        if up:
            state, i = self._position[device]
            state.group.reboot(i)
            self._unreachable.pop(device, None)
        else:
            self._unreachable[device] = not self._fabric.is_host[device]
        for link in self._fabric.links_at(device):
            yield from self._link(link, now_ns, up=up, but_for=device)

    def _report_at_once(self, device: int) -> None:
        state, i = self._position[device]
        state.changed.append(i)

    def _link(self, link: int, now_ns: int, *, up: bool, but_for: int = -1) -> Iterator[tuple[int, Event]]:
        for port in self._fabric.links[link].tolist():
            device = self._fabric.device_of(port)
            if device == but_for or device in self._unreachable:
                continue
            state, i = self._position[device]
            row = port - int(self._first_port[device])
            state.group.link(i, row, up=up)
            self._events[device] += 1
            reader = state.group.reader
            yield (
                device,
                Event(
                    self._fabric.devices[device], self._fabric.ports[device][row],
                    EventKind.LINK_UP if up else EventKind.LINK_DOWN, now_ns, now_ns, reader.source,
                    reader.collector, reader.run, self._events[device],
                ),
            )  # fmt: skip


def _due(phases_s: list[float], done: int, until_s: float, cadence_s: float) -> list[tuple[int, int]]:
    """Return the ranges of devices that are due by `until_s`; `done` readings (over all rounds) were made before."""
    if until_s < 0:
        return []
    rounds, rest_s = divmod(until_s, cadence_s)
    due = int(rounds) * len(phases_s) + bisect_right(phases_s, rest_s)
    ranges = []
    while done < due:
        first = done % len(phases_s)
        last = min(len(phases_s), first + due - done)
        ranges.append((first, last))
        done += last - first
    return ranges
