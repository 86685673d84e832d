"""What goes on at ports, told anew where a reading comes late into a gap: as if it had come in its time.

Who compares each reading with the one before it (pauses.py, crowds.py, slowed.py) needs both ends of what a late
reading divides. But a reading that is going to be late leaves a gap first. So what a device had before a gap is kept
for the lateness, and its readings since; a late one among them has all of them compared again, from the gap on, and
what comes out otherwise is told anew. Where readings come in order there is no gap, and nothing is kept.
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from streams.detect.measure.monitors.active_conditions import ActiveCondition, ActiveConditions
from streams.detect.measure.monitors.cnp_monitor import CnpMonitor
from streams.detect.measure.monitors.incast_monitor import IncastMonitor
from streams.detect.measure.monitors.pause_monitor import PauseMonitor
from streams.detect.measure.monitors.transitions import NumberedSymptom
from streams.detect.measure.storage.column_store import DeviceColumns, TableDelta
from streams.detect.measure.storage.device_block import DeviceBlock
from streams.detect.measure.storage.reading_store import DeviceSlot, MessageBatch, PendingMessage
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Source, Symptom, SymptomsReplaced
from streams.wire.symptoms import Congestion, CongestionState

_MOST_GAPS = 512
"""Kept at once, so that an outage of all costs no memory: of more, a late reading is not compared."""

_Key = tuple[str, Source]
_Ports = dict[tuple[str, int], ActiveCondition]


@dataclass(slots=True)
class _Gap:
    """One device as one source reads it, from before a gap on."""

    slot: DeviceSlot
    block: DeviceBlock
    place: int
    since_ns: int
    until_ns: int
    rows: tuple[DeviceColumns, DeviceColumns]
    held: list[_Ports]
    taken: list[PendingMessage] = field(default_factory=list)
    told: list[Symptom] = field(default_factory=list)


class LateReplay:
    """What goes on at ports, by all who say what it is."""

    def __init__(self, params: DetectParams) -> None:
        self._pauses, self._crowds = PauseMonitor(params.storm, params.collapse), IncastMonitor(params)
        self._slowed = CnpMonitor(params.incast)
        self.held: tuple[ActiveConditions, ...] = (
            self._pauses.active, self._crowds.active, self._pauses.throttle.active, self._slowed.active
        )  # fmt: skip
        self._lateness_ns = ns(params.lateness_s)
        self._gaps: dict[_Key, _Gap] = {}

    def process(self, wave: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        """What a wave shows."""
        self._open(wave)
        noticed = self._look(wave, topology)
        if self._gaps:
            for taken in wave.messages:
                self._keep(taken, is_odd=wave.counters.rows is not None)
            for _, symptom in noticed:
                if (gap := self._gaps.get((symptom.device, symptom.source))) is not None:
                    gap.told.append(symptom)
        return noticed

    def reprocess(self, taken: PendingMessage, topology: Topology) -> Iterator[tuple[int, SymptomsReplaced]]:
        """A message that is older than its device's last."""
        slot, samples = taken.slot, taken.samples
        gap = self._gaps.get((samples.device, samples.source))
        if gap is None or gap.slot is not slot or not gap.since_ns < taken.at_ns or samples.row != slot.rows:
            return
        if (slot.block, slot.index) != (gap.block, gap.place) or samples.boot_id != gap.taken[0].samples.boot_id:
            return
        insort(gap.taken, taken, key=attrgetter("at_ns"))
        before, gap.told = _by_port(gap.told), self._again(gap, topology)
        now = _by_port(gap.told)
        for key in dict.fromkeys((*before, *now)):
            if (told := now.get(key, [])) != before.get(key):
                port, state = key
                yield (
                    taken.number,
                    SymptomsReplaced(samples.device, port, samples.source, state, gap.since_ns, tuple(told)),
                )

    def _look(self, wave: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        noticed = self._pauses.process(wave, topology)
        noticed += self._crowds.process(wave, topology)
        noticed += self._slowed.process(wave, topology)
        return noticed

    def _open(self, wave: MessageBatch) -> None:
        """Where a reading is missing, as it seems: more than half as long again as usual there was none."""
        change = wave.counters
        stack, devices = change.store, change.devices
        if change.rows is not None or not stack.columns:
            return
        since_ns, usual_ns = np.maximum.reduce(stack.at_ns[devices], axis=1), stack.typical_interval_ns[devices]
        interval_ns = change.at_ns - since_ns
        gapped = (since_ns > 0) & (2 * interval_ns > 3 * usual_ns)
        stack.typical_interval_ns[devices] = np.minimum(interval_ns, usual_ns + usual_ns // 4)
        if not np.count_nonzero(gapped):
            return
        for message in np.flatnonzero(gapped).tolist():
            self._opened(wave.messages[message], int(since_ns[message]))

    def _opened(self, taken: PendingMessage, since_ns: int) -> None:
        slot, key = taken.slot, (taken.samples.device, taken.samples.source)
        known = self._gaps.get(key)
        until_ns = taken.at_ns + self._lateness_ns
        if known is not None and known.taken and taken.at_ns <= known.taken[0].at_ns + self._lateness_ns:
            known.until_ns = until_ns
            return
        if known is None and len(self._gaps) >= _MOST_GAPS:
            oldest = next(iter(self._gaps))
            if self._gaps[oldest].until_ns >= taken.at_ns:
                return
            del self._gaps[oldest]  # nothing was read of it since
        rows = slot.block.counters.copy_of(slot.index), slot.block.gauges.copy_of(slot.index)
        held = [_copied(own.by_source.get(key, {})) for own in self.held]
        self._gaps[key] = _Gap(slot, slot.block, slot.index, since_ns, until_ns, rows, held)

    def _keep(self, taken: PendingMessage, *, is_odd: bool) -> None:
        """A reading after a gap; what is kept is let go of when nothing can come into it any more."""
        key = taken.samples.device, taken.samples.source
        gap = self._gaps.get(key)
        if gap is None or gap.slot is not taken.slot:
            return
        last = gap.taken[-1] if gap.taken else None
        if last is not None and taken.at_ns <= last.at_ns:
            return
        other_life = last is not None and last.samples.boot_id != taken.samples.boot_id
        if is_odd or other_life or taken.at_ns > gap.until_ns:
            del self._gaps[key]
        else:
            gap.taken.append(taken)

    def _again(self, gap: _Gap, topology: Topology) -> list[Symptom]:
        """Compare all readings since the gap once more, in their order; answers what they show."""
        stacks, key = (gap.block.counters, gap.block.gauges), (gap.slot.device, gap.slot.source)
        newest = [stack.copy_of(gap.place) for stack in stacks]
        for stack, row in zip(stacks, gap.rows, strict=True):
            stack.restore(gap.place, row)
        for own, ports in zip(self.held, gap.held, strict=True):
            own.put(key, _copied(ports))
        told: list[Symptom] = []
        for taken in gap.taken:
            wave = _wave(gap, taken)
            told += (symptom for _, symptom in self._look(wave, topology))
            for change in (wave.counters, wave.gauges):
                change.store.apply(change)
        for stack, row in zip(stacks, newest, strict=True):
            stack.restore(gap.place, row)
        return told


def _copied(ports: _Ports) -> _Ports:
    return {place: replace(held) for place, held in ports.items()}


def _by_port(told: list[Symptom]) -> dict[tuple[str, CongestionState], list[Symptom]]:
    """By port and state."""
    found: dict[tuple[str, CongestionState], list[Symptom]] = {}
    for symptom in told:
        assert isinstance(symptom.payload, Congestion)
        found.setdefault((symptom.port, symptom.payload.state), []).append(symptom)
    return found


def _wave(gap: _Gap, taken: PendingMessage) -> MessageBatch:
    """A message alone."""
    device, at_ns = np.array([gap.place], np.intp), np.array([taken.at_ns], np.int64)
    changes = []
    for stack, table in ((gap.block.counters, taken.samples.counters), (gap.block.gauges, taken.samples.gauges)):
        fit = stack.mapping(table)
        assert fit is not None, "its block has all its columns, or its gap was let go of"
        values = table.values.view()
        values.flags.writeable = False
        changes.append(
            TableDelta(stack, device, fit, values.reshape(1, len(fit.columns), gap.block.layout.rows), at_ns)
        )
    return MessageBatch(gap.block.layout.row_kind, [taken], *changes)
