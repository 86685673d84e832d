"""measure: from samples, events and status of devices to the few symptoms that are notable.

Decides what changed at a port or a device, by array arithmetic over whole messages; a healthy fabric costs nothing
else. What a change means, and whether both ends agree, is for `correlate`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter

from streams.detect.measure import state
from streams.detect.measure.liveness import Heard, Liveness
from streams.detect.measure.ports import Notable
from streams.detect.measure.readings import Readings, Wave
from streams.detect.params import DetectParams, ns
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    IDLE_NS,
    CollectorStatus,
    Event,
    EventKind,
    Message,
    Progress,
    RowKind,
    Samples,
    Symptom,
    SymptomKind,
)
from streams.wire.stage import Output
from streams.wire.topics import SYMPTOMS

_CLOCK_AHEAD_NS = ns(1)
"""A device whose clock is further ahead than this is dated by the arrival of its samples (DESIGN 2.1)."""

_EVENTS = {
    EventKind.LINK_DOWN: SymptomKind.WENT_DOWN,
    EventKind.LINK_UP: SymptomKind.CAME_UP,
    EventKind.ADMIN_DOWN: SymptomKind.ADMIN_DISABLED,
    EventKind.ADMIN_UP: SymptomKind.ADMIN_ENABLED,
}


class Measure:
    """The stage for one telemetry partition."""

    name = "measure"

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._liveness = Liveness(params.stale)
        self._readings = Readings(self._notice)
        self._topology = Topology(Inventory())
        self._notable = Notable(self._topology)
        self._floor_ns = 0
        self._watermark_ns = IDLE_NS
        self._noticed: list[tuple[int, Symptom]] = []
        """What the batch shows so far, each with the number of its message."""
        self.counted: Counter[str] = Counter()
        """Self-metrics: `clock_ahead`, `late`."""

    @property
    def watermark_ns(self) -> int:
        """See Stage; IDLE_NS while nothing here is live."""
        return self._watermark_ns

    def begin(self, epoch: int) -> None:
        """Symptoms carry no revision: they are the same however often they are said."""

    def adopt(self, topology: Topology) -> list[Output]:
        self._topology = topology
        self._notable = Notable(topology)
        return []

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
            # facts concern no symptom of these detectors
        self._readings.fold()
        self._noticed = []
        noticed.sort(key=itemgetter(0))
        return self._outputs(symptom for _, symptom in noticed)

    def advance(self, watermark_ns: int) -> list[Output]:
        return self._outputs(self._liveness.arrive(watermark_ns))

    def _notice(self, wave: Wave) -> None:
        """What the ports of a message show comes after what its device shows: the sort by number is stable."""
        if wave.row_kind is RowKind.ROW_KIND_PORT:
            self._noticed += self._notable.of(wave)

    def _outputs(self, symptoms: Iterable[Symptom]) -> list[Output]:
        watermark = max(self._liveness.watermark_ns(), self._floor_ns)
        if self._watermark_ns == IDLE_NS or watermark == IDLE_NS:
            self._watermark_ns = watermark
        self._watermark_ns = max(self._watermark_ns, watermark)
        return [Output(SYMPTOMS, symptom, key=pod) for symptom in symptoms for pod in self._pods(symptom)]

    def _pods(self, symptom: Symptom) -> Iterable[str]:
        """A port's symptoms go to its link's home, a restart wherever the device has links, silence to its own pod."""
        if symptom.port:
            return (self._topology.home_pod(Port(symptom.device, symptom.port)),)
        if symptom.kind is SymptomKind.RESTARTED:
            return sorted(self._topology.pods_touching(symptom.device))
        return (self._topology.pod_of(symptom.device),)

    def _samples(self, number: int, samples: Samples) -> None:
        at_ns, received_ns, boot_id = samples.sampled_at_ns, samples.received_at_ns, samples.boot_id
        if at_ns > received_ns + _CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = received_ns
        if at_ns < self._floor_ns:
            self.counted["late"] += 1
        heard = self._liveness.of(samples.device, samples.source, at_ns)
        symptoms: list[Symptom] = []
        if boot_id and heard.boot_id and boot_id != heard.boot_id and at_ns > heard.last_ns:
            # Another life: the counters began anew somewhere between the two readings.
            self._readings.restarted(samples.device, samples.source)
            symptoms.append(_restarted(heard, at_ns, heard.last_ns))
        symptoms += self._liveness.sample(heard, at_ns)
        if boot_id and at_ns == heard.last_ns:
            heard.boot_id = boot_id
        symptoms += self._liveness.arrive(max(received_ns, at_ns))
        if symptoms:
            self._noticed += [(number, symptom) for symptom in symptoms]
        self._readings.take(number, samples, at_ns)

    def _event(self, event: Event) -> list[Symptom]:
        at_ns = event.at_ns
        if event.received_at_ns and at_ns > event.received_at_ns + _CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = event.received_at_ns
        symptoms = self._liveness.arrive(max(event.received_at_ns, at_ns))
        if event.kind is EventKind.DEVICE_REBOOT:
            heard = self._liveness.sources.get((event.device, event.source)) or Heard(event.device, event.source, 0)
            since_ns = min(heard.last_ns, at_ns)
            return [*symptoms, _restarted(heard, at_ns, since_ns, by_event=True, detail=event.detail)]
        if (kind := _EVENTS.get(event.kind)) is None or not event.port:
            return symptoms
        port = self._topology.port(event.device, event.port).port
        told = Symptom(event.device, port, kind, at_ns, source=event.source, by_event=True, detail=event.detail)
        return [*symptoms, told]

    def snapshot(self) -> bytes:
        return state.dump(self._liveness, self._readings, self._floor_ns, self._watermark_ns)

    def restore(self, data: bytes) -> None:
        readings, liveness = Readings(self._notice), Liveness(self._params.stale)
        self._floor_ns, self._watermark_ns = state.load(data, liveness, readings)
        self._readings, self._liveness = readings, liveness


def _restarted(heard: Heard, at_ns: int, since_ns: int, *, by_event: bool = False, detail: str = "") -> Symptom:
    """The life that ended names the restart."""
    return Symptom(
        heard.device, "", SymptomKind.RESTARTED, at_ns, since_ns=since_ns, source=heard.source, by_event=by_event,
        boot_id=heard.boot_id, detail=detail,
    )  # fmt: skip
