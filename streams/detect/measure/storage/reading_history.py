"""What was read of one source within the lateness: when, and the steps of the few cells that changed in that time.

Decides which readings are the ones before and after a reading that comes late. What did not change is as it is now,
so that a healthy port keeps nothing: a device keeps the moments at which it was read.
"""

from bisect import insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from streams.detect.measure.storage.column_store import Column
from streams.fabric.catalogue import Metric

Metrics = tuple[Metric, ...]
Read = tuple[int, Metrics, Metrics, tuple[str, ...]]
"""When, the metrics of both tables, and the rows: tuples that messages share. No object of its own: one a message."""

UNREAD: Read = (0, (), (), ())
"""Before the first reading."""

Value = int | float
Cell = tuple[Column, str]
"""Column and row."""


class Transition(NamedTuple):
    """Two readings of a cell with none between them that differ. `told_ns` is the second by the delay of its row."""

    since_ns: int
    at_ns: int
    row_time_ns: int
    before: Value
    after: Value


@dataclass(slots=True)
class ReadingHistory:
    """One kind of row of one source of a device."""

    reads: list[Read] = field(default_factory=lambda: [UNREAD])
    """In order; the first is older than the lateness, or none was read before it."""
    transitions: dict[Cell, list[Transition]] = field(default_factory=dict)
    restarted_ns: int = 0
    """Counters began anew with a reading of this time: those before it are compared with nothing."""

    def contains(self, read: Read) -> bool:
        """Whether it came before, or is older than all that is kept."""
        return read in self.reads or read[0] <= self.reads[0][0]

    def insert(self, read: Read, since_ns: int) -> None:
        """A reading that is late, or not of the usual rows and columns; what is kept reaches back to `since_ns`."""
        insort(self.reads, read, key=itemgetter(0))
        self.prune(since_ns)

    def prune(self, before_ns: int) -> None:
        """Let go of what is older, but for the newest of it."""
        while len(self.reads) > 1 and self.reads[1][0] < before_ns:
            del self.reads[0]

    def add_transition(self, cell: Cell, step: Transition) -> None:
        """A cell changed; its steps that are older than all readings that are kept are let go of."""
        own = [known for known in self.transitions.get(cell, ()) if known.at_ns > self.reads[0][0]]
        insort(own, step)
        self.transitions[cell] = own

    def restarted(self, at_ns: int, counters: Collection[Column]) -> None:
        """Counters began anew with the reading of then."""
        self.restarted_ns = at_ns
        self.transitions = {cell: steps for cell, steps in self.transitions.items() if cell[0] not in counters}

    def value_at(self, cell: Cell, at_ns: int, newest: Value) -> Value:
        """What a cell was when it was read then; `newest` is its last reading."""
        for step in reversed(self.transitions.get(cell, ())):
            if step.at_ns <= at_ns:
                return step.after
            newest = step.before
        return newest

    def times(self, cell: Cell, after_ns: int) -> Iterator[int]:
        """When a cell was read after a moment, as far as is kept."""
        (metric, _), row = cell
        for at_ns, counters, gauges, rows in self.reads:
            if at_ns > after_ns and (metric in gauges or metric in counters) and row in rows:
                yield at_ns

    def split(self, cell: Cell, at_ns: int, told_ns: int, value: Value, newest: Value) -> list[Transition]:
        """A late reading of a cell comes between two others; answers the steps that are so, where it shows any.

        A step from the time 0 is the first reading; one that is not known well enough is not told.
        """
        steps = self.transitions.get(cell, [])
        if any(at_ns in (step.since_ns, step.at_ns) for step in steps):
            return []
        wide = next((step for step in steps if step.since_ns < at_ns < step.at_ns), None)
        if wide is None:
            constant = self.value_at(cell, at_ns, newest)
            if value == constant:
                return self._met_first(cell, at_ns, told_ns, value)
            times = list(self.times(cell, 0))
            before = max((t for t in times if t < at_ns), default=0)
            after = min((t for t in times if t > at_ns), default=0)
            if at_ns in times or not after or not (before or self.reads[0] == UNREAD):
                return []
            wide = Transition(before, after, after + told_ns - at_ns, constant, constant)
        else:
            steps.remove(wide)
        found = [
            Transition(wide.since_ns, at_ns, told_ns, wide.before, value),
            Transition(at_ns, wide.at_ns, wide.row_time_ns, value, wide.after),
        ]
        found = [step for step in found if step.before != step.after or not step.since_ns]
        for step in found:
            if step.since_ns:
                self.add_transition(cell, step)
        return found

    def _met_first(self, cell: Cell, at_ns: int, told_ns: int, value: Value) -> list[Transition]:
        """The first reading of all comes late, and is as those after it."""
        if self.reads[0] != UNREAD or any(t <= at_ns for t in self.times(cell, 0)):
            return []
        return [Transition(0, at_ns, told_ns, value, value)]
