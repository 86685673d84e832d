"""Stores the readings of one source within the lateness: their times, and transitions of cells that changed.

It finds the readings before and after a late one. A cell without a transition has its present value throughout, so a
healthy port needs no memory; a device retains the times of its readings.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.column_store import Column
from streams.fabric.catalogue import Metric

Metrics = tuple[Metric, ...]
Read = tuple[int, Metrics, Metrics, tuple[str, ...]]
"""Time, metrics of both tables, rows: tuples that messages share. It is a tuple, because there is one per message."""

UNREAD: Read = (0, (), (), ())
"""Before the first reading."""

Value = int | float
Cell = tuple[Column, str]
"""Column and row."""


class Transition(NamedTuple):
    """Two consecutive, different readings of a cell; `row_time_ns` is that of the second with the delay of its row."""

    since_ns: int
    at_ns: int
    row_time_ns: int
    before: Value
    after: Value


class TransitionUpdate(NamedTuple):
    """A change of a cell's transitions: at most one is replaced by the added ones."""

    cell: Cell
    replaced: Transition | None
    added: tuple[Transition, ...]


@dataclass(slots=True)
class ReadingHistory:
    """One kind of row of one source of a device."""

    reads: list[Read] = field(default_factory=lambda: [UNREAD])
    """In order; the first is older than the lateness, or UNREAD."""
    transitions: dict[Cell, list[Transition]] = field(default_factory=dict)
    restarted_ns: int = 0
    """The first reading after a reset of counters; earlier readings are not compared with later ones."""

    def contains(self, read: Read) -> bool:
        """Return whether a reading is known, or older than all retained ones."""
        return read in self.reads or read[0] <= self.reads[0][0]

    def insert(self, read: Read, since_ns: int) -> None:
        """Insert a reading that is late, or irregular in rows or columns; prunes readings older than `since_ns`."""
        insort(self.reads, read, key=itemgetter(0))
        self.prune(since_ns)

    def prune(self, before_ns: int) -> None:
        """Remove readings older than a time, except for the newest of them."""
        while len(self.reads) > 1 and self.reads[1][0] < before_ns:
            del self.reads[0]

    def update(self, update: TransitionUpdate) -> None:
        """Apply a change of a cell; removes its transitions that are older than all retained readings.

        A transition since 0 is a first reading and is not stored.
        """
        stored = [transition for transition in update.added if transition.since_ns]
        if not stored:
            return
        known = self.transitions.get(update.cell, ())
        own = [one for one in known if one is not update.replaced and one.at_ns > self.reads[0][0]]
        for transition in stored:
            insort(own, transition)
        self.transitions[update.cell] = own

    def restarted(self, at_ns: int, counters: Collection[Column]) -> None:
        """Discard transitions of counters that were reset before the reading of this time."""
        self.restarted_ns = at_ns
        self.transitions = {cell: own for cell, own in self.transitions.items() if cell[0] not in counters}

    def value_at(self, cell: Cell, at_ns: int, newest: Value) -> Value:
        """Return the value of a cell at a time; `newest` is its last reading."""
        for transition in reversed(self.transitions.get(cell, ())):
            if transition.at_ns <= at_ns:
                return transition.after
            newest = transition.before
        return newest

    def times(self, cell: Cell, after_ns: int) -> Iterator[int]:
        """Yield the retained times after `after_ns` at which a cell was read."""
        (metric, _), row = cell
        for at_ns, counters, gauges, rows in self.reads:
            if at_ns > after_ns and (metric in gauges or metric in counters) and row in rows:
                yield at_ns

    def split(self, cell: Cell, at_ns: int, row_time_ns: int, value: Value, newest: Value) -> TransitionUpdate | None:
        """Return the change that a late reading of a cell makes: it divides a transition, or makes two.

        None if the late reading shows nothing, or too little is retained to decide.
        """
        own = self.transitions.get(cell, [])
        if any(at_ns in (one.since_ns, one.at_ns) for one in own):
            return None
        wide = next((one for one in own if one.since_ns < at_ns < one.at_ns), None)
        replaced = wide
        if wide is None:
            constant = self.value_at(cell, at_ns, newest)
            if value == constant:
                return self._first_reading(cell, at_ns, row_time_ns, value)
            times = list(self.times(cell, 0))
            before = max((t for t in times if t < at_ns), default=0)
            after = min((t for t in times if t > at_ns), default=0)
            if at_ns in times or not after or not (before or self.reads[0] == UNREAD):
                return None
            wide = Transition(before, after, after + row_time_ns - at_ns, constant, constant)
        found = (
            Transition(wide.since_ns, at_ns, row_time_ns, wide.before, value),
            Transition(at_ns, wide.at_ns, wide.row_time_ns, value, wide.after),
        )
        added = tuple(one for one in found if one.before != one.after or not one.since_ns)
        return TransitionUpdate(cell, replaced, added)

    def _first_reading(self, cell: Cell, at_ns: int, row_time_ns: int, value: Value) -> TransitionUpdate | None:
        """Return the first reading of all, if it arrives late and equals those after it."""
        if self.reads[0] != UNREAD or any(t <= at_ns for t in self.times(cell, 0)):
            return None
        return TransitionUpdate(cell, None, (Transition(0, at_ns, row_time_ns, value, value),))


def pack_history(of_slots: Iterable[ReadingHistory], encoder: ArrayEncoder) -> dict[str, Any]:
    """Write histories into arrays; return the shared values and the few transitions for the JSON head."""
    histories = list(of_slots)
    reads = [read for history in histories for read in history.reads]
    shapes, places = _shapes(reads)
    encoder.put_all(len(history.reads) for history in histories)
    encoder.put_all(history.restarted_ns for history in histories)
    encoder.put_all(map(itemgetter(0), reads))
    encoder.put(places)
    transitions = [
        [place, *column, row, [list(one) for one in own]]
        for place, history in enumerate(histories)
        for (column, row), own in history.transitions.items()
    ]
    return {
        "count": len(histories),
        "reads": len(reads),
        "shapes": shapes,
        "transitions": transitions,
    }


def _shapes(reads: list[Read]) -> tuple[list[Any], Numbers]:
    """Return the distinct columns and rows of readings in order of first use, and the index for each reading.

    They are first compared by the identity of the tuples that messages share, because comparing the many names for
    every reading is slow.
    """
    own = np.empty((len(reads), 3), np.int64)
    for part in range(3):
        own[:, part] = np.fromiter(map(id, map(itemgetter(part + 1), reads)), np.int64, len(reads))
    _, firsts, which = np.unique(own, axis=0, return_index=True, return_inverse=True)
    shapes: dict[tuple[Any, ...], int] = {}
    place_of = np.empty(len(firsts), np.int64)
    for one in np.argsort(firsts).tolist():
        place_of[one] = shapes.setdefault(reads[firsts[one]][1:], len(shapes))
    return list(shapes), place_of[which.reshape(-1)]


def unpack_history(head: dict[str, Any], of_slots: Iterable[ReadingHistory], decoder: ArrayDecoder) -> None:
    """Fill the histories of the same slots in the same order; raises ValueError if the numbers differ."""
    counts = decoder.take("i8", head["count"]).tolist()
    if sum(counts) != head["reads"]:
        raise ValueError(f"{sum(counts)} readings where {head['reads']} belong")
    restarts = decoder.take("i8", head["count"]).tolist()
    times = decoder.take("i8", head["reads"]).tolist()
    places = decoder.take("i8", head["reads"]).tolist()
    shapes = [
        (tuple(map(Metric, counters)), tuple(map(Metric, gauges)), tuple(rows))
        for counters, gauges, rows in head["shapes"]
    ]
    reads = iter([(at_ns, *shapes[place]) for at_ns, place in zip(times, places, strict=True)])
    histories = list(of_slots)
    for history, count, restarted_ns in zip(histories, counts, restarts, strict=True):
        history.reads, history.restarted_ns = list(islice(reads, count)), restarted_ns
    for place, metric, index, row, own in head["transitions"]:
        histories[place].transitions[(Metric(metric), index), row] = [Transition(*one) for one in own]
