"""measure: from samples, events and status of devices to the few symptoms and windows that are notable.

Decides what changed at a port or a device, by array arithmetic over whole messages; a healthy fabric costs nothing
else. What a change means, and whether both ends agree, is for `correlate`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from streams.detect.measure import restarts, snapshot
from streams.detect.measure.facts.facts_tracker import FactsTracker
from streams.detect.measure.late_replay import LateReplay
from streams.detect.measure.liveness import CLOCK_AHEAD_NS, Liveness, SourceState
from streams.detect.measure.monitors import late_readings
from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.event_confirmation import EventConfirmation, gpu_symptoms
from streams.detect.measure.monitors.pcie_monitor import WIDTH, PcieMonitor
from streams.detect.measure.monitors.transitions import TransitionMonitor
from streams.detect.measure.storage.column_store import Indices
from streams.detect.measure.storage.reading_store import DeviceSlot, MessageBatch, PendingMessage, ReadingStore
from streams.detect.measure.storage.window_store import ClosedWindows, WindowStore
from streams.detect.measure.windows import uplink_selection
from streams.detect.measure.windows.window_report import PeerWindowReport, PortWindowReport
from streams.detect.measure.windows.window_selection import WindowSelector
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    IDLE_NS,
    CablingReport,
    CollectorStatus,
    Event,
    EventKind,
    Facts,
    Message,
    PeerGroup,
    PeerWindow,
    Progress,
    RowKind,
    Samples,
    Source,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
    Window,
)
from streams.wire.stage import Output
from streams.wire.symptoms import Payload, PfcWatchdogStorm, PortChange, PortTransition, Restart
from streams.wire.topics import SUMMARIES, SYMPTOMS

_TRANSITIONS = {
    EventKind.LINK_DOWN: PortTransition(PortChange.WENT_DOWN),
    EventKind.LINK_UP: PortTransition(PortChange.CAME_UP),
    EventKind.ADMIN_DOWN: PortTransition(PortChange.ADMIN_DISABLED),
    EventKind.ADMIN_UP: PortTransition(PortChange.ADMIN_ENABLED),
}
_OF_GPUS = (EventKind.GPU_XID, EventKind.LOG)


Said = Symptom | SymptomsReplaced | Window | PeerWindow | CablingReport | VersionCensus
_FLEET = "fleet"
"""Where what concerns all pods goes."""


_Speeds = tuple[str, npt.NDArray[np.float64]]
"""The kind of a device, and the speeds of its ports that are compared."""


class Measure:
    """The stage for one telemetry partition."""

    name = "measure"

    def __init__(self, params: DetectParams, partition: int = 0) -> None:
        self._params, self._partition = params, partition
        self._liveness = Liveness(params.stale)
        self._rates = WindowSelector(params)
        self._readings = ReadingStore(self._notice, self._conclude, self._rates.clock, self._late)
        self._topology = Topology(Inventory())
        self._notable = TransitionMonitor(self._topology)
        self._ongoing = LateReplay(params)
        self._speeds: dict[tuple[str, Source], tuple[tuple[str, ...], _Speeds | None]] = {}
        self._trained = PcieMonitor(params.pcie, {})
        self._selves, self._words = FactsTracker(params, partition), EventConfirmation(params)
        self._floor_ns = 0
        self._watermark_ns = IDLE_NS
        self._noticed: list[tuple[int, Said]] = []
        """What the batch shows so far, each with the number of its message."""
        self.counted: Counter[str] = Counter()
        """Self-metrics: `clock_ahead`, `late`."""

    @property
    def watermark_ns(self) -> int:
        """See Stage; IDLE_NS while nothing here is live."""
        return self._watermark_ns

    def start_epoch(self, epoch: int) -> None:
        """Symptoms carry no revision: they are the same however often they are said."""

    def set_topology(self, topology: Topology) -> list[Output]:
        self._topology = topology
        self._notable = TransitionMonitor(topology)
        self._speeds = {}
        at_ns = self._floor_ns if self._watermark_ns == IDLE_NS else self._watermark_ns
        return self._outputs(self._selves.set_topology(topology, at_ns))

    def process(self, batch: Sequence[Message]) -> list[Output]:
        noticed = self._noticed
        for number, message in enumerate(batch):
            if isinstance(message, Samples):
                self._samples(number, message)
            elif isinstance(message, Event):
                noticed += [(number, symptom) for symptom in self._event(message)]
            elif isinstance(message, CollectorStatus):
                self._liveness.on_status(message)
                noticed += [(number, symptom) for symptom in self._liveness.on_arrival_clock(message.at_ns)]
            elif isinstance(message, Progress):
                self._floor_ns = max(self._floor_ns, message.watermark_ns)
            elif isinstance(message, Facts):
                noticed += [(number, cabling) for cabling in self._selves.on_facts(message)]
        self._readings.flush()
        self._noticed = []
        noticed.sort(key=itemgetter(0))
        return self._outputs([symptom for _, symptom in noticed])

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        return self._outputs(self._liveness.on_arrival_clock(watermark_ns))

    def _notice(self, wave: MessageBatch) -> None:
        """What the ports of a message show comes after what its device shows: the sort by number is stable."""
        if wave.row_kind is RowKind.ROW_KIND_PORT:
            self._noticed += self._notable.port_symptoms(wave)
            self._noticed += self._words.process(wave, self._topology)
            self._noticed += self._ongoing.process(wave, self._topology)
        elif wave.row_kind is RowKind.ROW_KIND_GPU:
            self._noticed += self._notable.gpu_symptoms(wave)
        if WIDTH in wave.gauges.mapping.position_of:
            self._noticed += self._trained.process(wave, self._topology)

    def _late(self, taken: PendingMessage, rows: Indices) -> None:
        self._noticed += late_readings.late_symptoms(taken, rows, self._notable)
        self._noticed += self._words.process_late(taken, self._topology)
        self._noticed += self._trained.process_late(taken, rows, self._topology)
        self._noticed += self._ongoing.reprocess(taken, self._topology)

    def _conclude(self, group: list[PendingMessage], windows: WindowStore, closed: ClosedWindows) -> None:
        """The windows of event time that are final, as far as they are told."""
        for told in self._rates.select(windows, closed):
            taken = group[told.message]
            self._noticed.append((taken.number, self._window(taken.slot, told)))
        of = [self._speeds_of(group[message].slot) for message in closed.messages.tolist()]
        for compare, kind, peers in (
            (self._rates.select_rails, "host", PeerGroup.HOST_RAILS),
            (self._uplinks, "switch", PeerGroup.SWITCH_UPLINKS),
        ):
            own = [i for i, known in enumerate(of) if known is not None and known[0] == kind]
            if own:
                speeds = np.stack([known[1] for known in of if known is not None and known[0] == kind])
                for message, compared in compare(windows, closed, own, speeds):
                    self._noticed.append((group[message].number, self._rails(group[message].slot, compared, peers)))

    def _uplinks(
        self, windows: WindowStore, closed: ClosedWindows, switches: Sequence[int], speeds: npt.NDArray[np.float64]
    ) -> Iterator[tuple[int, PeerWindowReport]]:
        return uplink_selection.select_uplinks(self._params, windows, closed, switches, speeds)

    def _speeds_of(self, slot: DeviceSlot) -> _Speeds | None:
        """What the rows that are compared should be trained to: a host's rails, a switch's uplinks; None of neither.

        As `Rates.rails` wants it: NaN of other ports, 0 where nobody knows.
        """
        known = self._speeds.get((slot.device, slot.source))
        if known is None or known[0] is not slot.rows:
            device = self._topology.devices.get(slot.device)
            own: _Speeds | None = None
            if device is not None:
                cables = [self._topology.link_at(self._topology.resolve_port(slot.device, row)) for row in slot.rows]
                compared = [
                    c is not None and (c.rail is not None if device.kind == "host" else c.lower.device == slot.device)
                    for c in cables
                ]
                speeds = [
                    c.speed_bps or 0.0 if c and is_one else np.nan for c, is_one in zip(cables, compared, strict=True)
                ]
                own = (device.kind, np.array(speeds)) if device.kind == "host" or sum(compared) > 1 else None
            known = self._speeds[slot.device, slot.source] = slot.rows, own
        return known[1]

    def _rails(self, slot: DeviceSlot, compared: PeerWindowReport, group: PeerGroup) -> PeerWindow:
        begin_ns, width_ns = compared.number * self._rates.clock.width_ns, self._rates.clock.width_ns
        ports = tuple(self._topology.resolve_port(slot.device, row).port for row in slot.rows)
        return PeerWindow(
            slot.device, slot.source, group, begin_ns, begin_ns + width_ns, compared.since_ns, compared.at_ns, ports,
            compared.metrics, compared.values,
        )  # fmt: skip

    def _window(self, slot: DeviceSlot, told: PortWindowReport) -> Window:
        port = self._topology.resolve_port(slot.device, slot.rows[told.row]).port
        begin_ns, width_ns = told.number * self._rates.clock.width_ns, self._rates.clock.width_ns
        values = told.values.values()
        return Window(
            slot.device, port, slot.source, begin_ns, begin_ns + width_ns, told.since_ns, told.at_ns,
            tuple(metric for metric, _ in told.values), tuple(index for _, index in told.values),
            tuple(value for value, _ in values), tuple(before for _, before in values),
        )  # fmt: skip

    def _outputs(self, noticed: Sequence[Said]) -> list[Output]:
        watermark = max(self._liveness.watermark_ns(), self._floor_ns)
        if self._watermark_ns == IDLE_NS or watermark == IDLE_NS:
            self._watermark_ns = watermark
        self._watermark_ns = max(self._watermark_ns, watermark)
        if noticed or self._selves.counted.has_pending:
            noticed = [*noticed, *self._selves.on_symptoms(noticed, watermark)]
        return [
            Output(
                SYMPTOMS if isinstance(said, Symptom | SymptomsReplaced | CablingReport) else SUMMARIES, said, key=pod
            )
            for said in noticed
            for pod in self._pods(said)
        ]

    def _pods(self, symptom: Said) -> Iterable[str]:
        """A port's symptoms go to its link's home, a restart wherever the device has links, silence to its own pod."""
        if isinstance(symptom, VersionCensus):
            return (_FLEET,)
        if isinstance(symptom, Symptom | SymptomsReplaced | Window | CablingReport) and symptom.port:
            return (self._topology.home_pod(Port(symptom.device, symptom.port)),)
        if isinstance(symptom, Symptom) and isinstance(symptom.payload, Restart):
            return sorted(self._topology.pods_of_links(symptom.device))
        return (self._topology.pod_of(symptom.device),)

    def _samples(self, number: int, samples: Samples) -> None:
        at_ns, received_ns, boot_id = samples.sampled_at_ns, samples.received_at_ns, samples.boot_id
        if at_ns > received_ns + CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = received_ns
        if at_ns < self._floor_ns:
            self.counted["late"] += 1
        heard = self._liveness.source(samples.device, samples.source, at_ns)
        symptoms: list[Symptom] = []
        if boot_id and heard.boot_id and boot_id != heard.boot_id and at_ns > heard.last_ns:
            # Another life: the counters began anew somewhere between the two readings.
            self._readings.restarted(samples.device, samples.source, at_ns)
            symptoms.append(restarts.on_other_boot(heard, at_ns, boot_id, self._rates.clock.lateness_ns))
        elif boot_id and heard.restarts:
            symptoms += restarts.late_restart_symptoms(heard, at_ns, boot_id)
        symptoms += self._liveness.on_sample(heard, at_ns)
        if boot_id and at_ns == heard.last_ns:
            heard.boot_id = boot_id
        symptoms += self._liveness.on_arrival_clock(max(received_ns, at_ns))
        if symptoms:
            self._noticed += [(number, symptom) for symptom in symptoms]
        self._readings.enqueue(number, samples, at_ns)

    def _event(self, event: Event) -> list[Symptom]:
        at_ns = event.at_ns
        if event.received_at_ns and at_ns > event.received_at_ns + CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = event.received_at_ns
        symptoms = self._liveness.on_arrival_clock(max(event.received_at_ns, at_ns))
        if event.kind is EventKind.DEVICE_REBOOT:
            heard = self._liveness.sources.get((event.device, event.source)) or SourceState(
                event.device, event.source, 0
            )
            since_ns = min(heard.last_ns, at_ns)
            return [*symptoms, restarts.restart_symptom(heard, at_ns, since_ns, by_event=True)]
        if event.kind in _OF_GPUS and event.port:
            return [*symptoms, *gpu_symptoms(event, at_ns)]
        payload: Payload | None = _TRANSITIONS.get(event.kind)
        if event.kind is EventKind.PFC_STORM:
            payload = PfcWatchdogStorm(None, event.detail)
        if payload is None or not event.port:
            return symptoms
        port = self._topology.resolve_port(event.device, event.port).port
        told = Symptom(event.device, port, payload, at_ns, source=event.source, by_event=True)
        return [*symptoms, told, *self._words.add(event, at_ns, self._readings, self._topology)]

    def snapshot(self) -> bytes:
        held = [own.dump() for own in self._noted()]
        low, said = self._trained.dump(), self._selves.dump()
        return snapshot.dump(self._liveness, self._readings, self._floor_ns, self._watermark_ns, held, low, said)

    def restore(self, data: bytes) -> None:
        readings = ReadingStore(self._notice, self._conclude, self._rates.clock, self._late)
        liveness = Liveness(self._params.stale)
        trained, selves = PcieMonitor(self._params.pcie, {}), FactsTracker(self._params, self._partition)
        self._floor_ns, self._watermark_ns, held = snapshot.load(data, liveness, readings, trained, selves)
        self._readings, self._liveness, self._trained = readings, liveness, trained
        self._selves, self._words = selves, EventConfirmation(self._params)
        self._ongoing = LateReplay(self._params)
        for own, kept in zip(self._noted(), held, strict=False):  # of an earlier version, there are fewer
            own.load(kept)

    def _noted(self) -> tuple[ActiveConditions | EventConfirmation, ...]:
        """What is noted of ports beside their readings, in the order of the snapshot."""
        return *self._ongoing.held, self._words
