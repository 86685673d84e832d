"""Replays the readings since a gap if a late one arrives, as if it had arrived in time.

Monitors that compare each reading with the previous one need both ends of the interval that a late reading divides. A
late reading leaves a gap first. The state of a device before a gap is therefore retained for the lateness, and so are
its readings since. When a late one arrives, all are compared again from the gap on, and symptoms that change are
replaced. If readings arrive in order there is no gap, and nothing is retained.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np

from streams.detect.measure.monitors.monitor import (
    ActiveCondition,
    ActiveConditions,
    ConditionMonitor,
    Monitor,
    NumberedOutput,
    NumberedSymptom,
)
from streams.detect.measure.storage.column_store import DeviceColumns
from streams.detect.measure.storage.message_batch import (
    DeviceBlock,
    DeviceSlot,
    LateMessage,
    MessageBatch,
    PendingMessage,
)
from streams.fabric.topology import Topology
from streams.wire.models import RowKind, Source, Symptom, SymptomsReplaced
from streams.wire.symptoms import Congestion, CongestionState

_MAX_GAPS = 512
"""The most gaps, so that an outage of all devices costs no memory; beyond it, late readings are not replayed."""

_Key = tuple[str, Source]
_Conditions = dict[tuple[str, int], ActiveCondition]


@dataclass(slots=True)
class _Gap:
    """One device as read by one source: its state before a gap, and its messages and symptoms since."""

    slot: DeviceSlot
    block: DeviceBlock
    index: int
    since_ns: int
    until_ns: int
    columns: tuple[DeviceColumns, DeviceColumns]
    conditions: list[_Conditions]
    messages: list[PendingMessage] = field(default_factory=list)
    symptoms: list[Symptom] = field(default_factory=list)


class LateReplay(Monitor):
    """Runs and replays the monitors that can be replayed; reads and restores the stored columns of a device."""

    name = "replayed"

    def __init__(self, monitors: Sequence[ConditionMonitor], lateness_ns: int) -> None:
        self._monitors = tuple(monitors)
        self.active: tuple[ActiveConditions, ...] = tuple(one for own in self._monitors for one in own.active)
        self._lateness_ns = lateness_ns
        self._gaps: dict[_Key, _Gap] = {}

    def is_relevant(self, batch: MessageBatch) -> bool:
        return batch.row_kind is RowKind.ROW_KIND_PORT

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        self._find_gaps(batch)
        found = self._compare(batch, topology)
        if self._gaps:
            for message in batch.messages:
                self._retain(message, is_irregular=batch.counters.rows is not None)
            for _, symptom in found:
                if (gap := self._gaps.get((symptom.device, symptom.source))) is not None:
                    gap.symptoms.append(symptom)
        return found

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedOutput]:
        message = late.message
        slot, samples = message.slot, message.samples
        gap = self._gaps.get((samples.device, samples.source))
        if gap is None or gap.slot is not slot or not gap.since_ns < message.at_ns or samples.row != slot.rows:
            return
        if (slot.block, slot.index) != (gap.block, gap.index) or samples.boot_id != gap.messages[0].samples.boot_id:
            return
        insort(gap.messages, message, key=attrgetter("at_ns"))
        before, gap.symptoms = _by_state(gap.symptoms), self._replay(gap, topology)
        now = _by_state(gap.symptoms)
        for key in dict.fromkeys((*before, *now)):
            if (symptoms := now.get(key, [])) != before.get(key):
                port, state = key
                replaced = SymptomsReplaced(samples.device, port, samples.source, state, gap.since_ns, tuple(symptoms))
                yield message.number, replaced

    def dump(self) -> dict[str, Any]:
        return {monitor.name: [active.dump() for active in monitor.active] for monitor in self._monitors}

    def load(self, data: dict[str, Any]) -> None:
        for monitor in self._monitors:
            for active, own in zip(monitor.active, data.get(monitor.name, ()), strict=False):
                active.load(own)

    def _compare(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        found: list[NumberedSymptom] = []
        for monitor in self._monitors:
            found += monitor.process(batch, topology)
        return found

    def _find_gaps(self, batch: MessageBatch) -> None:
        """Open a gap if a reading seems to be missing: the interval is more than 1.5 times the typical one."""
        delta = batch.counters
        store, devices = delta.store, delta.devices
        if delta.rows is not None or not store.columns:
            return
        since_ns, typical_ns = np.maximum.reduce(store.at_ns[devices], axis=1), store.typical_interval_ns[devices]
        interval_ns = delta.at_ns - since_ns
        has_gap = (since_ns > 0) & (2 * interval_ns > 3 * typical_ns)
        store.typical_interval_ns[devices] = np.minimum(interval_ns, typical_ns + typical_ns // 4)
        if not np.count_nonzero(has_gap):
            return
        for number in np.flatnonzero(has_gap).tolist():
            self._open(batch.messages[number], int(since_ns[number]))

    def _open(self, message: PendingMessage, since_ns: int) -> None:
        slot, key = message.slot, (message.samples.device, message.samples.source)
        known = self._gaps.get(key)
        until_ns = message.at_ns + self._lateness_ns
        if known is not None and known.messages and message.at_ns <= known.messages[0].at_ns + self._lateness_ns:
            known.until_ns = until_ns
            return
        if known is None and len(self._gaps) >= _MAX_GAPS:
            oldest = next(iter(self._gaps))
            if self._gaps[oldest].until_ns >= message.at_ns:
                return
            del self._gaps[oldest]  # no reading of its device since
        columns = slot.block.counters.copy_of(slot.index), slot.block.gauges.copy_of(slot.index)
        conditions = [_copied(active.by_source.get(key, {})) for active in self.active]
        self._gaps[key] = _Gap(slot, slot.block, slot.index, since_ns, until_ns, columns, conditions)

    def _retain(self, message: PendingMessage, *, is_irregular: bool) -> None:
        """Retain a message after a gap; evict the gap once no late reading can fall into it."""
        key = message.samples.device, message.samples.source
        gap = self._gaps.get(key)
        if gap is None or gap.slot is not message.slot:
            return
        last = gap.messages[-1] if gap.messages else None
        if last is not None and message.at_ns <= last.at_ns:
            return
        has_restarted = last is not None and last.samples.boot_id != message.samples.boot_id
        if is_irregular or has_restarted or message.at_ns > gap.until_ns:
            del self._gaps[key]
        else:
            gap.messages.append(message)

    def _replay(self, gap: _Gap, topology: Topology) -> list[Symptom]:
        """Compare all readings since the gap again, in order; return their symptoms."""
        stores, key = (gap.block.counters, gap.block.gauges), (gap.slot.device, gap.slot.source)
        newest = [store.copy_of(gap.index) for store in stores]
        for store, columns in zip(stores, gap.columns, strict=True):
            store.restore(gap.index, columns)
        for active, conditions in zip(self.active, gap.conditions, strict=True):
            active.put(key, _copied(conditions))
        symptoms: list[Symptom] = []
        for message in gap.messages:
            batch = _batch(gap, message)
            symptoms += (symptom for _, symptom in self._compare(batch, topology))
            for delta in (batch.counters, batch.gauges):
                delta.store.apply(delta)
        for store, columns in zip(stores, newest, strict=True):
            store.restore(gap.index, columns)
        return symptoms


def _copied(conditions: _Conditions) -> _Conditions:
    return {place: replace(condition) for place, condition in conditions.items()}


def _by_state(symptoms: list[Symptom]) -> dict[tuple[str, CongestionState], list[Symptom]]:
    """Group symptoms by port and state."""
    found: dict[tuple[str, CongestionState], list[Symptom]] = {}
    for symptom in symptoms:
        assert isinstance(symptom.payload, Congestion)
        found.setdefault((symptom.port, symptom.payload.state), []).append(symptom)
    return found


def _batch(gap: _Gap, message: PendingMessage) -> MessageBatch:
    """Return a batch of one message; its block has all of its columns, or the gap was evicted."""
    block, samples = gap.block, message.samples
    device, at_ns = np.array([gap.index], np.intp), np.array([message.at_ns], np.int64)
    mapped = []
    for store, table in ((block.counters, samples.counters), (block.gauges, samples.gauges)):
        mapping, values = store.mapping(table), table.values.view()
        assert mapping is not None
        values.flags.writeable = False
        mapped.append((mapping, values))
    return MessageBatch(block.layout.row_kind, [message], *block.deltas(device, at_ns, mapped[0], mapped[1]))
