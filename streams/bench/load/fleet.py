"""All groups of a plant with their order of reading, and the faults that happen to them.

Decides which devices are due between two moments, and what a fault changes and tells; sending is player.py's.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from streams.bench.load.encoding import FIRST_SEQUENCE, stamp
from streams.bench.load.fault_plan import Fault
from streams.bench.load.group import Group, Reader
from streams.simulation.fabric_arrays import FabricArrays
from streams.wire.codec import to_bytes
from streams.wire.models import Event, EventKind, Source

STATUS_EVERY_S = 60.0
"""How often a collector speaks of a target that it reads; a test holds it to theirs, which this room may not import."""
COLLECTORS = {Source.SOURCE_NIC: "nic", Source.SOURCE_GNMI: "gnmi"}


@dataclass(frozen=True, slots=True)
class Encoded:
    """One message ready to send, the device that it is of, and how many ports it reads."""

    device: int
    key: bytes
    value: bytes
    rows: int


@dataclass(slots=True)
class _Own:
    """One group: which devices, when they are read, and what was said of each."""

    group: Group
    devices: list[int]
    phases: list[float]
    keys: list[bytes]
    turns: list[float]
    """When each is spoken of though nothing changed."""
    status_keys: list[bytes]
    sequence: list[int]
    last_ns: list[int]
    read: int = 0
    stated: int = 0
    changed: list[int] = field(default_factory=list)
    """Those of which something is to be said at once."""


@dataclass(slots=True)
class Lived:
    """One fault as it happened: the times of its changes, as sent."""

    fault: Fault
    at_ns: list[int] = field(default_factory=list)


class Fleet:
    """Every device of a plant. Times are seconds since the start of the load."""

    def __init__(
        self, plant: FabricArrays, cadence_s: float, chance: np.random.Generator, runs: dict[Source, int]
    ) -> None:
        self._plant = plant
        self._cadence_s = cadence_s
        self._first_port = plant.first_port
        self._owner = np.repeat(np.arange(len(plant.devices)), [len(ports) for ports in plant.ports])
        self._links_of: dict[int, list[int]] = {}
        self._runs = runs
        self._events = [0] * len(plant.devices)
        self._away: set[int] = set()
        self._where: dict[int, tuple[_Own, int]] = {}
        self._own = self._groups(chance)

    def _groups(self, chance: np.random.Generator) -> list[_Own]:
        plant, groups = self._plant, []
        order = chance.permutation(len(plant.devices)).tolist()
        phase = {device: i * self._cadence_s / len(order) for i, device in enumerate(order)}
        kinds = sorted({(host, len(ports)) for host, ports in zip(plant.is_host, plant.ports, strict=True)})
        for is_host, height in kinds:
            own = [d for d in order if plant.is_host[d] is is_host and len(plant.ports[d]) == height]
            source = Source.SOURCE_NIC if is_host else Source.SOURCE_GNMI
            reader = Reader(source, COLLECTORS[source], self._runs[source], self._cadence_s)
            names = [plant.devices[d] for d in own]
            group = Group(reader, names, [plant.ports[d] for d in own], chance)
            groups.append(
                _Own(
                    group,
                    own,
                    [phase[d] for d in own],
                    [name.encode() for name in names],
                    [phase[d] / self._cadence_s * STATUS_EVERY_S for d in own],
                    [f"{name}/{source.name}/{reader.collector}".encode() for name in names],
                    [FIRST_SEQUENCE] * len(own),
                    [0] * len(own),
                )
            )
            self._where |= {device: (groups[-1], i) for i, device in enumerate(own)}
        return groups

    def readings(self, until_s: float, now_ns: int) -> Iterator[Encoded]:
        """The samples of all devices that are due by `until_s` and were not read before; each device once a cadence."""
        for own in self._own:
            for first, last in _due(own.phases, own.read, until_s, self._cadence_s):
                own.group.grow(first, last)
                yield from self._samples(own, first, last, now_ns)
                own.read += last - first

    def _samples(self, own: _Own, first: int, last: int, now_ns: int) -> Iterator[Encoded]:
        group, run, height = own.group, own.group.reader.run, own.group.counters.shape[2]
        for i in range(first, last):
            if own.devices[i] in self._away:
                own.changed.append(i)
                continue
            if not own.last_ns[i]:
                own.changed.append(i)
            own.sequence[i] += 1
            own.last_ns[i] = now_ns
            stamped = stamp(run, own.sequence[i], now_ns, now_ns, group.boot_id[i])
            value = group.samples[i].message(stamped, group.counters[i], group.gauges[i])
            yield Encoded(own.devices[i], own.keys[i], value, height)

    def statuses(self, until_s: float, now_ns: int) -> Iterator[Encoded]:
        """What collectors say of their devices, when the schedule of their core has them say it.

        At first contact, when one goes or comes, at each reading that fails, and else once in STATUS_EVERY_S.
        """
        for own in self._own:
            told, own.changed = own.changed, []
            for i in told:
                yield from self._status(own, i, now_ns)
            for first, last in _due(own.turns, own.stated, until_s - self._cadence_s, STATUS_EVERY_S):
                for i in range(first, last):
                    if own.devices[i] not in self._away:
                        yield from self._status(own, i, now_ns)
                own.stated += last - first

    def _status(self, own: _Own, i: int, now_ns: int) -> Iterator[Encoded]:
        device = own.devices[i]
        if device not in self._away:
            value = own.group.statuses[i].message(now_ns, own.last_ns[i])
        elif self._plant.is_host[device]:
            return  # its collector went with it
        else:
            value = to_bytes(own.group.lost(i, now_ns, own.last_ns[i]))
        yield Encoded(device, own.status_keys[i], value, 0)

    def change(self, fault: Fault, number: int, now_ns: int) -> Iterator[tuple[int, Event]]:
        """The fault goes (even numbers) or comes (odd ones); answers the events that devices tell, with who tells."""
        up = bool(number % 2)
        if not fault.at_device:
            yield from self._link(fault.place, now_ns, up=up)
            return
        device = fault.place
        own, i = self._where[device]
        own.changed.append(i)
        if up:
            own.group.reboot(i)
            self._away.discard(device)
        else:
            self._away.add(device)
        for link in self._links(device):
            yield from self._link(link, now_ns, up=up, but_for=device)

    def _links(self, device: int) -> list[int]:
        if device not in self._links_of:
            ends = self._owner[self._plant.links]
            self._links_of[device] = np.flatnonzero((ends == device).any(axis=1)).tolist()
        return self._links_of[device]

    def _link(self, link: int, now_ns: int, *, up: bool, but_for: int = -1) -> Iterator[tuple[int, Event]]:
        for port in self._plant.links[link].tolist():
            device = int(self._owner[port])
            if device == but_for or device in self._away:
                continue
            own, i = self._where[device]
            row = port - int(self._first_port[device])
            own.group.link(i, row, up=up)
            self._events[device] += 1
            reader = own.group.reader
            yield (
                device,
                Event(
                    self._plant.devices[device], self._plant.ports[device][row],
                    EventKind.LINK_UP if up else EventKind.LINK_DOWN, now_ns, now_ns, reader.source,
                    reader.collector, reader.run, self._events[device],
                ),
            )  # fmt: skip

    def end_of(self, fault: Fault) -> tuple[str, str]:
        """Where a truth file would put it: a device and a port, the latter empty where it is the device."""
        if fault.at_device:
            return self._plant.devices[fault.place], ""
        port = int(self._plant.links[fault.place][0])
        device = int(self._owner[port])
        return self._plant.devices[device], self._plant.ports[device][port - int(self._first_port[device])]


def _due(phases: list[float], done: int, until_s: float, cadence_s: float) -> list[tuple[int, int]]:
    """The stretches of devices due by `until_s`, `done` of them (over all rounds) having had their turn."""
    if until_s < 0:
        return []
    rounds, rest = divmod(until_s, cadence_s)
    due = int(rounds) * len(phases) + bisect_right(phases, rest)
    stretches = []
    while done < due:
        first = done % len(phases)
        last = min(len(phases), first + due - done)
        stretches.append((first, last))
        done += last - first
    return stretches
