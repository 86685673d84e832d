"""Who reads what of the world and tells what, by whose clock, in which run of which collector.

How it travels from there is post.py's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from streams.fabric.topology import Topology
from streams.simulation.columns import (
    COUNTERS,
    GAUGES,
    NIC_COUNTERS,
    NIC_GAUGES,
    SWITCH_COUNTERS,
    SWITCH_GAUGES,
)
from streams.simulation.delivery_model import Cadence, DeliveryModel, DeliveryQueue
from streams.simulation.effects import CollectorRestart, Effect, EmitEvent, Interval, NotPolled, SignalLoss
from streams.simulation.fabric_arrays import rows_digest
from streams.simulation.facts_source import FactsSource
from streams.simulation.host_agents import HostAgents, collector_name
from streams.simulation.world import World
from streams.wire.models import (
    CollectorStatus,
    Event,
    EventKind,
    Message,
    RowKind,
    Samples,
    Source,
    Table,
)

_S = 10**9
STATUS_INTERVAL_NS = 60 * _S
"""How often a collector speaks of a target that it reads."""
COLLECTORS = 4
"""They share the switches; a host has its own."""


def collector_of(switch: int) -> str:
    """The collector that reads a switch."""
    return f"gnmi-{switch % COLLECTORS + 1}"


class Telemetry:
    """All messages of a world, by arrival."""

    def __init__(
        self, world: World, topology: Topology, effects: Sequence[Effect], cadence: Cadence, travel: DeliveryModel,
        chance: np.random.Generator,
    ) -> None:  # fmt: skip
        self._world, self._travel, self._chance = world, travel, chance
        plant = world.plant
        devices = len(plant.devices)
        self._slow_ns, self._step_ns = round(cadence.switch_s * _S), round(cadence.nic_s * _S)
        self._cadence_ns = np.where(plant.is_host, self._step_ns, self._slow_ns)
        self._phase_ns = (chance.permutation(devices) * (self._cadence_ns / devices)).astype(np.int64)
        self._times = world.at_ns[world.first].copy()
        self._words = FactsSource(world, topology, effects)
        skew_s = travel.skew_s * chance.standard_normal(devices)
        far = chance.random(devices) < 0.02
        skew_s[far] = chance.uniform(-travel.max_skew_s, travel.max_skew_s, int(far.sum()))
        self._skew_ns = (skew_s * _S).astype(np.int64)
        self._polled = (chance.random(devices) < travel.poll_only_ratio) & ~np.array(plant.is_host)
        self._digests = {rows: rows_digest(rows) for rows in set(plant.ports)}
        self._collector = [
            collector_name("nic", device) if host else collector_of(number)
            for number, (device, host) in enumerate(zip(plant.devices, plant.is_host, strict=True))
        ]
        self._run: dict[str, int] = defaultdict(lambda: 1)
        self._agents = HostAgents(world)
        self._sequence: Counter[tuple[int, Source]] = Counter()
        self._last_ns = [0] * devices
        self._said_ns: Counter[tuple[int, Source]] = Counter()
        self._unread: dict[int, list[NotPolled]] = defaultdict(list)
        self._restarts: dict[str, list[Interval]] = defaultdict(list)
        self._away = world.reboots
        for effect in effects:
            if isinstance(effect, NotPolled):
                self._unread[effect.device].append(effect)
            elif isinstance(effect, CollectorRestart):
                self._restarts[effect.collector].append(effect.interval)
        self._told: list[tuple[int, Message]] = []
        self.counts: Counter[str] = Counter()
        self.report_delays_ns: dict[tuple[int, int], int] = {}
        self._tell(effects)

    def batches(self, start_ns: int, end_ns: int, slice_ns: int) -> Iterator[tuple[int, list[Message]]]:
        """(end of the slice, what came in it), slice after slice; what is on its way at the end does not come."""
        done = start_ns // slice_ns
        post = DeliveryQueue(self._travel, slice_ns, self._chance, self.counts)
        for at_ns, message in self._told:
            if start_ns <= at_ns < end_ns:
                post.add(self._arrival(at_ns), message)
        for at_ns in range(start_ns, end_ns, self._step_ns):
            for came_ns, message in self._round(at_ns):
                post.add(came_ns, message, fresh=self._is_fresh(message, came_ns))
            until = (at_ns + self._step_ns) // slice_ns
            yield from post.due(done, until)
            done = until

    def _is_fresh(self, message: Message, came_ns: int) -> bool:
        """A collector that just started has nothing to catch up with, and what it read before it ended has left it."""
        spans = self._restarts.get(message.collector, ()) if isinstance(message, Samples) else ()
        around_ns = 2 * self._slow_ns
        return any(s.start_ns - around_ns <= came_ns < s.end_ns + around_ns for s in spans)

    def _round(self, at_ns: int) -> Iterator[tuple[int, Message]]:
        """Those whose turn it is between now and the next step; what the others count waits for theirs."""
        ahead_ns = (self._phase_ns - at_ns) % self._cadence_ns
        due = np.flatnonzero(ahead_ns < self._step_ns)
        jitter = self._chance.uniform(0, self._travel.jitter_s, len(due))
        times = at_ns + ahead_ns[due] + (jitter * np.minimum(_S, self._cadence_ns[due] / 4)).astype(np.int64)
        self._times[due] = times
        self._world.advance(self._times)
        for device, when in zip(due.tolist(), times.tolist(), strict=True):
            yield from self._device(device, when)

    def _device(self, device: int, at_ns: int) -> Iterator[tuple[int, Message]]:
        collector = self._collector[device]
        host = self._world.plant.is_host[device]
        if any(s.start_ns <= at_ns < s.end_ns for s in self._restarts.get(collector, ())):
            return
        if collector in self._restarts:
            self._run[collector] = 1 + sum(s.end_ns <= at_ns for s in self._restarts[collector])
        gone = any(s.start_ns <= at_ns < s.end_ns for s in self._away.get(device, ()))
        unread = next(
            (u for u in self._unread.get(device, ()) if u.interval.start_ns <= at_ns < u.interval.end_ns), None
        )
        if not gone and unread is None:
            yield from self._heard(device, at_ns)
            if host and self._is_turn_of_agent(device, at_ns):
                for samples in self._agents.read(device, at_ns, int(self._skew_ns[device])):
                    yield self._arrival(at_ns), samples
                if at_ns - self._said_ns[device, Source.SOURCE_HOST] >= STATUS_INTERVAL_NS:
                    yield self._status(device, Source.SOURCE_HOST, at_ns, at_ns)
            self._last_ns[device] = at_ns
        elif (gone and not host) or (unread is not None and unread.is_reported):
            yield self._status(device, self._source(device), at_ns, self._last_ns[device], "no answer")

    def _is_turn_of_agent(self, device: int, at_ns: int) -> bool:
        """Each so many rounds, another host's in another one."""
        steps = max(1, self._slow_ns // self._step_ns) * self._travel.agent_rounds
        return ((at_ns - int(self._phase_ns[device])) // self._step_ns + device) % steps == 0

    def _heard(self, device: int, at_ns: int) -> Iterator[tuple[int, Message]]:
        yield self._arrival(at_ns), self._samples(device, at_ns)
        last_ns, source = self._last_ns[device], self._source(device)
        if self._words.is_due(device, last_ns, at_ns):
            yield self._arrival(at_ns), self._words.facts(device, at_ns)
        if not last_ns or at_ns - self._said_ns[device, source] >= STATUS_INTERVAL_NS:
            yield self._status(device, source, at_ns, at_ns)

    def _arrival(self, at_ns: int) -> int:
        return at_ns + round(self._chance.uniform(0.02, 0.4) * _S)

    def _status(
        self, device: int, source: Source, at_ns: int, last_ns: int, error: str = ""
    ) -> tuple[int, CollectorStatus]:
        self._said_ns[device, source] = at_ns
        own, name = source is Source.SOURCE_HOST, self._world.plant.devices[device]
        collector = collector_name("host", name) if own else self._collector[device]
        cadence_ns = self._slow_ns * self._travel.agent_rounds if own else int(self._cadence_ns[device])
        return self._arrival(at_ns), CollectorStatus(
            collector, self._run[collector], source, name, at_ns, not error, error,
            last_sample_at_ns=last_ns, clock_offset_ns=int(self._skew_ns[device]), cadence_ns=cadence_ns,
        )  # fmt: skip

    def _source(self, device: int) -> Source:
        return Source.SOURCE_NIC if self._world.plant.is_host[device] else Source.SOURCE_GNMI

    def _samples(self, device: int, at_ns: int) -> Samples:
        world, source, collector = self._world, self._source(device), self._collector[device]
        first, rows = int(world.first[device]), world.plant.ports[device]
        own = slice(first, first + len(rows))
        nic = source is Source.SOURCE_NIC
        counted, gauged = (NIC_COUNTERS, NIC_GAUGES) if nic else (SWITCH_COUNTERS, SWITCH_GAUGES)
        self._sequence[device, source] += 1
        columns = COUNTERS[counted]
        gauges = GAUGES[gauged]
        return Samples(
            world.plant.devices[device], source, collector, self._run[collector], self._sequence[device, source],
            at_ns + int(self._skew_ns[device]), at_ns, world.boot_id[device], RowKind.ROW_KIND_PORT, rows,
            self._digests[rows],
            Table(tuple(c[0] for c in columns), tuple(c[1] for c in columns), world.counters[counted, own].copy()),
            Table(gauges, (-1,) * len(gauges), world.gauges[gauged, own].copy()),
        )  # fmt: skip

    def _tell(self, effects: Sequence[Effect]) -> None:
        """Events of links at both ends, and what effects say; held until their time comes."""
        for down in self._world.signal_losses:
            self._signal(down)
        for effect in effects:
            if isinstance(effect, EmitEvent):
                self._later(effect.interval.start_ns, effect.message)

    def _signal(self, down: SignalLoss) -> None:
        world, ends = self._world, self._world.plant.links[down.link].tolist()
        first_ns = []
        for port in ends:
            device = int(world.owner[port])
            name = world.plant.ports[device][port - int(world.first[device])]
            kinds = (EventKind.LINK_DOWN, EventKind.ADMIN_DOWN), (EventKind.LINK_UP, EventKind.ADMIN_UP)
            first_ns.append(self._read_after(device, down.interval.start_ns))
            for n, (edge_ns, own) in enumerate(zip(down.interval, kinds, strict=True)):
                for kind in own if down.disabled_port == port else own[:1]:
                    at_ns = edge_ns + round(self._chance.uniform(*self._travel.link_event_delay_s) * _S)
                    if self._event(device, name, kind, at_ns) and n == 0:
                        first_ns.append(at_ns)
        self.report_delays_ns[down.link, down.interval.start_ns] = min(first_ns) - down.interval.start_ns

    def _read_after(self, device: int, at_ns: int) -> int:
        """When a device is read next, but for the jitter."""
        phase_ns = int(self._phase_ns[device])
        return at_ns + (phase_ns - at_ns) % int(self._cadence_ns[device])

    def _event(self, device: int, port: str, kind: EventKind, at_ns: int) -> bool:
        """Whether anybody tells of it."""
        world = self._world
        gone = any(s.start_ns <= at_ns < s.end_ns for s in self._away.get(device, ()))
        unread = any(u.interval.start_ns <= at_ns < u.interval.end_ns for u in self._unread.get(device, ()))
        restarting = any(s.start_ns <= at_ns < s.end_ns for s in self._restarts.get(self._collector[device], ()))
        if gone or unread or restarting or self._polled[device]:
            return False
        event = Event(
            world.plant.devices[device], port, kind, at_ns + int(self._skew_ns[device]), at_ns, self._source(device),
            self._collector[device], self._run[self._collector[device]], 0,
        )  # fmt: skip
        host = world.plant.is_host[device]
        lost = self._chance.random() < self._travel.lost_event_ratio
        if not lost:
            self._later(at_ns, event)
        if host:
            self._later(
                at_ns, replace(event, source=Source.SOURCE_HOST, collector=collector_name("host", event.device))
            )
        return host or not lost

    def _later(self, at_ns: int, message: Message) -> None:
        self._told.append((at_ns, message))
