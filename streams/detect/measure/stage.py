"""The stage measure: turns samples, events, facts and status of devices into the few notable symptoms and windows.

Compares readings as arrays over whole messages; a healthy fabric costs nothing else. `correlate` concludes what a
change means, and whether both ends of a link show it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from streams.detect.measure import registry, snapshot
from streams.detect.measure.facts_tracker import FactsTracker
from streams.detect.measure.liveness import Liveness, SourceState, late_restart_symptoms, on_other_boot, restart_symptom
from streams.detect.measure.pending_restarts import POLLED, PendingRestarts
from streams.detect.measure.port_publisher import EventPorts, PortPublisher
from streams.detect.measure.probe_windows import ProbeWindows
from streams.detect.measure.routing import Emitted, newest_of_states, route
from streams.detect.measure.source_clock import CLOCK_AHEAD_NS, ClockChange, CollectorClocks, SourceClock, is_right
from streams.detect.measure.storage.message_batch import ClosedWindows, LateMessage, MessageBatch, Step
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.measure.window_sender import WindowSender
from streams.detect.params import DetectParams
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    IDLE_NS,
    CollectorStatus,
    Event,
    EventKind,
    Facts,
    Message,
    ProbeReport,
    Progress,
    Samples,
    Source,
    Symptom,
)
from streams.wire.stage import Output

if TYPE_CHECKING:
    from streams.instrument import metrics

_MAX_MAPPINGS = 256
_READ = frozenset({EventKind.DEVICE_REBOOT, EventKind.LINK_UP})
"""Events that the next reading shows as well, so that those of another run than that of the readings do not count: they
would invent a restart, and hide an outage. A down counts, and is a contradiction if readings show the port up."""


class Measure:
    """The stage for one telemetry partition."""

    name = "measure"

    def __init__(self, params: DetectParams, partition: int = 0) -> None:
        self._params, self._partition = params, partition
        self._topology = Topology(Inventory())
        self._sender = WindowSender(params)
        self._floor_ns = 0
        self._watermark_ns = IDLE_NS
        self._found: list[tuple[int, Emitted]] = []
        """The outputs of the batch so far, each with the number of its message."""
        self.counted: Counter[metrics.Counter] = Counter()
        """See MeteredStage."""
        self._liveness = Liveness(self._params.stale)
        self._readings = ReadingStore(self._sender.spec)
        self._facts = FactsTracker(self._params, self._partition)
        self._monitors = registry.make_monitors(self._params)
        self._relevant: registry.Relevant = {}
        self._ports = PortPublisher(params, partition, self._readings, self._liveness)
        self._event_ports = EventPorts()
        self._collector_clocks = CollectorClocks()
        self._restarts = PendingRestarts()
        self._probes = ProbeWindows(params.path, params.unreachable, params.incast, params.lateness_s, partition)
        self._probes.set_topology(self._topology)

    @property
    def watermark_ns(self) -> int:
        """See Stage; IDLE_NS while no source here is live."""
        return self._watermark_ns

    def start_epoch(self, epoch: int) -> None:
        """Do nothing: symptoms carry no revision, and repeated ones are equal."""

    def set_topology(self, topology: Topology) -> list[Output]:
        self._topology = topology
        self._ports.set_topology(topology)
        self._sender.set_topology(topology)
        self._probes.set_topology(topology)
        self._liveness.set_devices(topology.devices, len(topology.devices))
        at_ns = self._floor_ns if self._watermark_ns == IDLE_NS else self._watermark_ns
        return self._outputs(self._facts.set_topology(topology, at_ns))

    def process(self, batch: Sequence[Message]) -> list[Output]:
        found = self._found
        for number, message in enumerate(batch):
            if isinstance(message, Samples):
                # A benchmark is not a source of readings: it is never silent, and has no rates.
                if message.source is not Source.SOURCE_BENCHMARK:
                    self._samples(number, message)
            elif isinstance(message, Event):
                found += [(number, symptom) for symptom in self._event(message)]
            elif isinstance(message, CollectorStatus):
                if message.source is not Source.SOURCE_SYSLOG:  # a device without lines is not silent
                    self._liveness.on_status(message)
                found += [(number, symptom) for symptom in self._collector_clocks.on_status(message)]
                found += [(number, symptom) for symptom in self._on_arrival_clock(message.at_ns)]
            elif isinstance(message, Progress):
                self._floor_ns = max(self._floor_ns, message.watermark_ns)
            elif isinstance(message, ProbeReport):
                found += [(number, symptom) for symptom in self._probe_report(number, message)]
            elif isinstance(message, Facts) and self._facts.runs.permits(message, self._liveness):
                found += [(number, report) for report in self._facts.on_facts(message)]
                self._ports.modules.on_facts(message)
        self._take(self._readings.flush())
        if self._sender.plausibility.rejected:
            self.counted["railsight_implausible_rates_total"] += self._sender.plausibility.take()
        self._found = []
        found.sort(key=itemgetter(0))
        return self._outputs([output for _, output in found])

    def preview(self, batch: Sequence[Message]) -> list[Output]:
        """See PreviewingStage."""
        symptoms = [symptom for event in batch if isinstance(event, Event) for symptom in self._preview(event)]
        return route(self._topology, symptoms)

    def _preview(self, event: Event) -> Iterator[Symptom]:
        """Yield the symptoms that `_event` certainly finds too, whatever the readings before it are."""
        at_ns, arrived_ns = event.at_ns, event.received_at_ns or event.at_ns
        known = self._liveness.sources.get((event.device, event.source))
        is_of_run = known is None or (not known.ended and known.run in (0, event.collector_run))
        if event.kind in _READ and not is_of_run:
            return
        if is_right(at_ns, arrived_ns) and self._event_ports.knows(event, self._topology):
            for monitor in self._monitors:
                if monitor.previews_events:
                    yield from monitor.process_event(event, at_ns, self._readings, self._topology)

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        return self._outputs(self._on_arrival_clock(watermark_ns))

    def _on_arrival_clock(self, at_ns: int) -> list[Symptom]:
        """Return the symptoms of sources that time out, and the restarts of devices that are not read since."""
        symptoms = self._liveness.on_arrival_clock(at_ns)
        return [*symptoms, *self._restarts.due(self._liveness.arrival_ns)] if self._restarts.pending else symptoms

    def _take(self, steps: Iterable[Step]) -> None:
        """Process the steps that the store is about to store."""
        for step in steps:
            match step:
                case MessageBatch():
                    self._on_batch(step)
                case ClosedWindows():
                    self._found += self._sender.process(step)
                case LateMessage():
                    for monitor in self._monitors:
                        self._found += monitor.process_late(step, self._topology)

    def _on_batch(self, batch: MessageBatch) -> None:
        """Run the monitors on messages; their symptoms come after those of the device, because the sort is stable."""
        key = batch.counters.mapping, batch.gauges.mapping
        if (monitors := self._relevant.get(key)) is None:
            if len(self._relevant) >= _MAX_MAPPINGS:
                self._relevant.clear()
            monitors = tuple(monitor for monitor in self._monitors if monitor.is_relevant(batch))
            self._relevant[key] = monitors
        found: list[tuple[int, Emitted]] = []
        for monitor in monitors:
            found += monitor.process(batch, self._topology)
        if found or batch.appeared or self._ports.watched:
            self._ports.on_batch(batch, [symptom for _, symptom in found])
            self._found += found

    def _outputs(self, found: Sequence[Emitted]) -> list[Output]:
        watermark = max(self._liveness.watermark_ns(), self._floor_ns)
        if self._watermark_ns == IDLE_NS or watermark == IDLE_NS:
            self._watermark_ns = watermark
        self._watermark_ns = max(self._watermark_ns, watermark)
        if self._probes.windows:
            found = [*found, *self._probes.due(self._watermark_ns)]
        if self._sender.host_rates.windows:
            found = [*found, *self._sender.host_rates.due(self._watermark_ns)]
        if found or self._facts.versions.has_pending:
            found = [*found, *self._facts.on_symptoms(found, watermark)]
        outputs = [*route(self._topology, found), *newest_of_states(found)] if found else []
        if found or self._ports.is_due(self._watermark_ns):
            outputs += self._ports.outputs(found, self._watermark_ns)
        return outputs

    def _samples(self, number: int, samples: Samples) -> None:
        at_ns, arrived_ns, boot_id = samples.sampled_at_ns, samples.received_at_ns, samples.boot_id
        state = self._liveness.source(samples.device, samples.source, min(arrived_ns, at_ns))
        if state is None:
            self.counted["railsight_unknown_devices_refused_total"] += 1
            return
        if samples.collector_run != state.run and self._liveness.is_other(state, samples.collector_run, arrived_ns):
            # Its clock and boot are no evidence on the device.
            at_ns, boot_id = min(at_ns, arrived_ns), 0
        elif state.clock is not None or not is_right(at_ns, arrived_ns):
            at_ns = self._correct(number, state, at_ns, arrived_ns)
        if at_ns < self._floor_ns:
            self.counted["railsight_late_messages_total"] += 1
        symptoms = self._restart_at(samples, at_ns) if self._restarts.pending else []
        if boot_id and state.boot_id and boot_id != state.boot_id and at_ns > state.last_ns:
            symptoms += self._on_other_boot(state, samples, at_ns)
        elif boot_id and state.restarts:
            symptoms += late_restart_symptoms(state, at_ns, boot_id)
        state.collector = state.collector or samples.collector
        symptoms += self._liveness.on_sample(state, at_ns, arrived_ns, samples.collector_run)
        if boot_id and at_ns == state.last_ns:
            state.boot_id = boot_id
        symptoms += self._liveness.on_arrival_clock(max(arrived_ns, at_ns))
        if self._restarts.pending:
            symptoms += self._restarts.due(self._liveness.arrival_ns)
        if symptoms:
            self._found += [(number, symptom) for symptom in symptoms]
        is_final = at_ns < state.last_ns - self._sender.spec.lateness_ns
        if not is_final and (steps := self._readings.add(number, samples, at_ns)):
            self._take(steps)

    def _went_on(self, samples: Samples) -> bool | None:
        """Return whether the counters of a switch went on: only its agent has restarted, or its clock was stepped.

        None if the reading lacks them, as in a walk that ended early.
        """
        if samples.source not in POLLED:
            return False
        self._take(self._readings.flush())
        return self._readings.counters_went_on(samples)

    def _on_other_boot(self, state: SourceState, samples: Samples, at_ns: int) -> list[Symptom]:
        """Return the restart before a reading with another boot id; none if a reading with counters is to decide."""
        if (went_on := self._went_on(samples)) is None and self._readings.has_traffic(state.device, state.source):
            restart = restart_symptom(state, at_ns, state.last_ns)
            if went_on := self._restarts.add(restart, samples.received_at_ns, state):
                self._restarts.add_reading(restart, at_ns)
        if went_on:
            return []
        # The counters were reset between the two readings.
        self._take(self._readings.restarted(state.device, state.source, at_ns))
        return [on_other_boot(state, at_ns, samples.boot_id, self._sender.spec.lateness_ns)]

    def _restart_at(self, samples: Samples, at_ns: int) -> list[Symptom]:
        """Return the restart of a device that this reading confirms; one without counters decides nothing."""
        if (restart := self._restarts.before(samples.device, samples.source, at_ns)) is None:
            return []
        if (went_on := self._went_on(samples)) is None:
            self._restarts.add_reading(restart, at_ns)
            return []
        self._restarts.remove(restart)
        return [] if went_on else [restart]

    def _correct(self, number: int, state: SourceState, read_ns: int, arrived_ns: int) -> int:
        """Return the event time of a sample whose source's clock is or may be wrong; `read_ns` is by that clock."""
        clock = state.clock = state.clock or SourceClock()
        change = clock.add(read_ns, arrived_ns)
        at_ns = clock.corrected_ns(read_ns, arrived_ns)
        if change is ClockChange.RIGHT:
            state.clock = None
        elif change is ClockChange.MEASURED:
            # Times before and after it are not of one clock, so no rate follows from them.
            self._take(self._readings.restarted(state.device, state.source, at_ns))
            self._liveness.correct_last(state, at_ns, arrived_ns)
        if (reported := clock.report(change)) is not None:
            payload, since_ns, reported_ns = reported
            self._found.append((number, Symptom(state.device, "", payload, reported_ns, since_ns, state.source)))
        self.counted["railsight_clock_ahead_total"] += at_ns == arrived_ns != read_ns
        return at_ns

    def _event(self, event: Event) -> list[Symptom]:
        if event.kind is EventKind.WATCH:
            self._ports.request(event)
            return []
        at_ns, arrived_ns = event.at_ns, event.received_at_ns or event.at_ns
        self._liveness.has_events = True
        known = self._liveness.sources.get((event.device, event.source))
        at_ns = self._liveness.clock_of(event.device, event.source).corrected_ns(at_ns, arrived_ns)
        if event.at_ns - arrived_ns > CLOCK_AHEAD_NS:
            self.counted["railsight_clock_ahead_total"] += 1
        # Beside readings an event is no sign that all that arrived before it was read: it may overtake them.
        symptoms = [] if self._liveness.sources else self._liveness.on_arrival_clock(max(arrived_ns, at_ns))
        if known is not None and at_ns < known.last_ns - self._sender.spec.lateness_ns:
            self.counted["railsight_late_messages_total"] += 1  # of a clock that is not measured yet, or long ago
            return symptoms
        if (
            event.kind in _READ
            and known is not None
            and self._liveness.is_other(known, event.collector_run, arrived_ns)
        ):
            return symptoms
        if event.kind is EventKind.DEVICE_REBOOT:
            # A line of syslog has no readings of its source: those of another source of the device decide.
            sources = (event.source, *(POLLED if event.source is Source.SOURCE_SYSLOG else ()))
            source = next((s for s in sources if self._readings.has_traffic(event.device, s)), None)
            state = self._liveness.sources.get((event.device, source or event.source))
            state = state or SourceState(event.device, event.source, 0)
            # Readings after the boot may arrive before its report: the last one before it began the gap.
            since_ns = next((begin_ns for begin_ns, end_ns in state.gaps if begin_ns < at_ns < end_ns), state.last_ns)
            restart = restart_symptom(state, at_ns, min(since_ns, at_ns), by_event=True)
            if source is not None and not state.silent and self._restarts.add(restart, arrived_ns, state):
                return symptoms
            return [*symptoms, restart]
        if not self._event_ports.admits(event, self._topology):
            self.counted["railsight_unknown_ports_refused_total"] += 1
            return symptoms
        if self._readings.is_pending(event.device):  # they may confirm an earlier event of the port, or be newer
            self._take(self._readings.flush())
        for monitor in self._monitors:
            symptoms += monitor.process_event(event, at_ns, self._readings, self._topology)
        return symptoms

    def _probe_report(self, number: int, report: ProbeReport) -> list[Symptom]:
        """Process the report of a prober as a reading of its host by the source PROBE, dated by the host's clock."""
        at_ns, arrived_ns = report.end_ns, report.received_at_ns
        state = self._liveness.source(report.device, Source.SOURCE_PROBE, min(at_ns, arrived_ns))
        if state is None:
            self.counted["railsight_unknown_devices_refused_total"] += 1
            return []
        if state.clock is not None or not is_right(at_ns, arrived_ns):
            at_ns = self._correct(number, state, at_ns, arrived_ns)
        symptoms = self._liveness.on_sample(state, at_ns, arrived_ns, report.collector_run)
        if not self._probes.add(report, at_ns):
            self.counted["railsight_late_messages_total"] += at_ns < self._floor_ns
        return [*symptoms, *self._liveness.on_arrival_clock(arrived_ns)]

    def limit_time(self, limit_ns: int) -> None:
        """Refuse a state of a later time, because its readings would make all later ones count as late."""
        newest_ns = max(self._liveness.newest_ns(), self._floor_ns)
        if newest_ns > limit_ns:
            raise Reject(f"its time is {(newest_ns - limit_ns) / 1e9:.0f} s ahead of the clock; a clock was ahead")

    def _parts(self) -> dict[str, Any]:
        """Return the parts with small state, by their names in snapshots."""
        return {
            "facts": self._facts, "ports": self._ports, "collector_clocks": self._collector_clocks,
            "probes": self._probes, "host_rates": self._sender.host_rates, "restarts": self._restarts,
            "collectors": self._liveness,
        }  # fmt: skip

    def snapshot(self) -> bytes:
        small = {name: part.dump() for name, part in self._parts().items()}
        small |= {"floor_ns": self._floor_ns, "watermark_ns": self._watermark_ns}
        small["monitors"] = {monitor.name: monitor.dump() for monitor in self._monitors}
        return snapshot.dump(self._liveness, self._readings, small)

    def restore(self, data: bytes) -> None:
        fresh = Measure(self._params, self._partition)
        fresh._ports.set_topology(self._topology)
        snapshot.load(data, fresh._liveness, fresh._readings, fresh._restore_small)
        self._liveness, self._readings, self._facts = fresh._liveness, fresh._readings, fresh._facts
        self._ports, self._monitors, self._relevant = fresh._ports, fresh._monitors, {}
        self._collector_clocks, self._probes = fresh._collector_clocks, fresh._probes
        self._restarts = fresh._restarts
        self._sender.host_rates = fresh._sender.host_rates
        self._probes.set_topology(self._topology)
        self._floor_ns, self._watermark_ns = fresh._floor_ns, fresh._watermark_ns

    def _restore_small(self, small: dict[str, Any]) -> None:
        for monitor in self._monitors:
            if monitor.name in small["monitors"]:
                monitor.load(small["monitors"][monitor.name])
        for name, part in self._parts().items():
            if name in small:  # released versions had neither probes nor host_rates
                part.load(small[name])
        self._floor_ns, self._watermark_ns = small["floor_ns"], small["watermark_ns"]
