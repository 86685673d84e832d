"""Which device's last readings stand where, and how messages are folded into them many at a time.

Messages of different devices with the same columns and rows are folded as one array; a device's second message waits
for the next wave, so that batches decide nothing. A message need not bring all rows or columns; what it leaves out
keeps its last reading. A reading older than the last does not become it; what it says of its own time is for late.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from streams.detect.measure.block import Block, Shape
from streams.detect.measure.blocks import Cells, Change, Column, Fit, Places, Stack, Times, is_absent
from streams.detect.measure.recent import Recent
from streams.detect.measure.windows import Clock, Closed, Windows
from streams.wire.models import RowKind, Samples, Source, Table


@dataclass(slots=True, eq=False)
class Slot:
    """Where the last readings of one kind of row of one source of a device stand."""

    device: str
    source: Source
    rows: tuple[str, ...]
    block: Block
    place: int
    newest_ns: int = 0
    """No reading in it is newer; 0 before the first."""
    waiting: int = 0
    """How many of its messages are not folded yet."""
    recent: Recent = field(default_factory=Recent)


@dataclass(slots=True)
class Taken:
    """One message on its way in. `number` is its place in the batch."""

    number: int
    slot: Slot
    samples: Samples
    at_ns: int

    def told_ns(self, row: int) -> int:
        """When the row was read, which may be some time after the message began to be."""
        delays = self.samples.row_delay_us
        return self.at_ns + (delays[row] * 1000 if delays else 0)


@dataclass(slots=True)
class Wave:
    """Messages of different devices, and what they changed; what is absent in it, or late, changes nothing."""

    row_kind: RowKind
    taken: list[Taken]
    counters: Change
    gauges: Change


Key = tuple[str, Source, RowKind]
Conclude = Callable[[list[Taken], Windows, Closed], None]
Late = Callable[[Taken, Places], None]
_Fits = tuple[Fit, Fit]


class Readings:
    """The last readings of all devices.

    `notice` is shown each wave before it is taken over, `conclude` the windows of event time that are final by it,
    `late` a message that is older than its device's last, and where its rows stand, before what is new in it.
    """

    def __init__(self, notice: Callable[[Wave], None], conclude: Conclude, clock: Clock, late: Late) -> None:
        self.slots: dict[Key, Slot] = {}
        self.blocks: dict[Shape, Block] = {}
        self._notice = notice
        self._conclude = conclude
        self._late = late
        self.clock = clock
        self._waves: list[dict[_Fits, list[Taken]]] = []

    def take(self, number: int, samples: Samples, at_ns: int) -> None:
        """A message; it is folded by the next `fold` at the latest."""
        key = (samples.device, samples.source, samples.row_kind)
        slot = self.slots.get(key)
        if slot is None:
            slot = self._enter(key, samples)
        counters, gauges = slot.block.counters.fit(samples.counters), slot.block.gauges.fit(samples.gauges)
        if at_ns <= slot.newest_ns or counters is None or gauges is None or samples.row != slot.rows:
            self._take_odd(Taken(number, slot, samples, at_ns))
            return
        reads = slot.recent.reads
        reads.append((at_ns, samples.counters.metric, samples.gauges.metric, samples.row))
        while reads[1][0] < at_ns - self.clock.lateness_ns:
            del reads[0]
        slot.newest_ns = at_ns
        if slot.waiting == len(self._waves):
            self._waves.append({})
        wave = self._waves[slot.waiting]
        slot.waiting += 1
        taken = Taken(number, slot, samples, at_ns)
        if (group := wave.get((counters, gauges))) is None:
            wave[counters, gauges] = [taken]
        else:
            group.append(taken)

    def fold(self) -> None:
        """Take over all that waits."""
        waves, self._waves = self._waves, []
        for wave in waves:
            for (counters, gauges), group in wave.items():
                for taken in group:
                    taken.slot.waiting = 0
                self._fold(
                    group,
                    (counters, _stacked([taken.samples.counters.values for taken in group])),
                    (gauges, _stacked([taken.samples.gauges.values for taken in group])),
                )

    def restarted(self, device: str, source: Source, at_ns: int) -> None:
        """Counters start at zero with the reading of then.

        States stay comparable, because a port that was up and is down did go down.
        """
        self.fold()
        for kind in RowKind:
            if (slot := self.slots.get((device, source, kind))) is not None:
                slot.block.counters.clear(slot.place)
                slot.recent.restarted(at_ns, slot.block.counters.columns)
                if slot.block.windows is not None:
                    slot.block.windows.restarted(slot.place)

    def _fold(self, group: list[Taken], counters: tuple[Fit, Cells], gauges: tuple[Fit, Cells]) -> None:
        block = group[0].slot.block
        devices = np.array([taken.slot.place for taken in group], np.intp)
        at_ns = np.array([taken.at_ns for taken in group], np.int64)
        changes = []
        for stack, (fit, values) in ((block.counters, counters), (block.gauges, gauges)):
            shape = (len(group), len(fit.places), block.shape.rows)
            changes.append(Change(stack, devices, fit, values.reshape(shape), at_ns))
        self._notice(Wave(block.shape.row_kind, group, *changes))
        self._roll(group, block, devices, at_ns)
        for change in changes:
            change.stack.take(change)

    def _roll(self, group: list[Taken], block: Block, devices: Places, at_ns: Times) -> None:
        """Before readings are taken over: the last ones may be those of the end of a window."""
        if block.windows is not None:
            for closed in block.windows.roll(devices, at_ns):
                self._conclude(group, block.windows, closed)

    def _take_odd(self, taken: Taken) -> None:
        """A message that is late, or whose rows or columns are not those of its slot.

        It is folded alone, as one of all rows in which what it does not bring, or brings too late, is absent.
        """
        self.fold()
        slot, samples, at_ns = taken.slot, taken.samples, taken.at_ns
        place_of = {row: place for place, row in enumerate(slot.rows)}
        for row in samples.row:
            place_of.setdefault(row, len(place_of))
        shape = slot.block.shape
        wanted = Shape(
            shape.row_kind, _with(shape.counters, samples.counters), _with(shape.gauges, samples.gauges),
            len(place_of), shape.patchy,
        )  # fmt: skip
        self._move(slot, tuple(place_of), wanted)
        rows = np.array([place_of[row] for row in samples.row], np.intp)
        spread = [
            _spread(stack, slot.place, table, rows, at_ns)
            for stack, table in ((slot.block.counters, samples.counters), (slot.block.gauges, samples.gauges))
        ]
        if any(mixed for _, mixed in spread) and not wanted.patchy:
            self._move(slot, slot.rows, replace(wanted, patchy=True))
        if at_ns < slot.newest_ns and slot.block.windows is not None:
            tables = samples.counters, samples.gauges
            slot.block.windows.late(slot.place, slot.newest_ns, at_ns, tables, rows)
        self._remember(taken, rows)
        slot.newest_ns = max(slot.newest_ns, at_ns)
        self._fold_odd(taken, rows, [values for values, _ in spread])

    def _remember(self, taken: Taken, rows: Places) -> None:
        slot, samples, at_ns = taken.slot, taken.samples, taken.at_ns
        newest_ns = max(slot.newest_ns, at_ns)
        read = at_ns, samples.counters.metric, samples.gauges.metric, samples.row
        if slot.recent.knows(read):
            return
        if at_ns < slot.newest_ns:
            self._late(taken, rows)
        slot.recent.take(read, newest_ns - self.clock.lateness_ns)

    def _fold_odd(self, taken: Taken, rows: Places, spread: list[Cells]) -> None:
        """The wave shows the message's own rows; what is taken over has all rows of the device."""
        block, samples = taken.slot.block, taken.samples
        device, at_ns = np.array([taken.slot.place], np.intp), np.array([taken.at_ns], np.int64)
        changes = []
        for stack, table, values in zip(
            (block.counters, block.gauges), (samples.counters, samples.gauges), spread, strict=True
        ):
            fit = stack.fit(table)
            assert fit is not None
            changes.append(Change(stack, device, fit, values[None, :, rows], at_ns, rows))
        self._notice(Wave(block.shape.row_kind, [taken], *changes))
        self._roll([taken], block, device, at_ns)
        for change, values in zip(changes, spread, strict=True):
            change.stack.take(replace(change, values=values[None], rows=None))

    def _enter(self, key: Key, samples: Samples) -> Slot:
        rows = tuple(dict.fromkeys(samples.row))
        rows = samples.row if rows == samples.row else rows  # the tuple that other devices share
        counters, gauges = _with((), samples.counters), _with((), samples.gauges)
        block = self.block(Shape(samples.row_kind, counters, gauges, len(rows)))
        slot = self.slots[key] = Slot(samples.device, samples.source, rows, block, block.add())
        return slot

    def block(self, shape: Shape) -> Block:
        """The block of a shape."""
        if (block := self.blocks.get(shape)) is None:
            block = self.blocks[shape] = Block(shape, self.clock)
        return block

    def _move(self, slot: Slot, rows: tuple[str, ...], shape: Shape) -> None:
        """Into another block, where its rows, its columns or its ways are not those of its own any more."""
        former = slot.block
        if shape == former.shape:
            return
        block = self.block(shape)
        place = block.add()
        block.counters.adopt(place, former.counters, slot.place)
        block.gauges.adopt(place, former.gauges, slot.place)
        if block.windows is not None and former.windows is not None:
            block.windows.adopt(place, former.windows, slot.place)
        former.remove(slot.place)
        if not former.used:
            del self.blocks[former.shape]
        slot.block, slot.place, slot.rows = block, place, rows


def _stacked(tables: list[Cells]) -> Cells:
    """The tables one under the other. That of one message is not copied, and not to be written to either."""
    if len(tables) > 1:
        return np.concatenate(tables)
    alone = tables[0].view()
    alone.flags.writeable = False
    return alone


def _with(columns: tuple[Column, ...], table: Table) -> tuple[Column, ...]:
    """The columns and then those of a message that are not among them."""
    return tuple(dict.fromkeys((*columns, *zip(table.metric, table.index, strict=True))))


def _spread(stack: Stack, device: int, table: Table, rows: Places, at_ns: int) -> tuple[Cells, bool]:
    """A table over all rows of the device, absent where it brings nothing new, and whether it renews columns partly."""
    fit = stack.fit(table)
    assert fit is not None
    values = np.full((len(fit.places), stack.values.shape[2]), stack.absent, stack.values.dtype)
    values[:, rows] = table.values
    times = stack.times(device, fit.places)
    values[times >= at_ns] = stack.absent
    new = ~is_absent(values)
    return values, bool((new.any(axis=1) & (~new & (times > 0)).any(axis=1)).any())
