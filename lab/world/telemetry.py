"""Turns a world into the messages of its collectors: samples, events, facts and status, by the clocks of the devices.

delivery_model.py models their delivery.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lab.world.columns import (
    COUNTERS,
    GAUGES,
    NIC_COUNTERS,
    NIC_GAUGES,
    SWITCH_COUNTERS,
    SWITCH_GAUGES,
)
from lab.world.delivery_model import Cadence, DeliveryModel, DeliveryQueue
from lab.world.effects import (
    ClockShift,
    CollectorRestart,
    Effect,
    EmitEvent,
    Interval,
    NotPolled,
    SignalLoss,
)
from lab.world.fabric_arrays import rows_digest
from lab.world.facts_source import FactsSource
from lab.world.host_agents import HostAgents, collector_name
from lab.world.odd_agents import OddAgents
from lab.world.probe_mesh import ProbeAgents
from lab.world.world import World
from streams.fabric.topology import Topology
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
"""The interval at which a collector reports the status of a polled target."""
COLLECTORS = 4
"""The number of collectors that share the switches; each host has its own."""


def collector_of(switch: int) -> str:
    """Return the collector that polls a switch."""
    return f"gnmi-{switch % COLLECTORS + 1}"


class Telemetry:
    """All messages of a world, in order of arrival."""

    def __init__(
        self, world: World, topology: Topology, effects: Sequence[Effect], cadence: Cadence, model: DeliveryModel,
        rng: np.random.Generator, probes: ProbeAgents | None = None,
    ) -> None:  # fmt: skip
        self._probes = probes
        self._world, self._fabric, self._model, self._rng = world, world.fabric, model, rng
        fabric = world.fabric
        devices = len(fabric.devices)
        self._switch_ns, self._step_ns = round(cadence.switch_s * _S), round(cadence.nic_s * _S)
        self._cadence_ns = np.where(fabric.is_host, self._step_ns, self._switch_ns)
        self._phase_ns = (rng.permutation(devices) * (self._cadence_ns / devices)).astype(np.int64)
        self._times = world.at_ns[fabric.first_port].copy()
        self._facts = FactsSource(fabric, topology, effects)
        self._skew_ns = self._clock_skews(devices)
        self._poll_only = (rng.random(devices) < model.poll_only_ratio) & ~np.array(fabric.is_host)
        self._digests = {rows: rows_digest(rows) for rows in set(fabric.ports)}
        self._collector = [
            collector_name("nic", device) if is_host else collector_of(number)
            for number, (device, is_host) in enumerate(zip(fabric.devices, fabric.is_host, strict=True))
        ]
        self._agents = HostAgents(world, effects)
        self._odd_agents = OddAgents(effects, self._switch_ns)
        self._sequence: Counter[tuple[int, Source]] = Counter()
        self._last_ns = [0] * devices
        self._status_ns: Counter[tuple[int, Source]] = Counter()
        self._not_polled: dict[int, list[NotPolled]] = defaultdict(list)
        self._restarts: dict[str, list[Interval]] = defaultdict(list)
        self._clock_shifts: dict[int, list[ClockShift]] = defaultdict(list)
        self._sort_effects(effects)
        self.counts: Counter[str] = Counter()
        self.report_delays_ns: dict[tuple[tuple[str, str], int], int] = {}
        """The delay until the first end reports a signal loss, by (lower end of the link, time of the loss)."""
        self._events: list[tuple[int, Message]] = []
        for loss in world.signal_losses:
            self._add_link_events(loss)
        self._events += _emitted(effects, is_certain=False)

    def _sort_effects(self, effects: Sequence[Effect]) -> None:
        """Index the effects on the readings of devices by the affected device or link, and what arrives certainly."""
        self._certain = _emitted(effects, is_certain=True)
        for effect in effects:
            if isinstance(effect, NotPolled):
                self._not_polled[effect.device].append(effect)
            elif isinstance(effect, CollectorRestart):
                self._restarts[effect.collector].append(effect.interval)
            elif isinstance(effect, ClockShift):
                self._clock_shifts[effect.device].append(effect)

    def _clock_skews(self, devices: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        rng, model = self._rng, self._model
        skew_s = model.skew_s * rng.standard_normal(devices)
        far = rng.random(devices) < 0.02
        skew_s[far] = rng.uniform(-model.max_skew_s, model.max_skew_s, int(far.sum()))
        return (skew_s * _S).astype(np.int64)

    def _skew_at(self, device: int, at_ns: int) -> int:
        """Return the time by which the clock of a device is ahead."""
        shifts = self._clock_shifts.get(device, ())
        return int(self._skew_ns[device]) + sum(
            round(shift.offset_s * _S) for shift in shifts if shift.interval.contains(at_ns)
        )

    def batches(self, start_ns: int, end_ns: int, slice_ns: int) -> Iterator[tuple[int, list[Message]]]:
        """Yield (end, arrived messages) slice by slice; messages in flight at the end do not arrive."""
        done = start_ns // slice_ns
        queue = DeliveryQueue(self._model, slice_ns, self._rng, self.counts)
        probes_rng = self._rng if self._probes is None else self._probes.rng
        probes = DeliveryQueue(self._model, slice_ns, probes_rng, self.counts)
        for at_ns, message in self._events:
            if start_ns <= at_ns < end_ns:
                queue.add(self._arrival(at_ns), message)
        for at_ns, message in self._certain:
            if start_ns <= at_ns < end_ns:
                queue.deliver(at_ns, message)
        for at_ns in range(start_ns, end_ns, self._step_ns):
            for arrival_ns, message in self._poll(at_ns):
                queue.add(arrival_ns, message, fresh=self._is_fresh(message, arrival_ns))
            for arrival_ns, report in self._probe(at_ns, at_ns + self._step_ns):
                probes.add(arrival_ns, report)
            until = (at_ns + self._step_ns) // slice_ns
            for (arrived_ns, messages), (_, reports) in zip(
                queue.due(done, until), probes.due(done, until), strict=True
            ):
                yield arrived_ns, [*messages, *reports]
            done = until

    def _probe(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, Message]]:
        """Yield the probers' reports of the windows that end within an interval."""
        return (
            iter(())
            if self._probes is None
            else self._probes.reports(begin_ns, end_ns, self._is_host_silent, self._skew_at)
        )

    def _is_host_silent(self, device: int, at_ns: int) -> bool:
        """Return True if a host sends no report, because it restarts or is not read."""
        is_rebooting = _any_contains(self._world.reboots.get(device, ()), at_ns)
        return is_rebooting or any(effect.interval.contains(at_ns) for effect in self._not_polled.get(device, ()))

    def _is_fresh(self, message: Message, arrival_ns: int) -> bool:
        """Return True if a message cannot be late: a restarting collector has no backlog before or after."""
        restarts = self._restarts.get(message.collector, ()) if isinstance(message, Samples) else ()
        return any(interval.widened(2 * self._switch_ns).contains(arrival_ns) for interval in restarts)

    def _poll(self, at_ns: int) -> Iterator[tuple[int, Message]]:
        """Poll the devices that are due before the next step; other devices continue to count until they are due."""
        ahead_ns = (self._phase_ns - at_ns) % self._cadence_ns
        due = np.flatnonzero(ahead_ns < self._step_ns)
        jitter = self._rng.uniform(0, self._model.jitter_s, len(due))
        times = at_ns + ahead_ns[due] + (jitter * np.minimum(_S, self._cadence_ns[due] / 4)).astype(np.int64)
        self._times[due] = times
        self._world.advance(self._times)
        for device, when_ns in zip(due.tolist(), times.tolist(), strict=True):
            yield from self._poll_device(device, when_ns)

    def _poll_device(self, device: int, at_ns: int) -> Iterator[tuple[int, Message]]:
        collector, is_host = self._collector[device], self._fabric.is_host[device]
        if _any_contains(self._restarts.get(collector, ()), at_ns):
            return
        if self._odd_agents.is_restarting(device, at_ns):
            return
        is_rebooting = _any_contains(self._world.reboots.get(device, ()), at_ns)
        not_polled = next((e for e in self._not_polled.get(device, ()) if e.interval.contains(at_ns)), None)
        if not is_rebooting and not_polled is None:
            yield from self._answered(device, at_ns)
            if is_host and self._is_agent_due(device, at_ns):
                for samples in self._agents.read(device, at_ns, self._skew_at(device, at_ns)):
                    yield self._arrival(at_ns), samples
                if at_ns - self._status_ns[device, Source.SOURCE_HOST] >= STATUS_INTERVAL_NS:
                    yield self._status(device, Source.SOURCE_HOST, at_ns, at_ns)
            self._last_ns[device] = at_ns
        elif (is_rebooting and not is_host) or (not_polled is not None and not_polled.is_reported):
            yield self._status(device, self._source(device), at_ns, self._last_ns[device], "no answer")

    def _is_agent_due(self, device: int, at_ns: int) -> bool:
        """Return True if a host's agent polls in this round; the hosts take turns."""
        steps = max(1, self._switch_ns // self._step_ns) * self._model.agent_rounds
        return ((at_ns - int(self._phase_ns[device])) // self._step_ns + device) % steps == 0

    def _answered(self, device: int, at_ns: int) -> Iterator[tuple[int, Message]]:
        yield self._arrival(at_ns), self._samples(device, at_ns)
        last_ns, source = self._last_ns[device], self._source(device)
        if self._facts.is_due(device, last_ns, at_ns):
            yield self._arrival(at_ns), self._facts.facts(device, at_ns)
        if not last_ns or at_ns - self._status_ns[device, source] >= STATUS_INTERVAL_NS:
            yield self._status(device, source, at_ns, at_ns)

    def _run_at(self, collector: str, at_ns: int) -> int:
        """Return the run of a collector, which grows by 1 at each restart."""
        return 1 + sum(interval.end_ns <= at_ns for interval in self._restarts.get(collector, ()))

    def _arrival(self, at_ns: int) -> int:
        return at_ns + round(self._rng.uniform(0.02, 0.4) * _S)

    def _status(
        self, device: int, source: Source, at_ns: int, last_ns: int, error: str = ""
    ) -> tuple[int, CollectorStatus]:
        self._status_ns[device, source] = at_ns
        is_agent, name = source is Source.SOURCE_HOST, self._fabric.devices[device]
        collector = collector_name("host", name) if is_agent else self._collector[device]
        cadence_ns = self._switch_ns * self._model.agent_rounds if is_agent else int(self._cadence_ns[device])
        return self._arrival(at_ns), CollectorStatus(
            collector, self._run_at(collector, at_ns), source, name, at_ns, not error, error,
            last_sample_at_ns=last_ns, clock_offset_ns=self._skew_at(device, at_ns), cadence_ns=cadence_ns,
        )  # fmt: skip

    def _source(self, device: int) -> Source:
        return Source.SOURCE_NIC if self._fabric.is_host[device] else Source.SOURCE_GNMI

    def _samples(self, device: int, at_ns: int) -> Samples:
        world, source, collector = self._world, self._source(device), self._collector[device]
        first, rows = int(self._fabric.first_port[device]), self._fabric.ports[device]
        ports = slice(first, first + len(rows))
        is_nic = source is Source.SOURCE_NIC
        counter_columns, gauge_columns = (NIC_COUNTERS, NIC_GAUGES) if is_nic else (SWITCH_COUNTERS, SWITCH_GAUGES)
        self._sequence[device, source] += 1
        counters, gauges = COUNTERS[counter_columns], GAUGES[gauge_columns]
        samples = Samples(
            self._fabric.devices[device], source, collector, self._run_at(collector, at_ns),
            self._sequence[device, source], at_ns + self._skew_at(device, at_ns), at_ns, world.boot_id[device],
            RowKind.ROW_KIND_PORT, rows, self._digests[rows],
            Table(
                tuple(metric for metric, _ in counters), tuple(index for _, index in counters),
                world.counters[counter_columns, ports].copy(),
            ),
            Table(gauges, (-1,) * len(gauges), world.gauges[gauge_columns, ports].copy()),
        )  # fmt: skip
        return self._odd_agents.read(device, world.further.added_to(samples, ports))

    def _add_link_events(self, loss: SignalLoss) -> None:
        """Add the events of both ends of a link, and record the time at which the first end reports the loss."""
        reported_ns = []
        for port in self._fabric.links[loss.link].tolist():
            device, name = self._fabric.device_of(port), self._fabric.port(port).port
            kinds = (EventKind.LINK_DOWN, EventKind.ADMIN_DOWN), (EventKind.LINK_UP, EventKind.ADMIN_UP)
            reported_ns.append(self._next_poll_ns(device, loss.interval.start_ns))
            for edge, (edge_ns, of_edge) in enumerate(zip(loss.interval, kinds, strict=True)):
                for kind in of_edge if loss.disabled_port == port else of_edge[:1]:
                    at_ns = edge_ns + round(self._rng.uniform(*self._model.link_event_delay_s) * _S)
                    if self._add_event(device, name, kind, at_ns) and edge == 0:
                        reported_ns.append(at_ns)
        lower = self._fabric.port(int(self._fabric.links[loss.link][0]))
        self.report_delays_ns[lower, loss.interval.start_ns] = min(reported_ns) - loss.interval.start_ns

    def _next_poll_ns(self, device: int, at_ns: int) -> int:
        """Return the time of a device's next poll, without jitter."""
        phase_ns = int(self._phase_ns[device])
        return at_ns + (phase_ns - at_ns) % int(self._cadence_ns[device])

    def _add_event(self, device: int, port: str, kind: EventKind, at_ns: int) -> bool:
        """Add an event of a port; return False if no source reports it."""
        collector = self._collector[device]
        if (
            self._poll_only[device]
            or _any_contains(self._world.reboots.get(device, ()), at_ns)
            or any(effect.interval.contains(at_ns) for effect in self._not_polled.get(device, ()))
            or _any_contains(self._restarts.get(collector, ()), at_ns)
        ):
            return False
        event = Event(
            self._fabric.devices[device], port, kind, at_ns + self._skew_at(device, at_ns), at_ns, self._source(device),
            collector, self._run_at(collector, at_ns), 0,
        )  # fmt: skip
        is_lost = self._rng.random() < self._model.lost_event_ratio
        if not is_lost:
            self._events.append((at_ns, event))
        is_host = self._fabric.is_host[device]
        if is_host:
            agent = collector_name("host", event.device)
            self._events.append((at_ns, replace(event, source=Source.SOURCE_HOST, collector=agent)))
        return is_host or not is_lost


def _emitted(effects: Iterable[Effect], *, is_certain: bool) -> list[tuple[int, Message]]:
    """Return the messages that sources emit, each with its time."""
    emitted = (effect for effect in effects if isinstance(effect, EmitEvent) and effect.is_certain is is_certain)
    return [(effect.interval.start_ns, effect.message) for effect in emitted]


def _any_contains(intervals: Iterable[Interval], at_ns: int) -> bool:
    return any(interval.contains(at_ns) for interval in intervals)
