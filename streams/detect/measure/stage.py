"""measure: from samples, events and status of devices to the few symptoms that are notable.

Decides what changed at a port or a device, by array arithmetic over whole messages; a healthy fabric costs nothing
else. What a change means, and whether both ends agree, is for `correlate`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from streams.detect.measure import state
from streams.detect.measure.liveness import Liveness
from streams.detect.measure.readings import Change, Readings
from streams.detect.params import DetectParams, ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    IDLE_NS,
    NO_INDEX,
    CollectorStatus,
    Event,
    EventKind,
    Message,
    Progress,
    RowKind,
    Samples,
    Source,
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
_STATES = {
    Metric.OPER_UP: (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP),
    Metric.ADMIN_UP: (SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED),
}
_COUNTS = {
    Metric.LINK_DOWN_EVENTS: SymptomKind.DOWNS_COUNTED,
    Metric.LINK_TRANSITIONS: SymptomKind.TRANSITIONS_COUNTED,
}


class Measure:
    """The stage for one telemetry partition."""

    name = "measure"

    def __init__(self, params: DetectParams) -> None:
        self._liveness = Liveness(params.stale)
        self._readings: dict[tuple[str, Source, RowKind], Readings] = {}
        self._boot_ids: dict[tuple[str, Source], int] = {}
        self._topology = Topology(Inventory())
        self._floor_ns = 0
        self._watermark_ns = IDLE_NS
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
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        symptoms: list[Symptom] = []
        for message in batch:
            match message:
                case Samples():
                    symptoms += self._samples(message)
                case Event():
                    symptoms += self._event(message)
                case CollectorStatus():
                    self._liveness.status(message)
                    symptoms += self._liveness.arrive(message.at_ns, self._boot_ids)
                case Progress(watermark_ns=until_ns):
                    self._floor_ns = max(self._floor_ns, until_ns)
                case _:
                    pass  # facts concern no symptom of these detectors
        return self._outputs(symptoms)

    def advance(self, watermark_ns: int) -> list[Output]:
        return self._outputs(self._liveness.arrive(watermark_ns, self._boot_ids))

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

    def _samples(self, samples: Samples) -> list[Symptom]:
        at_ns = samples.sampled_at_ns
        if at_ns > samples.received_at_ns + _CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = samples.received_at_ns
        if at_ns < self._floor_ns:
            self.counted["late"] += 1
        key = (samples.device, samples.source)
        symptoms = self._restart(samples, at_ns)
        symptoms += self._liveness.sample(samples.device, samples.source, at_ns, self._boot_ids.get(key, 0))
        if samples.boot_id and at_ns == self._liveness.sources[key].last_ns:
            self._boot_ids[key] = samples.boot_id
        symptoms += self._liveness.arrive(max(samples.received_at_ns, at_ns), self._boot_ids)
        readings = self._readings.setdefault((*key, samples.row_kind), Readings())
        counters, gauges = readings.update(samples, at_ns)
        if samples.row_kind is RowKind.ROW_KIND_PORT:
            symptoms += self._ports(samples, counters, gauges, at_ns)
        return symptoms

    def _restart(self, samples: Samples, at_ns: int) -> list[Symptom]:
        """A boot id other than the last: the counters began anew somewhere between the two readings."""
        key = (samples.device, samples.source)
        before, heard = self._boot_ids.get(key, 0), self._liveness.sources.get(key)
        if not before or not samples.boot_id or before == samples.boot_id or heard is None or at_ns <= heard.last_ns:
            return []
        for kind in RowKind:
            if (readings := self._readings.get((*key, kind))) is not None:
                readings.restarted()
        return [self._restarted(samples.device, samples.source, at_ns, heard.last_ns)]

    def _restarted(
        self, device: str, source: Source, at_ns: int, since_ns: int, *, by_event: bool = False, detail: str = ""
    ) -> Symptom:
        """The life that ended names the restart."""
        return Symptom(
            device, "", SymptomKind.RESTARTED, at_ns, since_ns=since_ns, source=source, by_event=by_event,
            boot_id=self._boot_ids.get((device, source), 0), detail=detail,
        )  # fmt: skip

    def _event(self, event: Event) -> list[Symptom]:
        at_ns = event.at_ns
        if event.received_at_ns and at_ns > event.received_at_ns + _CLOCK_AHEAD_NS:
            self.counted["clock_ahead"] += 1
            at_ns = event.received_at_ns
        symptoms = self._liveness.arrive(max(event.received_at_ns, at_ns), self._boot_ids)
        if event.kind is EventKind.DEVICE_REBOOT:
            heard = self._liveness.sources.get((event.device, event.source))
            since_ns = min(heard.last_ns, at_ns) if heard else 0
            restarted = self._restarted(event.device, event.source, at_ns, since_ns, by_event=True, detail=event.detail)
            return [*symptoms, restarted]
        if (kind := _EVENTS.get(event.kind)) is None or not event.port:
            return symptoms
        port = self._topology.port(event.device, event.port).port
        told = Symptom(event.device, port, kind, at_ns, source=event.source, by_event=True, detail=event.detail)
        return [*symptoms, told]

    def _ports(self, samples: Samples, counters: Change, gauges: Change, at_ns: int) -> list[Symptom]:
        symptoms: list[Symptom] = []
        for metric, (off, on) in _STATES.items():
            if (column := gauges.columns.get((metric, NO_INDEX))) is not None:
                symptoms += self._states(samples, gauges, column, off, on, at_ns)
        for metric, kind in _COUNTS.items():
            if (column := counters.columns.get((metric, NO_INDEX))) is not None:
                grown = counters.grown(column)
                for row in np.flatnonzero(grown):
                    since_ns, count = int(counters.since_ns[column, row]), int(grown[row])
                    symptoms.append(self._symptom(samples, row, kind, at_ns, since_ns, count))
        return symptoms

    def _states(
        self, samples: Samples, gauges: Change, column: int, off: SymptomKind, on: SymptomKind, at_ns: int
    ) -> list[Symptom]:
        now, before = gauges.values[column] > 0, gauges.before[column] > 0
        changed = gauges.known[column] & (now != before)
        first_off = gauges.fresh[column] & ~gauges.known[column] & ~now
        symptoms = []
        for row in np.flatnonzero(changed | first_off):
            symptom = self._symptom(samples, row, on if now[row] else off, at_ns, int(gauges.since_ns[column, row]), 0)
            if changed[row] or self._tells(symptom):
                symptoms.append(symptom)
        return symptoms

    def _tells(self, first: Symptom) -> bool:
        """Whether a first reading of a port that is off is notable: an unused port of no known link is not."""
        known = self._topology.cable_at(Port(first.device, first.port)) is not None
        return known or first.kind is SymptomKind.ADMIN_DISABLED

    def _symptom(
        self, samples: Samples, row: np.intp, kind: SymptomKind, at_ns: int, since_ns: int, count: int
    ) -> Symptom:
        delay_ns = samples.row_delay_us[row] * 1000 if samples.row_delay_us else 0
        port = self._topology.port(samples.device, samples.row[row]).port
        return Symptom(
            samples.device, port, kind, at_ns + delay_ns, since_ns=since_ns, source=samples.source, count=count
        )

    def snapshot(self) -> bytes:
        return state.dump(self._liveness, self._readings, self._boot_ids, self._floor_ns, self._watermark_ns)

    def restore(self, data: bytes) -> None:
        kept = state.load(data)
        self._liveness.restore(kept.sources, kept.arrival_ns)
        self._readings, self._boot_ids = kept.readings, kept.boot_ids
        self._floor_ns, self._watermark_ns = kept.floor_ns, kept.watermark_ns
