"""Compares the state that a device reported by an event with the readings after it.

If an event is lost, the state that it would have ended stays open, and no reading differs from the previous one. If a
source contradicts the newest event of a port from its first later reading on, for `hold_up_s`, its state is reported as
of that reading. It has no reading before it (since 0), because the time of the change is unknown.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.monitors.transitions import STATES
from streams.detect.measure.storage.column_store import Column
from streams.detect.measure.storage.message_batch import DeviceSlot, LateMessage, MessageBatch
from streams.detect.measure.storage.reading_history import Cell
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Event, EventKind, RowKind, Source, Symptom
from streams.wire.symptoms import PortTransition

_UP: Column = (Metric.OPER_UP, NO_INDEX)
_ADMIN: Column = (Metric.ADMIN_UP, NO_INDEX)
_REPORTED: dict[EventKind, tuple[Column, bool]] = {
    EventKind.LINK_DOWN: (_UP, False),
    EventKind.LINK_UP: (_UP, True),
    EventKind.ADMIN_DOWN: (_ADMIN, False),
    EventKind.ADMIN_UP: (_ADMIN, True),
}


@dataclass(slots=True)
class UnconfirmedEvent:
    """The newest event of a port until a reading confirms it; `first_ns` is the first reading that contradicts it."""

    at_ns: int
    is_on: bool
    first_ns: int = 0
    is_reported: bool = False


class EventConfirmation(Monitor):
    """Tracks the unconfirmed events of ports, by device and by the source that reads it; normally none."""

    name = "events"

    def __init__(self, params: DetectParams) -> None:
        self._hold_ns, self._lateness_ns = ns(params.down.hold_up_s), ns(params.lateness_s)
        self._events: dict[tuple[str, Source], dict[Cell, UnconfirmedEvent]] = {}

    def is_relevant(self, batch: MessageBatch) -> bool:
        return batch.row_kind is RowKind.ROW_KIND_PORT and not STATES.keys().isdisjoint(
            batch.gauges.mapping.position_of
        )

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        """Store an event of a port, and compare it with stored readings after it if it arrives late."""
        if event.kind not in _REPORTED or not event.port:
            return
        column, is_on = _REPORTED[event.kind]
        port = topology.resolve_port(event.device, event.port).port
        for source in Source:
            slot = readings.slots.get((event.device, source, RowKind.ROW_KIND_PORT))
            if slot is None or not (row := slot.row_of(port, topology, event.port)):
                continue
            own = self._events.setdefault((event.device, source), {})
            if (cell := (column, row)) in own and own[cell].at_ns >= at_ns:
                continue
            own[cell] = UnconfirmedEvent(at_ns, is_on)
            if at_ns < slot.newest_ns:
                yield from self._compare_history(slot, cell, at_ns, topology)
            self._remove_empty(event.device, source)

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        for number, message in enumerate(batch.messages if self._events else ()):
            samples = message.samples
            for cell in list(self._events.get((samples.device, samples.source), ())):
                position = batch.gauges.mapping.position_of.get(cell[0])
                if position is None or cell[1] not in samples.row:
                    continue
                row = samples.row.index(cell[1])
                now, before = batch.gauges.values[number, position, row], batch.gauges.previous(position)[number, row]
                if now == now:  # not NaN
                    was = None if before != before else bool(before > 0)
                    for symptom in self._compare(message.slot, cell, message.at_ns, (was, bool(now > 0)), topology):
                        yield message.number, symptom
            self._remove_empty(samples.device, samples.source)

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        """Compare a late reading, which may be the first one after an event."""
        message = late.message
        samples = message.samples
        key = samples.device, samples.source
        for (column, row), event in list(self._events.get(key, {}).items()):
            mapping = message.slot.block.gauges.mapping(samples.gauges)
            if mapping is None or column not in mapping.position_of or row not in samples.row:
                continue
            now = samples.gauges.values[mapping.position_of[column], samples.row.index(row)]
            if now != now or not event.at_ns < message.at_ns < event.first_ns:
                continue
            if (now > 0) != event.is_on:
                event.first_ns = message.at_ns
                if event.is_reported:
                    yield message.number, _symptom(message.slot, (column, row), event, topology)
            elif not event.is_reported:
                del self._events[key][column, row]
        self._remove_empty(*key)

    def _compare_history(self, slot: DeviceSlot, cell: Cell, at_ns: int, topology: Topology) -> Iterator[Symptom]:
        """Compare a late event with the readings since."""
        gauges = slot.block.gauges
        if cell[0] not in gauges.index_of:
            return
        newest = float(gauges.values[slot.index, gauges.index_of[cell[0]], slot.rows.index(cell[1])])
        if newest != newest:  # NaN: never read
            return
        for read_ns in list(slot.history.times(cell, at_ns)):
            now, before = (slot.history.value_at(cell, t, newest) > 0 for t in (read_ns, read_ns - 1))
            yield from self._compare(slot, cell, read_ns, (before, now), topology)

    def _compare(
        self, slot: DeviceSlot, cell: Cell, at_ns: int, states: tuple[bool | None, bool], topology: Topology
    ) -> Iterator[Symptom]:
        """Compare a reading and the previous one with the event; if the two differ, a transition was reported."""
        own = self._events.get((slot.device, slot.source), {})
        event, (before, now) = own.get(cell), states
        if event is None or at_ns <= event.at_ns:
            return
        if now == event.is_on or (before is not None and before != now):
            del own[cell]
            return
        event.first_ns = event.first_ns or at_ns
        if not event.is_reported and at_ns - event.first_ns >= self._hold_ns:
            event.is_reported = True
            yield _symptom(slot, cell, event, topology)
        elif event.is_reported and at_ns - event.first_ns > self._hold_ns + self._lateness_ns:
            del own[cell]

    def _remove_empty(self, device: str, source: Source) -> None:
        if not self._events.get((device, source), True):
            del self._events[device, source]

    def dump(self) -> list[list[Any]]:
        return [
            [device, int(source), *column, row, event.at_ns, event.is_on, event.first_ns, event.is_reported]
            for (device, source), own in self._events.items()
            for (column, row), event in own.items()
        ]

    def load(self, data: Iterable[Iterable[Any]]) -> None:
        for device, source, metric, index, row, *event in data:
            own = self._events.setdefault((device, Source(source)), {})
            own[(Metric(metric), index), row] = UnconfirmedEvent(*event)


def _symptom(slot: DeviceSlot, cell: Cell, event: UnconfirmedEvent, topology: Topology) -> Symptom:
    column, row = cell
    port = topology.resolve_port(slot.device, row).port
    transition = PortTransition(STATES[column][not event.is_on])
    return Symptom(slot.device, port, transition, event.first_ns, source=slot.source)
