"""What a reading says that comes after a newer one of the same source: what it would have said in its time.

A step of a cell is told as from one reading to the next. A late reading lies between two, so that a step that was told
from the one to the other was one of two smaller ones: that is told, and `correlate` lets a step go that holds another
of its kind. So the steps that stand are those between readings, whatever their order was.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streams.detect.measure.monitors.transitions import COUNTS, OF_GPUS, STATES, NumberedSymptom, TransitionMonitor
from streams.detect.measure.storage.column_store import Column, ColumnMapping, ColumnStore, Indices, is_absent
from streams.detect.measure.storage.reading_history import Transition, Value
from streams.detect.measure.storage.reading_store import PendingMessage
from streams.wire.models import RowKind, Symptom, Table
from streams.wire.symptoms import Payload, PortTransition

_COUNTED = {RowKind.ROW_KIND_PORT: COUNTS, RowKind.ROW_KIND_GPU: OF_GPUS}


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of a late message, beside the last readings of its device."""

    taken: PendingMessage
    stack: ColumnStore
    table: Table
    fit: ColumnMapping
    rows: Indices

    def cells(self, column: Column) -> Iterator[tuple[int, Value, Value]]:
        """Row of the message, late value and newest one, where they differ or the cell changed lately."""
        place = int(self.fit.columns[self.fit.position_of[column]])
        slot, names = self.taken.slot, self.taken.samples.row
        now, newest = self.table.values[self.fit.position_of[column]], self.stack.values[slot.index, place, self.rows]
        changed = {row for of, row in slot.history.transitions if of == column}
        is_one = now != newest
        if changed:
            is_one |= np.array([row in changed for row in names], np.bool_)
        is_one &= ~is_absent(now) & ~is_absent(newest)
        for row in np.flatnonzero(is_one).tolist():
            if self.stack.time(slot.index, place, int(self.rows[row])) > self.taken.at_ns:
                yield row, now[row].item(), newest[row].item()


def late_symptoms(taken: PendingMessage, rows: Indices, notable: TransitionMonitor) -> Iterator[NumberedSymptom]:
    """What a late message of ports or GPUs says; `rows` are where its rows stand in its device's block."""
    samples, slot = taken.samples, taken.slot
    if samples.row_kind is RowKind.ROW_KIND_PORT:
        of_states = _table(taken, slot.block.gauges, samples.gauges, rows)
        for column, (off, on) in STATES.items():
            for row, step in _steps(of_states, column):
                symptom = _symptom(taken, row, notable, PortTransition(off if step.after <= 0 else on), step)
                if step.since_ns or (step.after <= 0 and notable.is_known_or_admin(symptom)):
                    yield taken.number, symptom
    if taken.at_ns < slot.history.restarted_ns:
        return
    of_counts = _table(taken, slot.block.counters, samples.counters, rows)
    for column, payload_of in _COUNTED.get(samples.row_kind, {}).items():
        for row, step in _steps(of_counts, column):
            if step.since_ns and step.after > step.before:
                growth = payload_of(int(step.after - step.before))
                yield taken.number, _symptom(taken, row, notable, growth, step)


def _table(taken: PendingMessage, stack: ColumnStore, table: Table, rows: Indices) -> _Table:
    fit = stack.mapping(table)
    assert fit is not None
    return _Table(taken, stack, table, fit, rows)


def _steps(table: _Table, column: Column) -> Iterator[tuple[int, Transition]]:
    if column not in table.fit.position_of:
        return
    taken = table.taken
    for row, value, newest in table.cells(column):
        cell = column, taken.samples.row[row]
        for step in taken.slot.history.split(cell, taken.at_ns, taken.row_time_ns(row), value, newest):
            yield row, step


def _symptom(
    taken: PendingMessage, row: int, notable: TransitionMonitor, payload: Payload, step: Transition
) -> Symptom:
    return notable.symptom(taken.samples, row, payload, step)
