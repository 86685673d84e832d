"""What is notable at ports between two readings: states that changed, and counters of downs that grew.

Decided for many messages at once by array arithmetic; Python runs only for the cells in which something is notable.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from streams.detect.measure.storage.column_store import Cells, Column, TableDelta, is_absent
from streams.detect.measure.storage.reading_history import Transition, Value
from streams.detect.measure.storage.reading_store import MessageBatch
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Samples, Symptom
from streams.wire.symptoms import CounterGrowth, Payload, PfcWatchdogStorm, PortChange, PortTransition, SymptomKind

STATES = {
    (Metric.OPER_UP, NO_INDEX): (PortChange.WENT_DOWN, PortChange.CAME_UP),
    (Metric.ADMIN_UP, NO_INDEX): (PortChange.ADMIN_DISABLED, PortChange.ADMIN_ENABLED),
}
_Payloads = dict[Column, Callable[[int], Payload]]
"""Counter -> the payload of its growth."""
COUNTS: _Payloads = {
    (metric, NO_INDEX): partial(CounterGrowth, metric) for metric in (Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS)
}
OF_GPUS: _Payloads = {(Metric.GPU_ECC_UNCORRECTED, NO_INDEX): partial(CounterGrowth, Metric.GPU_ECC_UNCORRECTED)}
_QUEUES = 8
"""Of a port: one for each priority."""

NumberedSymptom = tuple[int, Symptom]
"""A symptom, and the number of the message that shows it."""


class TransitionMonitor:
    """Finds it, under one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def port_symptoms(self, wave: MessageBatch) -> list[NumberedSymptom]:
        """What a wave shows; the symptoms of one message are in the order of metrics and rows."""
        noticed: list[NumberedSymptom] = []
        for column, changes in STATES.items():
            if (position := wave.gauges.mapping.position_of.get(column)) is not None:
                noticed += self._states(wave, position, *changes)
        for column, payload_of in COUNTS.items():
            if (position := wave.counters.mapping.position_of.get(column)) is not None:
                noticed += self._grown(wave, position, payload_of)
        for queue in range(_QUEUES):
            if (position := wave.counters.mapping.position_of.get((Metric.PFC_WATCHDOG_STORMS, queue))) is not None:
                noticed += self._storms(wave, position, queue)
        return noticed

    def _storms(self, wave: MessageBatch, position: int, queue: int) -> Iterator[NumberedSymptom]:
        """What a switch's own watchdog counted is known of the moment at which it is read, as if it had told of it."""
        storm = PfcWatchdogStorm(queue, "")
        for number, symptom in self._grown(wave, position, lambda _: storm):
            yield number, replace(symptom, since_ns=0, by_event=True)

    def gpu_symptoms(self, wave: MessageBatch) -> Iterator[NumberedSymptom]:
        """Uncorrectable errors that a GPU counted; where the kernel log may be read, its Xid tells more of them."""
        for column, payload_of in OF_GPUS.items():
            if (position := wave.counters.mapping.position_of.get(column)) is not None:
                yield from self._grown(wave, position, payload_of)

    def _grown(
        self, wave: MessageBatch, position: int, payload_of: Callable[[int], Payload]
    ) -> Iterator[NumberedSymptom]:
        """A counter that is less than before was started anew (a reset), one without a before is met first."""
        now, before = wave.counters.values[:, position], wave.counters.previous(position)
        differs = now != before
        if not np.count_nonzero(differs):
            return
        for message, row in _cells(differs & ~is_absent(now) & ~is_absent(before)):
            value, was = int(now[message, row]), int(before[message, row])
            step = record_transition(wave, wave.counters, position, (message, row), (was, value))
            if value > was:
                taken = wave.messages[message]
                yield taken.number, self.symptom(taken.samples, row, payload_of(value - was), step)

    def _states(self, wave: MessageBatch, position: int, off: PortChange, on: PortChange) -> Iterator[NumberedSymptom]:
        now, before = wave.gauges.values[:, position], wave.gauges.previous(position)
        differs = now != before
        if not np.count_nonzero(differs):
            return
        first = is_absent(before)
        notable = differs & ~is_absent(now) & np.where(first, now <= 0, (now > 0) != (before > 0))
        for message, row in _cells(notable):
            value, was = float(now[message, row]), float(before[message, row])
            step = record_transition(wave, wave.gauges, position, (message, row), (was, value))
            taken = wave.messages[message]
            symptom = self.symptom(taken.samples, row, PortTransition(on if value > 0 else off), step)
            if not first[message, row] or self.is_known_or_admin(symptom):
                yield taken.number, symptom

    def is_known_or_admin(self, first: Symptom) -> bool:
        """Whether a first reading of a port that is off is notable: an unused port of no known link is not."""
        known = self._topology.link_at(Port(first.device, first.port)) is not None
        return known or first.kind is SymptomKind.ADMIN_DISABLED

    def symptom(self, samples: Samples, row: int, payload: Payload, step: Transition) -> Symptom:
        """What was seen of a row between two readings."""
        port = self._topology.resolve_port(samples.device, samples.row[row]).port
        return Symptom(samples.device, port, payload, step.row_time_ns, step.since_ns, samples.source)


def record_transition(
    wave: MessageBatch, change: TableDelta, position: int, at: tuple[int, int], values: tuple[Value, Value]
) -> Transition:
    """A cell changed, from one value to the other: between which readings. A late one may lie between."""
    message, row = at
    taken = wave.messages[message]
    step = Transition(change.since_ns(position, message, row), taken.at_ns, taken.row_time_ns(row), *values)
    if step.since_ns:
        column = change.store.columns[int(change.mapping.columns[position])]
        taken.slot.history.add_transition((column, taken.samples.row[row]), step)
    return step


def _cells(mask: Cells) -> Iterator[tuple[int, int]]:
    """The (message, row) of each True."""
    messages, rows = np.nonzero(mask)
    return zip(messages.tolist(), rows.tolist(), strict=True)
