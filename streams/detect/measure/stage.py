"""measure: from samples, events and status of devices to the few symptoms and windows that are notable.

Decides what changed at a port or a device, by array arithmetic over whole messages; a healthy fabric costs nothing
else. What a change means, and whether both ends agree, is for `correlate`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from streams.detect.measure import late, lives, state, uplinks
from streams.detect.measure.again import Ongoing
from streams.detect.measure.blocks import Places
from streams.detect.measure.held import HeldPorts
from streams.detect.measure.liveness import CLOCK_AHEAD_NS, Heard, Liveness
from streams.detect.measure.ports import Notable
from streams.detect.measure.rates import Rates
from streams.detect.measure.readings import Readings, Slot, Taken, Wave
from streams.detect.measure.selves import Selves
from streams.detect.measure.told import Compared, Told
from streams.detect.measure.trained import WIDTH, Trained
from streams.detect.measure.windows import Closed, Windows
from streams.detect.measure.words import Words, gpu_said
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
        self._rates = Rates(params)
        self._readings = Readings(self._notice, self._conclude, self._rates.clock, self._late)
        self._topology = Topology(Inventory())
        self._notable = Notable(self._topology)
        self._ongoing = Ongoing(params)
        self._speeds: dict[tuple[str, Source], tuple[tuple[str, ...], _Speeds | None]] = {}
        self._trained = Trained(params.pcie, {})
        self._selves, self._words = Selves(params, partition), Words(params)
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
        self._notable = Notable(topology)
        self._speeds = {}
        at_ns = self._floor_ns if self._watermark_ns == IDLE_NS else self._watermark_ns
        return self._outputs(self._selves.adopt(topology, at_ns))

    def process(self, batch: Sequence[Message]) -> list[Output]:
        noticed = self._noticed
        for number, message in enumerate(batch):
            if isinstance(message, Samples):
                self._samples(number, message)
            elif isinstance(message, Event):
                noticed += [(number, symptom) for symptom in self._event(message)]
            elif isinstance(message, CollectorStatus):
                self._liveness.status(message)
                noticed += [(number, symptom) for symptom in self._liveness.arrive(message.at_ns)]
            elif isinstance(message, Progress):
                self._floor_ns = max(self._floor_ns, message.watermark_ns)
            elif isinstance(message, Facts):
                noticed += [(number, cabling) for cabling in self._selves.take(message)]
        self._readings.fold()
        self._noticed = []
        noticed.sort(key=itemgetter(0))
        return self._outputs([symptom for _, symptom in noticed])

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        return self._outputs(self._liveness.arrive(watermark_ns))

    def _notice(self, wave: Wave) -> None:
        """What the ports of a message show comes after what its device shows: the sort by number is stable."""
        if wave.row_kind is RowKind.ROW_KIND_PORT:
            self._noticed += self._notable.of(wave)
            self._noticed += self._words.of(wave, self._topology)
            self._noticed += self._ongoing.of(wave, self._topology)
        elif wave.row_kind is RowKind.ROW_KIND_GPU:
            self._noticed += self._notable.of_gpus(wave)
        if WIDTH in wave.gauges.fit.at:
            self._noticed += self._trained.of(wave, self._topology)

    def _late(self, taken: Taken, rows: Places) -> None:
        self._noticed += late.told(taken, rows, self._notable)
        self._noticed += self._words.late(taken, self._topology)
        self._noticed += self._trained.late(taken, rows, self._topology)
        self._noticed += self._ongoing.late(taken, self._topology)

    def _conclude(self, group: list[Taken], windows: Windows, closed: Closed) -> None:
        """The windows of event time that are final, as far as they are told."""
        for told in self._rates.of(windows, closed):
            taken = group[told.message]
            self._noticed.append((taken.number, self._window(taken.slot, told)))
        of = [self._speeds_of(group[message].slot) for message in closed.messages.tolist()]
        for compare, kind, peers in (
            (self._rates.rails, "host", PeerGroup.HOST_RAILS), (self._uplinks, "switch", PeerGroup.SWITCH_UPLINKS)
        ):  # fmt: skip
            own = [i for i, known in enumerate(of) if known is not None and known[0] == kind]
            if own:
                speeds = np.stack([known[1] for known in of if known is not None and known[0] == kind])
                for message, compared in compare(windows, closed, own, speeds):
                    self._noticed.append((group[message].number, self._rails(group[message].slot, compared, peers)))

    def _uplinks(
        self, windows: Windows, closed: Closed, switches: Sequence[int], speeds: npt.NDArray[np.float64]
    ) -> Iterator[tuple[int, Compared]]:
        return uplinks.told(self._params, windows, closed, switches, speeds)

    def _speeds_of(self, slot: Slot) -> _Speeds | None:
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

    def _rails(self, slot: Slot, compared: Compared, group: PeerGroup) -> PeerWindow:
        begin_ns, width_ns = compared.number * self._rates.clock.width_ns, self._rates.clock.width_ns
        ports = tuple(self._topology.resolve_port(slot.device, row).port for row in slot.rows)
        return PeerWindow(
            slot.device, slot.source, group, begin_ns, begin_ns + width_ns, compared.since_ns, compared.at_ns, ports,
            compared.metrics, compared.values,
        )  # fmt: skip

    def _window(self, slot: Slot, told: Told) -> Window:
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
        if noticed or self._selves.counted.is_news:
            noticed = [*noticed, *self._selves.heed(noticed, watermark)]
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
        heard = self._liveness.of(samples.device, samples.source, at_ns)
        symptoms: list[Symptom] = []
        if boot_id and heard.boot_id and boot_id != heard.boot_id and at_ns > heard.last_ns:
            # Another life: the counters began anew somewhere between the two readings.
            self._readings.restarted(samples.device, samples.source, at_ns)
            symptoms.append(lives.begun(heard, at_ns, boot_id, self._rates.clock.lateness_ns))
        elif boot_id and heard.lives:
            symptoms += lives.late(heard, at_ns, boot_id)
        symptoms += self._liveness.sample(heard, at_ns)
        if boot_id and at_ns == heard.last_ns:
            heard.boot_id = boot_id
        symptoms += self._liveness.arrive(max(received_ns, at_ns))
        if symptoms:
            self._noticed += [(number, symptom) for symptom in symptoms]
        self._readings.take(number, samples, at_ns)

    def _event(self, event: Event) -> list[Symptom]:
        at_ns = event.at_ns
        if event.received_at_ns and at_ns > event.received_at_ns + CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = event.received_at_ns
        symptoms = self._liveness.arrive(max(event.received_at_ns, at_ns))
        if event.kind is EventKind.DEVICE_REBOOT:
            heard = self._liveness.sources.get((event.device, event.source)) or Heard(event.device, event.source, 0)
            since_ns = min(heard.last_ns, at_ns)
            return [*symptoms, lives.restarted(heard, at_ns, since_ns, by_event=True)]
        if event.kind in _OF_GPUS and event.port:
            return [*symptoms, *gpu_said(event, at_ns)]
        payload: Payload | None = _TRANSITIONS.get(event.kind)
        if event.kind is EventKind.PFC_STORM:
            payload = PfcWatchdogStorm(None, event.detail)
        if payload is None or not event.port:
            return symptoms
        port = self._topology.resolve_port(event.device, event.port).port
        told = Symptom(event.device, port, payload, at_ns, source=event.source, by_event=True)
        return [*symptoms, told, *self._words.take(event, at_ns, self._readings, self._topology)]

    def snapshot(self) -> bytes:
        held = [own.dump() for own in self._noted()]
        low, said = self._trained.dump(), self._selves.dump()
        return state.dump(self._liveness, self._readings, self._floor_ns, self._watermark_ns, held, low, said)

    def restore(self, data: bytes) -> None:
        readings = Readings(self._notice, self._conclude, self._rates.clock, self._late)
        liveness = Liveness(self._params.stale)
        trained, selves = Trained(self._params.pcie, {}), Selves(self._params, self._partition)
        self._floor_ns, self._watermark_ns, held = state.load(data, liveness, readings, trained, selves)
        self._readings, self._liveness, self._trained = readings, liveness, trained
        self._selves, self._words = selves, Words(self._params)
        self._ongoing = Ongoing(self._params)
        for own, kept in zip(self._noted(), held, strict=False):  # of an earlier version, there are fewer
            own.load(kept)

    def _noted(self) -> tuple[HeldPorts | Words, ...]:
        """What is noted of ports beside their readings, in the order of the snapshot."""
        return *self._ongoing.held, self._words
