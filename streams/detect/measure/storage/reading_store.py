"""Which device's last readings stand where, and how messages are folded into them many at a time.

Messages of different devices with the same columns and rows are folded as one array; a device's second message waits
for the next wave, so that batches decide nothing. A message need not bring all rows or columns; what it leaves out
keeps its last reading. A reading older than the last does not become it; what it says of its own time is for late.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from streams.detect.measure.storage.column_store import (
    Cells,
    Column,
    ColumnMapping,
    ColumnStore,
    Indices,
    TableDelta,
    Times,
    is_absent,
)
from streams.detect.measure.storage.device_block import BlockLayout, DeviceBlock
from streams.detect.measure.storage.reading_history import ReadingHistory
from streams.detect.measure.storage.window_store import ClosedWindows, WindowSpec, WindowStore
from streams.wire.models import RowKind, Samples, Source, Table


@dataclass(slots=True, eq=False)
class DeviceSlot:
    """Where the last readings of one kind of row of one source of a device stand."""

    device: str
    source: Source
    rows: tuple[str, ...]
    block: DeviceBlock
    index: int
    newest_ns: int = 0
    """No reading in it is newer; 0 before the first."""
    pending: int = 0
    """How many of its messages are not folded yet."""
    history: ReadingHistory = field(default_factory=ReadingHistory)


@dataclass(slots=True)
class PendingMessage:
    """One message on its way in. `number` is its place in the batch."""

    number: int
    slot: DeviceSlot
    samples: Samples
    at_ns: int

    def row_time_ns(self, row: int) -> int:
        """When the row was read, which may be some time after the message began to be."""
        delays = self.samples.row_delay_us
        return self.at_ns + (delays[row] * 1000 if delays else 0)


@dataclass(slots=True)
class MessageBatch:
    """Messages of different devices, and what they changed; what is absent in it, or late, changes nothing."""

    row_kind: RowKind
    messages: list[PendingMessage]
    counters: TableDelta
    gauges: TableDelta


Key = tuple[str, Source, RowKind]
Conclude = Callable[[list[PendingMessage], WindowStore, ClosedWindows], None]
Late = Callable[[PendingMessage, Indices], None]
_Fits = tuple[ColumnMapping, ColumnMapping]


class ReadingStore:
    """The last readings of all devices.

    `notice` is shown each wave before it is taken over, `conclude` the windows of event time that are final by it,
    `late` a message that is older than its device's last, and where its rows stand, before what is new in it.
    """

    def __init__(
        self, notice: Callable[[MessageBatch], None], conclude: Conclude, clock: WindowSpec, late: Late
    ) -> None:
        self.slots: dict[Key, DeviceSlot] = {}
        self.blocks: dict[BlockLayout, DeviceBlock] = {}
        self._notice = notice
        self._conclude = conclude
        self._late = late
        self.clock = clock
        self._batches: list[dict[_Fits, list[PendingMessage]]] = []

    def enqueue(self, number: int, samples: Samples, at_ns: int) -> None:
        """A message; it is folded by the next `fold` at the latest."""
        key = (samples.device, samples.source, samples.row_kind)
        slot = self.slots.get(key)
        if slot is None:
            slot = self._add_slot(key, samples)
        counters, gauges = slot.block.counters.mapping(samples.counters), slot.block.gauges.mapping(samples.gauges)
        if at_ns <= slot.newest_ns or counters is None or gauges is None or samples.row != slot.rows:
            self._take_irregular(PendingMessage(number, slot, samples, at_ns))
            return
        reads = slot.history.reads
        reads.append((at_ns, samples.counters.metric, samples.gauges.metric, samples.row))
        while reads[1][0] < at_ns - self.clock.lateness_ns:
            del reads[0]
        slot.newest_ns = at_ns
        if slot.pending == len(self._batches):
            self._batches.append({})
        wave = self._batches[slot.pending]
        slot.pending += 1
        taken = PendingMessage(number, slot, samples, at_ns)
        if (group := wave.get((counters, gauges))) is None:
            wave[counters, gauges] = [taken]
        else:
            group.append(taken)

    def flush(self) -> None:
        """Take over all that waits."""
        waves, self._batches = self._batches, []
        for wave in waves:
            for (counters, gauges), group in wave.items():
                for taken in group:
                    taken.slot.pending = 0
                self._apply_group(
                    group,
                    (counters, _stacked([taken.samples.counters.values for taken in group])),
                    (gauges, _stacked([taken.samples.gauges.values for taken in group])),
                )

    def restarted(self, device: str, source: Source, at_ns: int) -> None:
        """Counters start at zero with the reading of then.

        States stay comparable, because a port that was up and is down did go down.
        """
        self.flush()
        for kind in RowKind:
            if (slot := self.slots.get((device, source, kind))) is not None:
                slot.block.counters.clear(slot.index)
                slot.history.restarted(at_ns, slot.block.counters.columns)
                if slot.block.windows is not None:
                    slot.block.windows.restarted(slot.index)

    def _apply_group(
        self, group: list[PendingMessage], counters: tuple[ColumnMapping, Cells], gauges: tuple[ColumnMapping, Cells]
    ) -> None:
        block = group[0].slot.block
        devices = np.array([taken.slot.index for taken in group], np.intp)
        at_ns = np.array([taken.at_ns for taken in group], np.int64)
        changes = []
        for stack, (fit, values) in ((block.counters, counters), (block.gauges, gauges)):
            shape = (len(group), len(fit.columns), block.layout.rows)
            changes.append(TableDelta(stack, devices, fit, values.reshape(shape), at_ns))
        self._notice(MessageBatch(block.layout.row_kind, group, *changes))
        self._close_windows(group, block, devices, at_ns)
        for change in changes:
            change.store.apply(change)

    def _close_windows(self, group: list[PendingMessage], block: DeviceBlock, devices: Indices, at_ns: Times) -> None:
        """Before readings are taken over: the last ones may be those of the end of a window."""
        if block.windows is not None:
            for closed in block.windows.roll(devices, at_ns):
                self._conclude(group, block.windows, closed)

    def _take_irregular(self, taken: PendingMessage) -> None:
        """A message that is late, or whose rows or columns are not those of its slot.

        It is folded alone, as one of all rows in which what it does not bring, or brings too late, is absent.
        """
        self.flush()
        slot, samples, at_ns = taken.slot, taken.samples, taken.at_ns
        place_of = {row: place for place, row in enumerate(slot.rows)}
        for row in samples.row:
            place_of.setdefault(row, len(place_of))
        shape = slot.block.layout
        wanted = BlockLayout(
            shape.row_kind, _merged_columns(shape.counters, samples.counters),
            _merged_columns(shape.gauges, samples.gauges), len(place_of), shape.has_per_cell_times,
        )  # fmt: skip
        self._move(slot, tuple(place_of), wanted)
        rows = np.array([place_of[row] for row in samples.row], np.intp)
        spread = [
            _spread(stack, slot.index, table, rows, at_ns)
            for stack, table in ((slot.block.counters, samples.counters), (slot.block.gauges, samples.gauges))
        ]
        if any(mixed for _, mixed in spread) and not wanted.has_per_cell_times:
            self._move(slot, slot.rows, replace(wanted, has_per_cell_times=True))
        if at_ns < slot.newest_ns and slot.block.windows is not None:
            tables = samples.counters, samples.gauges
            slot.block.windows.apply_late(slot.index, slot.newest_ns, at_ns, tables, rows)
        self._remember(taken, rows)
        slot.newest_ns = max(slot.newest_ns, at_ns)
        self._apply_irregular(taken, rows, [values for values, _ in spread])

    def _remember(self, taken: PendingMessage, rows: Indices) -> None:
        slot, samples, at_ns = taken.slot, taken.samples, taken.at_ns
        newest_ns = max(slot.newest_ns, at_ns)
        read = at_ns, samples.counters.metric, samples.gauges.metric, samples.row
        if slot.history.contains(read):
            return
        if at_ns < slot.newest_ns:
            self._late(taken, rows)
        slot.history.insert(read, newest_ns - self.clock.lateness_ns)

    def _apply_irregular(self, taken: PendingMessage, rows: Indices, spread: list[Cells]) -> None:
        """The wave shows the message's own rows; what is taken over has all rows of the device."""
        block, samples = taken.slot.block, taken.samples
        device, at_ns = np.array([taken.slot.index], np.intp), np.array([taken.at_ns], np.int64)
        changes = []
        for stack, table, values in zip(
            (block.counters, block.gauges), (samples.counters, samples.gauges), spread, strict=True
        ):
            fit = stack.mapping(table)
            assert fit is not None
            changes.append(TableDelta(stack, device, fit, values[None, :, rows], at_ns, rows))
        self._notice(MessageBatch(block.layout.row_kind, [taken], *changes))
        self._close_windows([taken], block, device, at_ns)
        for change, values in zip(changes, spread, strict=True):
            change.store.apply(replace(change, values=values[None], rows=None))

    def _add_slot(self, key: Key, samples: Samples) -> DeviceSlot:
        rows = tuple(dict.fromkeys(samples.row))
        rows = samples.row if rows == samples.row else rows  # the tuple that other devices share
        counters, gauges = _merged_columns((), samples.counters), _merged_columns((), samples.gauges)
        block = self.block(BlockLayout(samples.row_kind, counters, gauges, len(rows)))
        slot = self.slots[key] = DeviceSlot(samples.device, samples.source, rows, block, block.add())
        return slot

    def block(self, shape: BlockLayout) -> DeviceBlock:
        """The block of a shape."""
        if (block := self.blocks.get(shape)) is None:
            block = self.blocks[shape] = DeviceBlock(shape, self.clock)
        return block

    def _move(self, slot: DeviceSlot, rows: tuple[str, ...], shape: BlockLayout) -> None:
        """Into another block, where its rows, its columns or its ways are not those of its own any more."""
        former = slot.block
        if shape == former.layout:
            return
        block = self.block(shape)
        place = block.add()
        block.counters.move_in(place, former.counters, slot.index)
        block.gauges.move_in(place, former.gauges, slot.index)
        if block.windows is not None and former.windows is not None:
            block.windows.move_in(place, former.windows, slot.index)
        former.remove(slot.index)
        if not former.device_count:
            del self.blocks[former.layout]
        slot.block, slot.index, slot.rows = block, place, rows


def _stacked(tables: list[Cells]) -> Cells:
    """The tables one under the other. That of one message is not copied, and not to be written to either."""
    if len(tables) > 1:
        return np.concatenate(tables)
    alone = tables[0].view()
    alone.flags.writeable = False
    return alone


def _merged_columns(columns: tuple[Column, ...], table: Table) -> tuple[Column, ...]:
    """The columns and then those of a message that are not among them."""
    return tuple(dict.fromkeys((*columns, *zip(table.metric, table.index, strict=True))))


def _spread(stack: ColumnStore, device: int, table: Table, rows: Indices, at_ns: int) -> tuple[Cells, bool]:
    """A table over all rows of the device, absent where it brings nothing new, and whether it renews columns partly."""
    fit = stack.mapping(table)
    assert fit is not None
    values = np.full((len(fit.columns), stack.values.shape[2]), stack.absent, stack.values.dtype)
    values[:, rows] = table.values
    times = stack.times(device, fit.columns)
    values[times >= at_ns] = stack.absent
    new = ~is_absent(values)
    return values, bool((new.any(axis=1) & (~new & (times > 0)).any(axis=1)).any())
