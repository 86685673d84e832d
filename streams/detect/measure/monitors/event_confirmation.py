"""What a device tells of a port as it happens, and whether what is read afterwards bears it out.

An event that is lost leaves open what it would have closed, and no reading differs from the one before it. So what is
read after an event is compared with it: where a source says otherwise from its first reading after it on, for
`hold_up_s`, that is told as of that reading. It has no reading before it (since 0): when it changed nobody knows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.detect.evidence import xids
from streams.detect.measure.monitors.transitions import STATES, NumberedSymptom
from streams.detect.measure.storage.column_store import Column
from streams.detect.measure.storage.reading_history import Cell
from streams.detect.measure.storage.reading_store import DeviceSlot, MessageBatch, PendingMessage, ReadingStore
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Event, EventKind, RowKind, Source, Symptom
from streams.wire.symptoms import GpuXid, PortTransition

_UP: Column = (Metric.OPER_UP, NO_INDEX)
_ADMIN: Column = (Metric.ADMIN_UP, NO_INDEX)
_SAID: dict[EventKind, tuple[Column, bool]] = {
    EventKind.LINK_DOWN: (_UP, False),
    EventKind.LINK_UP: (_UP, True),
    EventKind.ADMIN_DOWN: (_ADMIN, False),
    EventKind.ADMIN_UP: (_ADMIN, True),
}


@dataclass(slots=True)
class UnconfirmedEvent:
    """The newest event of a port, until what is read bears it out; `first_ns` is the first reading that does not."""

    at_ns: int
    is_on: bool
    first_ns: int = 0
    told: bool = False


class EventConfirmation:
    """Those of the ports of which something was told, by device and the source that reads it: none, mostly."""

    def __init__(self, params: DetectParams) -> None:
        self._hold_ns, self._lateness_ns = ns(params.down.hold_up_s), ns(params.lateness_s)
        self._kept: dict[tuple[str, Source], dict[Cell, UnconfirmedEvent]] = {}

    def add(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        """An event of a port, whose state is now to be borne out; what was read since then says so if it comes late."""
        if event.kind not in _SAID:
            return
        column, is_on = _SAID[event.kind]
        port = topology.resolve_port(event.device, event.port).port
        for source in Source:
            slot = readings.slots.get((event.device, source, RowKind.ROW_KIND_PORT))
            row = _row(slot, event.port, port, topology) if slot is not None else None
            if slot is None or row is None:
                continue
            own = self._kept.setdefault((event.device, source), {})
            if (cell := (column, row)) in own and own[cell].at_ns >= at_ns:
                continue
            own[cell] = UnconfirmedEvent(at_ns, is_on)
            if at_ns < slot.newest_ns:
                readings.flush()
                yield from self._since(slot, cell, at_ns, topology)
            self._tidy(event.device, source)

    def process(self, wave: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        """What some messages say against a word."""
        for message, taken in enumerate(wave.messages if self._kept else ()):
            samples = taken.samples
            for cell in list(self._kept.get((samples.device, samples.source), ())):
                position = wave.gauges.mapping.position_of.get(cell[0])
                if position is None or cell[1] not in samples.row:
                    continue
                row = samples.row.index(cell[1])
                now, before = wave.gauges.values[message, position, row], wave.gauges.previous(position)[message, row]
                if now == now:  # is not NaN
                    was = None if before != before else bool(before > 0)
                    for symptom in self._read(taken.slot, cell, taken.at_ns, (was, bool(now > 0)), topology):
                        yield taken.number, symptom
            self._tidy(samples.device, samples.source)

    def process_late(self, taken: PendingMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        """A late message: its reading may be the first after a word."""
        samples = taken.samples
        key = samples.device, samples.source
        for (column, row), word in list(self._kept.get(key, {}).items()):
            position = taken.slot.block.gauges.mapping(samples.gauges)
            if position is None or column not in position.position_of or row not in samples.row:
                continue
            now = samples.gauges.values[position.position_of[column], samples.row.index(row)]
            if now != now or not word.at_ns < taken.at_ns < word.first_ns:
                continue
            if (now > 0) != word.is_on:
                word.first_ns = taken.at_ns
                if word.told:
                    yield taken.number, _symptom(taken.slot, (column, row), word, topology)
            elif not word.told:
                del self._kept[key][column, row]
        self._tidy(*key)

    def _since(self, slot: DeviceSlot, cell: Cell, at_ns: int, topology: Topology) -> Iterator[Symptom]:
        """What was read since an event that comes late."""
        gauges = slot.block.gauges
        if cell[0] not in gauges.index_of:
            return
        newest = float(gauges.values[slot.index, gauges.index_of[cell[0]], slot.rows.index(cell[1])])
        if newest != newest:  # is NaN: never read
            return
        for read_ns in list(slot.history.times(cell, at_ns)):
            now, before = (slot.history.value_at(cell, t, newest) > 0 for t in (read_ns, read_ns - 1))
            yield from self._read(slot, cell, read_ns, (before, now), topology)

    def _read(
        self, slot: DeviceSlot, cell: Cell, at_ns: int, states: tuple[bool | None, bool], topology: Topology
    ) -> Iterator[Symptom]:
        """One reading, and the one before it; where they differ, a step was told that says all."""
        own = self._kept.get((slot.device, slot.source), {})
        word, (before, now) = own.get(cell), states
        if word is None or at_ns <= word.at_ns:
            return
        if now == word.is_on or (before is not None and before != now):
            del own[cell]
            return
        word.first_ns = word.first_ns or at_ns
        if not word.told and at_ns - word.first_ns >= self._hold_ns:
            word.told = True
            yield _symptom(slot, cell, word, topology)
        elif word.told and at_ns - word.first_ns > self._hold_ns + self._lateness_ns:
            del own[cell]

    def _tidy(self, device: str, source: Source) -> None:
        if not self._kept.get((device, source), True):
            del self._kept[device, source]

    def dump(self) -> list[list[Any]]:
        """For a snapshot."""
        return [
            [device, int(source), *column, row, word.at_ns, word.is_on, word.first_ns, word.told]
            for (device, source), own in self._kept.items()
            for (column, row), word in own.items()
        ]

    def load(self, kept: Iterable[Iterable[Any]]) -> None:
        """The inverse."""
        for device, source, metric, index, row, *word in kept:
            self._kept.setdefault((device, Source(source)), {})[(Metric(metric), index), row] = UnconfirmedEvent(*word)


def _row(slot: DeviceSlot, name: str, port: str, topology: Topology) -> str | None:
    """Under which name a source reads a port."""
    known = next((row for row in (name, port) if row in slot.rows), None)
    return known or next((row for row in slot.rows if topology.resolve_port(slot.device, row).port == port), None)


def _symptom(slot: DeviceSlot, cell: Cell, word: UnconfirmedEvent, topology: Topology) -> Symptom:
    column, row = cell
    transition = PortTransition(STATES[column][not word.is_on])
    return Symptom(
        slot.device, topology.resolve_port(slot.device, row).port, transition, word.first_ns, source=slot.source
    )


def gpu_symptoms(event: Event, at_ns: int) -> list[Symptom]:
    """What the driver says of a GPU, with an Xid or in words."""
    code = event.code if event.kind is EventKind.GPU_XID else xids.code_of(event.detail)
    if code is None:
        return []
    payload = GpuXid(code, xids.is_recovered(code, event.detail), event.detail)
    return [Symptom(event.device, event.port, payload, at_ns, source=event.source, by_event=True)]
