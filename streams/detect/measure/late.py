"""What a reading says that comes after a newer one of the same source: what it would have said in its time.

A step of a cell is told as from one reading to the next. A late reading lies between two, so that a step that was told
from the one to the other was one of two smaller ones: that is told, and `correlate` lets a step go that holds another
of its kind. So the steps that stand are those between readings, whatever their order was.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streams.detect.measure.blocks import Column, Fit, Places, Stack, is_absent
from streams.detect.measure.ports import COUNTS, OF_GPUS, STATES, Notable, Noticed
from streams.detect.measure.readings import Taken
from streams.detect.measure.recent import Step, Value
from streams.wire.models import RowKind, Symptom, Table
from streams.wire.symptoms import CounterGrowth, Payload, PortTransition

_COUNTED = {RowKind.ROW_KIND_PORT: COUNTS, RowKind.ROW_KIND_GPU: OF_GPUS}


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of a late message, beside the last readings of its device."""

    taken: Taken
    stack: Stack
    table: Table
    fit: Fit
    rows: Places

    def cells(self, column: Column) -> Iterator[tuple[int, Value, Value]]:
        """Row of the message, late value and newest one, where they differ or the cell changed lately."""
        place = int(self.fit.places[self.fit.at[column]])
        slot, names = self.taken.slot, self.taken.samples.row
        now, newest = self.table.values[self.fit.at[column]], self.stack.values[slot.place, place, self.rows]
        changed = {row for of, row in slot.recent.steps if of == column}
        is_one = now != newest
        if changed:
            is_one |= np.array([row in changed for row in names], np.bool_)
        is_one &= ~is_absent(now) & ~is_absent(newest)
        for row in np.flatnonzero(is_one).tolist():
            if self.stack.time(slot.place, place, int(self.rows[row])) > self.taken.at_ns:
                yield row, now[row].item(), newest[row].item()


def told(taken: Taken, rows: Places, notable: Notable) -> Iterator[Noticed]:
    """What a late message of ports or GPUs says; `rows` are where its rows stand in its device's block."""
    samples, slot = taken.samples, taken.slot
    if samples.row_kind is RowKind.ROW_KIND_PORT:
        of_states = _table(taken, slot.block.gauges, samples.gauges, rows)
        for column, (off, on) in STATES.items():
            for row, step in _steps(of_states, column):
                symptom = _symptom(taken, row, notable, PortTransition(off if step.after <= 0 else on), step)
                if step.since_ns or (step.after <= 0 and notable.tells(symptom)):
                    yield taken.number, symptom
    if taken.at_ns < slot.recent.life_ns:
        return
    of_counts = _table(taken, slot.block.counters, samples.counters, rows)
    for column in _COUNTED.get(samples.row_kind, ()):
        for row, step in _steps(of_counts, column):
            if step.since_ns and step.after > step.before:
                growth = CounterGrowth(column[0], int(step.after - step.before))
                yield taken.number, _symptom(taken, row, notable, growth, step)


def _table(taken: Taken, stack: Stack, table: Table, rows: Places) -> _Table:
    fit = stack.fit(table)
    assert fit is not None
    return _Table(taken, stack, table, fit, rows)


def _steps(table: _Table, column: Column) -> Iterator[tuple[int, Step]]:
    if column not in table.fit.at:
        return
    taken = table.taken
    for row, value, newest in table.cells(column):
        cell = column, taken.samples.row[row]
        for step in taken.slot.recent.split(cell, taken.at_ns, taken.told_ns(row), value, newest):
            yield row, step


def _symptom(taken: Taken, row: int, notable: Notable, payload: Payload, step: Step) -> Symptom:
    return notable.symptom(taken.samples, row, payload, step)
