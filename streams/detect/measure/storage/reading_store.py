"""Stores the last readings of all devices, and adds messages to them many at a time.

Messages of different devices with the same columns and rows are added as one array; a second message of a device waits
for the next array, so that the size of batches changes no result. A message need not bring all rows or columns: what it
leaves out keeps its last reading. A reading older than the last one does not replace it, and is passed on as late.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

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
from streams.detect.measure.storage.message_batch import (
    BlockLayout,
    DeviceBlock,
    DeviceSlot,
    LateMessage,
    MessageBatch,
    PendingMessage,
)
from streams.detect.measure.storage.window_store import ClosedWindows, WindowSpec, WindowStore
from streams.wire.bounds import MAX_NUMBER
from streams.wire.models import RowKind, Samples, Source, Table

log = logging.getLogger(__name__)

MAX_DEVICE_ROWS = 4096
"""Of one source: a switch has up to 1,024 ports with breakouts. Names that change at each reading grow without end."""

MAX_DEVICE_COLUMNS = 1024
"""Of each table: metrics times lanes, priorities and queues are below 500."""

_LOGGED_EVERY = 100_000

Key = tuple[str, Source, RowKind]
_Mappings = tuple[ColumnMapping, ColumnMapping]


class ReadingObserver(Protocol):
    """Receives what a ReadingStore is about to store."""

    def on_batch(self, batch: MessageBatch) -> None:
        """Process messages before they are stored."""

    def on_windows(self, messages: list[PendingMessage], windows: WindowStore[Any], closed: ClosedWindows) -> None:
        """Process windows of event time that messages make final."""

    def on_late(self, late: LateMessage) -> None:
        """Process a message that is older than its device's last, before what is new in it is stored."""


class ReadingStore:
    """The last readings of all devices."""

    def __init__(self, observer: ReadingObserver, spec: WindowSpec) -> None:
        self.slots: dict[Key, DeviceSlot] = {}
        self.blocks: dict[BlockLayout, DeviceBlock] = {}
        self.spec = spec
        self.observer = observer
        self.refused = 0
        """Rows and columns of messages for which their device had no room."""
        self._batches: list[dict[_Mappings, list[PendingMessage]]] = []

    def enqueue(self, number: int, samples: Samples, at_ns: int) -> None:
        """Add a message; it is stored by the next `flush` at the latest."""
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
        while reads[1][0] < at_ns - self.spec.lateness_ns:
            del reads[0]
        slot.newest_ns = at_ns
        if slot.pending == len(self._batches):
            self._batches.append({})
        groups = self._batches[slot.pending]
        slot.pending += 1
        message = PendingMessage(number, slot, samples, at_ns)
        if (group := groups.get((counters, gauges))) is None:
            groups[counters, gauges] = [message]
        else:
            group.append(message)

    def flush(self) -> None:
        """Store all enqueued messages."""
        batches, self._batches = self._batches, []
        for groups in batches:
            for (counters, gauges), group in groups.items():
                for message in group:
                    message.slot.pending = 0
                self._apply_group(
                    group,
                    (counters, _stacked([message.samples.counters.values for message in group])),
                    (gauges, _within_bounds(_stacked([message.samples.gauges.values for message in group]))),
                )

    def restarted(self, device: str, source: Source, at_ns: int) -> None:
        """Forget the counters of a device, which were reset before the reading of this time.

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
        devices = np.array([message.slot.index for message in group], np.intp)
        at_ns = np.array([message.at_ns for message in group], np.int64)
        deltas = []
        for store, (mapping, values) in ((block.counters, counters), (block.gauges, gauges)):
            shape = (len(group), len(mapping.columns), block.layout.rows)
            deltas.append(TableDelta(store, devices, mapping, values.reshape(shape), at_ns))
        batch = MessageBatch(block.layout.row_kind, group, deltas[0], deltas[1])
        self.observer.on_batch(batch)
        for slot, update in batch.transitions:
            slot.history.update(update)
        self._close_windows(group, block, devices, at_ns)
        if block.windows is not None:
            block.windows.attached.observe(deltas[1])
        for delta in deltas:
            delta.store.apply(delta)

    def _close_windows(self, group: list[PendingMessage], block: DeviceBlock, devices: Indices, at_ns: Times) -> None:
        """Close windows before readings are stored: the last ones may be those of the end of a window."""
        if block.windows is not None:
            for closed in block.windows.roll(devices, at_ns):
                self.observer.on_windows(group, block.windows, closed)

    def _take_irregular(self, message: PendingMessage) -> None:
        """Store a message that is late, or whose rows or columns differ from those of its slot.

        It is stored alone, as one of all rows in which what it does not bring, or brings too late, is absent.
        """
        self.flush()
        slot, samples, at_ns = message.slot, message.samples, message.at_ns
        gauges = samples.gauges
        samples = message.samples = replace(samples, gauges=replace(gauges, values=_within_bounds(gauges.values)))
        samples = message.samples = self._within_layout(slot, samples)
        index_of = {row: index for index, row in enumerate(slot.rows)}
        for row in samples.row:
            index_of.setdefault(row, len(index_of))
        former = slot.block.layout
        layout = BlockLayout(
            former.row_kind, _merged_columns(former.counters, samples.counters),
            _merged_columns(former.gauges, samples.gauges), len(index_of), former.has_per_cell_times,
        )  # fmt: skip
        self._move(slot, tuple(index_of), layout)
        rows = np.array([index_of[row] for row in samples.row], np.intp)
        spread = [
            _spread(store, slot.index, table, rows, at_ns)
            for store, table in ((slot.block.counters, samples.counters), (slot.block.gauges, samples.gauges))
        ]
        if any(is_partial for _, is_partial in spread) and not layout.has_per_cell_times:
            self._move(slot, slot.rows, replace(layout, has_per_cell_times=True))
        if at_ns < slot.newest_ns and slot.block.windows is not None:
            tables = samples.counters, samples.gauges
            slot.block.windows.apply_late(slot.index, slot.newest_ns, at_ns, tables, rows, slot.history)
        self._add_to_history(message, rows)
        is_late = at_ns < slot.newest_ns
        slot.newest_ns = max(slot.newest_ns, at_ns)
        self._apply_irregular(message, rows, [values for values, _ in spread], is_late=is_late)

    def _within_layout(self, slot: DeviceSlot, samples: Samples) -> Samples:
        """Return a message without the new rows and columns for which its device has no room."""
        layout = slot.block.layout
        rows = _admitted(slot.rows, samples.row, MAX_DEVICE_ROWS)
        tables = []
        for table, columns in ((samples.counters, layout.counters), (samples.gauges, layout.gauges)):
            own = tuple(zip(table.metric, table.index, strict=True))
            places = _admitted(columns, own, MAX_DEVICE_COLUMNS)
            tables.append((table, places, len(own)))
        if len(rows) == len(samples.row) and all(len(places) == count for _, places, count in tables):
            return samples
        refused = self.refused
        self.refused += len(samples.row) - len(rows) + sum(count - len(places) for _, places, count in tables)
        if refused == 0 or refused // _LOGGED_EVERY != self.refused // _LOGGED_EVERY:
            log.warning(
                "a device has too many rows or columns: device=%s rows=%d refused=%d",
                samples.device, len(slot.rows), self.refused,
            )  # fmt: skip
        counters, gauges = (
            Table(
                tuple(table.metric[i] for i in places), tuple(table.index[i] for i in places),
                table.values[np.ix_(places, rows)],
            )
            for table, places, _ in tables
        )  # fmt: skip
        delays = tuple(samples.row_delay_us[i] for i in rows) if samples.row_delay_us else ()
        row = tuple(samples.row[i] for i in rows)
        return replace(samples, row=row, rows_digest=0, counters=counters, gauges=gauges, row_delay_us=delays)

    def _add_to_history(self, message: PendingMessage, rows: Indices) -> None:
        slot, samples, at_ns = message.slot, message.samples, message.at_ns
        newest_ns = max(slot.newest_ns, at_ns)
        read = at_ns, samples.counters.metric, samples.gauges.metric, samples.row
        if slot.history.contains(read):
            return
        if at_ns < slot.newest_ns:
            late = LateMessage(message, rows)
            self.observer.on_late(late)
            for update in late.transitions:
                slot.history.update(update)
        slot.history.insert(read, newest_ns - self.spec.lateness_ns)

    def _apply_irregular(self, message: PendingMessage, rows: Indices, spread: list[Cells], *, is_late: bool) -> None:
        """Process a message with its own rows, and store it with all rows of the device."""
        slot, samples = message.slot, message.samples
        block = slot.block
        device, at_ns = np.array([slot.index], np.intp), np.array([message.at_ns], np.int64)
        deltas = []
        for store, table, values in zip(
            (block.counters, block.gauges), (samples.counters, samples.gauges), spread, strict=True
        ):
            mapping = store.mapping(table)
            assert mapping is not None
            deltas.append(TableDelta(store, device, mapping, values[None, :, rows], at_ns, rows))
        batch = MessageBatch(block.layout.row_kind, [message], deltas[0], deltas[1])
        self.observer.on_batch(batch)
        for of, update in batch.transitions:
            of.history.update(update)
        self._close_windows([message], block, device, at_ns)
        whole = [replace(delta, values=values[None], rows=None) for delta, values in zip(deltas, spread, strict=True)]
        if block.windows is not None and not is_late:
            block.windows.attached.observe(whole[1])
        for delta in whole:
            delta.store.apply(delta)

    def _add_slot(self, key: Key, samples: Samples) -> DeviceSlot:
        rows = tuple(dict.fromkeys(samples.row))
        rows = samples.row if rows == samples.row else rows  # the tuple that other devices share
        counters, gauges = _merged_columns((), samples.counters), _merged_columns((), samples.gauges)
        block = self.block(BlockLayout(samples.row_kind, counters, gauges, len(rows)))
        slot = self.slots[key] = DeviceSlot(samples.device, samples.source, rows, block, block.add())
        return slot

    def block(self, layout: BlockLayout) -> DeviceBlock:
        """Return the block of a layout."""
        if (block := self.blocks.get(layout)) is None:
            block = self.blocks[layout] = DeviceBlock(layout, self.spec)
        return block

    def _move(self, slot: DeviceSlot, rows: tuple[str, ...], layout: BlockLayout) -> None:
        """Move a device into the block of a layout, unless it is there."""
        former = slot.block
        if layout == former.layout:
            return
        block = self.block(layout)
        index = block.add()
        block.counters.move_in(index, former.counters, slot.index)
        block.gauges.move_in(index, former.gauges, slot.index)
        if block.windows is not None and former.windows is not None:
            block.windows.move_in(index, former.windows, slot.index)
        former.remove(slot.index)
        if not former.device_count:
            del self.blocks[former.layout]
        slot.block, slot.index, slot.rows = block, index, rows


def _stacked(tables: list[Cells]) -> Cells:
    """Concatenate tables. The table of one message is not copied, and is read-only."""
    if len(tables) > 1:
        return np.concatenate(tables)
    only = tables[0].view()
    only.flags.writeable = False
    return only


def _admitted(known: Sequence[Any], new: Sequence[Any], most: int) -> list[int]:
    """Return the indices of the new names that are known, or for which there is room among `most`."""
    names = set(known)
    places = []
    for index, name in enumerate(new):
        if name in names or len(names) < most:
            names.add(name)
            places.append(index)
    return places


def _within_bounds(gauges: Cells) -> Cells:
    """Return gauges in which a value beyond the bounds of messages is absent: infinity, or more than MAX_NUMBER."""
    beyond = np.abs(gauges) > MAX_NUMBER
    return np.where(beyond, np.nan, gauges) if np.count_nonzero(beyond) else gauges


def _merged_columns(columns: tuple[Column, ...], table: Table) -> tuple[Column, ...]:
    """Return the columns, and then those of a message that are not among them."""
    return tuple(dict.fromkeys((*columns, *zip(table.metric, table.index, strict=True))))


def _spread(store: ColumnStore, device: int, table: Table, rows: Indices, at_ns: int) -> tuple[Cells, bool]:
    """Return a table over all rows of the device, absent where it brings nothing new, and whether a column is partial.

    A column is partial where the table brings new readings of some of the cells that were read before.
    """
    mapping = store.mapping(table)
    assert mapping is not None
    values = np.full((len(mapping.columns), store.values.shape[2]), store.absent, store.values.dtype)
    values[:, rows] = table.values
    times = store.times(device, mapping.columns)
    values[times >= at_ns] = store.absent
    new = ~is_absent(values)
    return values, bool((new.any(axis=1) & (~new & (times > 0)).any(axis=1)).any())
