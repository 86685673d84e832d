"""Finds changes of the state of ports, and growth of counters of link downs and GPU errors.

Readings are compared as arrays, many messages at once; Python runs only for the cells in which something changed. A
change is dated from one reading to the next. A late reading lies between two and divides the change into two smaller
ones, which are also reported; `correlate` drops a change that includes another of its kind. The result is the changes
between consecutive readings, in whatever order they arrived.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.storage.column_store import Cells, Column, ColumnStore, TableDelta, is_absent
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch, PendingMessage
from streams.detect.measure.storage.reading_history import Transition, TransitionUpdate, Value
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Event, EventKind, RowKind, Samples, Symptom, Table
from streams.wire.symptoms import CounterGrowth, Payload, PfcWatchdogStorm, PortChange, PortTransition, SymptomKind

STATES = {
    (Metric.OPER_UP, NO_INDEX): (PortChange.WENT_DOWN, PortChange.CAME_UP),
    (Metric.ADMIN_UP, NO_INDEX): (PortChange.ADMIN_DISABLED, PortChange.ADMIN_ENABLED),
}
_Payloads = dict[Column, Callable[[int], CounterGrowth]]
"""Counter -> the payload of its growth."""


def _payloads(*metrics: Metric) -> _Payloads:
    return {(metric, NO_INDEX): partial(CounterGrowth, metric) for metric in metrics}


_COUNTERS: dict[RowKind, _Payloads] = {
    RowKind.ROW_KIND_PORT: _payloads(Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS),
    RowKind.ROW_KIND_GPU: _payloads(Metric.GPU_ECC_UNCORRECTED),
}
_MOST_PER_S = 1000
"""A counter that grows faster was set, as one that falls: downs of a link and errors of a GPU are rarer (choice: the
carrier of a link needs milliseconds to return)."""
_STATE_ITEMS = tuple(STATES.items())
_BY_EVENT = {
    EventKind.LINK_DOWN: PortTransition(PortChange.WENT_DOWN),
    EventKind.LINK_UP: PortTransition(PortChange.CAME_UP),
    EventKind.ADMIN_DOWN: PortTransition(PortChange.ADMIN_DISABLED),
    EventKind.ADMIN_UP: PortTransition(PortChange.ADMIN_ENABLED),
}


class TransitionMonitor(Monitor):
    """Finds changes of states and growth of counters; it has no state."""

    name = "transitions"
    previews_events = True

    def is_relevant(self, batch: MessageBatch) -> bool:
        counters, gauges = batch.counters.mapping.position_of.keys(), batch.gauges.mapping.position_of.keys()
        if batch.row_kind is RowKind.ROW_KIND_PORT and STATES.keys() & gauges:
            return True
        return bool(_COUNTERS.get(batch.row_kind, {}).keys() & counters)

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        """Return symptoms; those of one message are in the order of metrics and rows."""
        found: list[NumberedSymptom] = []
        is_port = batch.row_kind is RowKind.ROW_KIND_PORT
        gauges, counters = batch.gauges.mapping.position_of, batch.counters.mapping.position_of
        for column, changes in _STATE_ITEMS if is_port else ():
            if (position := gauges.get(column)) is not None:
                for message, row, is_off, step in state_changes(batch, position, _is_off, is_port_state=True):
                    symptom = port_symptom(message.samples, topology, row, PortTransition(changes[not is_off]), step)
                    if step.since_ns or _is_known_or_admin(topology, symptom):
                        found.append((message.number, symptom))
        for column, payload_of in _COUNTERS[batch.row_kind].items():
            if (position := counters.get(column)) is not None:
                found += filter(_is_count, counter_growth(batch, topology, position, payload_of))
        return found

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        message = late.message
        samples, slot = message.samples, message.slot
        if samples.row_kind is RowKind.ROW_KIND_PORT:
            for column, (off, on) in STATES.items():
                for row, step in late_changes(late, slot.block.gauges, samples.gauges, column):
                    payload = PortTransition(off if step.after <= 0 else on)
                    symptom = port_symptom(samples, topology, row, payload, step)
                    if step.since_ns or (step.after <= 0 and _is_known_or_admin(topology, symptom)):
                        yield message.number, symptom
        for column, payload_of in _COUNTERS.get(samples.row_kind, {}).items():
            yield from filter(_is_count, late_growth(late, topology, column, payload_of))

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        payload: Payload | None = _BY_EVENT.get(event.kind)
        if event.kind is EventKind.PFC_STORM:
            payload = PfcWatchdogStorm(None, event.detail)
        if payload is not None and event.port:
            port = topology.resolve_port(event.device, event.port).port
            yield Symptom(event.device, port, payload, at_ns, source=event.source, by_event=True)


def record_transition(
    batch: MessageBatch, delta: TableDelta, position: int, at: tuple[int, int], values: tuple[Value, Value]
) -> Transition:
    """Return the transition of a cell (message, row) from one value to another, and add it to the batch.

    It is retained, because a late reading may divide it.
    """
    number, row = at
    message = batch.messages[number]
    step = Transition(delta.since_ns(position, number, row), message.at_ns, message.row_time_ns(row), *values)
    if step.since_ns:
        column = delta.store.columns[int(delta.mapping.columns[position])]
        update = TransitionUpdate((column, message.samples.row[row]), None, (step,))
        batch.transitions.append((message.slot, update))
    return step


def split_transitions(
    late: LateMessage, cell: tuple[Column, str], row: int, value: Value, newest: Value
) -> tuple[Transition, ...]:
    """Return the transitions that a late reading of a cell shows, and add them to the late message."""
    message = late.message
    update = message.slot.history.split(cell, message.at_ns, message.row_time_ns(row), value, newest)
    if update is None:
        return ()
    late.transitions.append(update)
    return update.added


def counter_growth(
    batch: MessageBatch, topology: Topology, position: int, payload_of: Callable[[int], Payload]
) -> Iterator[NumberedSymptom]:
    """Yield growth. A counter that fell was reset; one without a last reading is read for the first time."""
    now, before = batch.counters.values[:, position], batch.counters.previous(position)
    differs = now != before
    if not np.count_nonzero(differs):
        return
    for number, row in _cells(differs & ~is_absent(now) & ~is_absent(before)):
        value, was = int(now[number, row]), int(before[number, row])
        step = record_transition(batch, batch.counters, position, (number, row), (was, value))
        if value > was:
            message = batch.messages[number]
            yield message.number, port_symptom(message.samples, topology, row, payload_of(value - was), step)


def rapid_growth(
    batch: MessageBatch, topology: Topology, position: int, payload_of: Callable[[int], CounterGrowth], per_s: float
) -> Iterator[NumberedSymptom]:
    """Yield the growth of a counter by at least `per_s` a second."""
    for number, symptom in counter_growth(batch, topology, position, payload_of):
        if _is_rapid(symptom.payload, symptom.since_ns, symptom.at_ns, per_s):
            yield number, symptom


def late_growth(
    late: LateMessage, topology: Topology, column: Column, payload_of: Callable[[int], CounterGrowth], per_s: float = 0
) -> Iterator[NumberedSymptom]:
    """Yield the growth of a counter before and after a late reading, by at least `per_s` a second."""
    message = late.message
    samples, slot = message.samples, message.slot
    if message.at_ns < slot.history.restarted_ns:
        return
    for row, step in late_changes(late, slot.block.counters, samples.counters, column):
        if step.since_ns and step.after > step.before:
            growth = payload_of(int(step.after - step.before))
            if _is_rapid(growth, step.since_ns, step.at_ns, per_s):
                yield message.number, port_symptom(samples, topology, row, growth, step)


def _is_count(found: NumberedSymptom) -> bool:
    _, symptom = found
    return not _is_rapid(symptom.payload, symptom.since_ns, symptom.at_ns + 10**9, _MOST_PER_S)


def _is_rapid(payload: Payload, since_ns: int, at_ns: int, per_s: float) -> bool:
    return isinstance(payload, CounterGrowth) and payload.growth >= per_s * (at_ns - since_ns) / 1e9


def state_changes(
    batch: MessageBatch, position: int, is_on: Callable[[Cells], Cells], *, is_port_state: bool = False
) -> Iterator[tuple[PendingMessage, int, bool, Transition]]:
    """Yield (message, row, new state) for each gauge that entered or left a state, including first readings in it."""
    now, before = batch.gauges.values[:, position], batch.gauges.previous(position)
    if not np.count_nonzero(now != before):
        return
    read = ~is_absent(now)
    if is_port_state and np.count_nonzero(appeared := is_absent(before) & read):
        batch.appeared.update(np.flatnonzero(appeared.any(axis=1)).tolist())
    states = is_on(now)
    for number, row in _cells((states != is_on(before)) & read):
        values = float(before[number, row]), float(now[number, row])
        step = record_transition(batch, batch.gauges, position, (number, row), values)
        yield batch.messages[number], row, bool(states[number, row]), step


def _is_off(values: Cells) -> Cells:
    off: Cells = values <= 0
    return off


def _is_known_or_admin(topology: Topology, first: Symptom) -> bool:
    """Return whether a first reading of a down port is notable; that of an unused port without a link is not."""
    known = topology.link_at(Port(first.device, first.port)) is not None
    return known or first.kind is SymptomKind.ADMIN_DISABLED


def port_symptom(samples: Samples, topology: Topology, row: int, payload: Payload, step: Transition) -> Symptom:
    """Return the symptom of a transition at the port of a row."""
    port = topology.resolve_port(samples.device, samples.row[row]).port
    return Symptom(samples.device, port, payload, step.row_time_ns, step.since_ns, samples.source)


def late_changes(
    late: LateMessage, store: ColumnStore, table: Table, column: Column
) -> Iterator[tuple[int, Transition]]:
    """Yield the row and the transitions of cells that differ from the newest reading, or changed recently."""
    mapping, message = store.mapping(table), late.message
    assert mapping is not None
    if column not in mapping.position_of:
        return
    place = int(mapping.columns[mapping.position_of[column]])
    slot, names = message.slot, message.samples.row
    now, newest = table.values[mapping.position_of[column]], store.values[slot.index, place, late.rows]
    changed = {row for of, row in slot.history.transitions if of == column}
    is_one = now != newest
    if changed:
        is_one |= np.array([row in changed for row in names], np.bool_)
    is_one &= ~is_absent(now) & ~is_absent(newest)
    for row in np.flatnonzero(is_one).tolist():
        if store.time(slot.index, place, int(late.rows[row])) > message.at_ns:
            for step in split_transitions(late, (column, names[row]), row, now[row].item(), newest[row].item()):
                yield row, step


def _cells(mask: Cells) -> Iterator[tuple[int, int]]:
    """Yield the (message, row) of each True."""
    messages, rows = np.nonzero(mask)
    return zip(messages.tolist(), rows.tolist(), strict=True)
