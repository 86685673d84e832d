"""Stores the last readings of all devices, and adds messages to them many at a time.

Messages of different devices with the same columns and rows are added as one array. A second message of a device waits
for the next array, so that the size of batches changes no result. A message may omit rows or columns, which keep their
last readings. A reading older than the last one does not replace it, and is passed on as late.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streams.detect.measure.storage.column_store import (
    Cells,
    Column,
    ColumnMapping,
    Indices,
    TableDelta,
    is_absent,
)
from streams.detect.measure.storage.message_batch import (
    BlockLayout,
    ClosedWindows,
    DeviceBlock,
    DeviceSlot,
    LateMessage,
    MessageBatch,
    PendingMessage,
    Step,
)
from streams.detect.measure.storage.refresh_periods import (
    TRAFFIC,
    RefreshPeriods,
)
from streams.detect.measure.storage.refuted_readings import with_carriers, without_dark_ber
from streams.detect.measure.storage.window_store import WindowSpec
from streams.wire.bounds import MAX_NUMBER
from streams.wire.models import IDLE_NS, RowKind, Samples, Source, Table

log = logging.getLogger(__name__)

MAX_DEVICE_ROWS = 4096
"""The most rows of a source: a switch has up to 1,024 ports with breakouts. Changing names would grow forever."""

MAX_DEVICE_COLUMNS = 1024
"""The most columns of each table: metrics times lanes, priorities and queues are below 500."""

_LOGGED_EVERY = 100_000

Key = tuple[str, Source, RowKind]
_Mappings = tuple[ColumnMapping, ColumnMapping]
_Deltas = tuple[TableDelta, TableDelta]


class ReadingStore:
    """The last readings of all devices, and the ends of their windows.

    Process each yielded step before requesting the next, because it is stored then.
    """

    def __init__(self, spec: WindowSpec) -> None:
        self.slots: dict[Key, DeviceSlot] = {}
        self.blocks: dict[BlockLayout, DeviceBlock] = {}
        self.spec = spec
        self.refused = 0
        """Counts rows and columns of messages for which their device had no room."""
        self._refresh = RefreshPeriods()
        self._batches: list[dict[_Mappings, list[PendingMessage]]] = []

    def add(self, number: int, samples: Samples, at_ns: int) -> Iterable[Step]:
        """Add a message; the next `flush` stores a message in order, any other is flushed at once."""
        key = (samples.device, samples.source, samples.row_kind)
        slot = self.slots.get(key)
        if slot is None:
            slot = self._add_slot(key, samples)
        counters, gauges = slot.block.counters.mapping(samples.counters), slot.block.gauges.mapping(samples.gauges)
        if at_ns <= slot.newest_ns or counters is None or gauges is None or samples.row != slot.rows:
            return self._irregular(PendingMessage(number, slot, samples, at_ns))
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
        return ()

    def is_pending(self, device: str) -> bool:
        """Return whether messages of a device's ports are not stored yet."""
        slots = (self.slots.get((device, source, RowKind.ROW_KIND_PORT)) for source in Source)
        return any(slot is not None and slot.pending for slot in slots)

    def flush(self) -> Iterator[Step]:
        batches, self._batches = self._batches, []
        groups: list[tuple[_Mappings, list[PendingMessage]]] = []
        for batch in batches:
            groups += batch.items()
        rest_ns, place = [IDLE_NS], 0  # what follows each group, of the last one first
        for _, group in groups[:0:-1]:
            rest_ns.append(min(rest_ns[-1], *(message.at_ns for message in group)))
        for (counters, gauges), group in groups:
            place -= 1
            for message in group:
                message.slot.pending = 0
            block = group[0].slot.block
            devices = np.array([message.slot.index for message in group], np.intp)
            at_ns = np.array([message.at_ns for message in group], np.int64)
            counts = _stacked([message.samples.counters.values for message in group])
            levels = _within_bounds(_stacked([message.samples.gauges.values for message in group]))
            deltas = block.deltas(devices, at_ns, (counters, counts), (gauges, levels))
            deltas[0].values = self._refresh.without_unrefreshed(deltas[0])
            deltas[1].values = with_carriers(*deltas)
            deltas[1].values = without_dark_ber(deltas[1])
            yield from self._apply(group, block, deltas, deltas, rest_ns=rest_ns[place])

    def has_traffic(self, device: str, source: Source) -> bool:
        """Return whether the ports of a device have traffic counters, by which a restart is confirmed."""
        slot = self.slots.get((device, source, RowKind.ROW_KIND_PORT))
        return slot is not None and any(metric in TRAFFIC for metric, _ in slot.block.layout.counters)

    def counters_went_on(self, samples: Samples) -> bool | None:
        """Return True if most traffic counters that were above 0 went on, False if most began again.

        None if no such counter is in the message and in the last readings.
        """
        slot = self.slots.get((samples.device, samples.source, samples.row_kind))
        mapping = None if slot is None else slot.block.counters.mapping(samples.counters)
        if slot is None or mapping is None:
            return None
        place_of = {row: place for place, row in enumerate(slot.rows)}
        rows = [(place_of[row], place) for place, row in enumerate(samples.row) if row in place_of]
        traffic = [at for (metric, _), at in mapping.position_of.items() if metric in TRAFFIC]
        before = slot.block.counters.values[slot.index, mapping.columns[traffic]][:, [own for own, _ in rows]]
        now = samples.counters.values[traffic][:, [place for _, place in rows]]
        known = ~is_absent(before) & ~is_absent(now) & (before > 0)
        count = np.count_nonzero(known)
        return bool(2 * np.count_nonzero(known & (now < before)) < count) if count else None

    def restarted(self, device: str, source: Source, at_ns: int) -> Iterator[Step]:
        """Discard the counters of a device that were reset before the reading of this time.

        States stay comparable, because a restart does not reset them: a port that was up and is down went down. The
        counts of a window that is not final are unknown.
        """
        yield from self.flush()
        for kind in RowKind:
            if (slot := self.slots.get((device, source, kind))) is not None:
                slot.block.counters.clear(slot.index)
                slot.history.restarted(at_ns, slot.block.counters.columns)
                if slot.block.windows is not None:
                    slot.block.windows.counters.clear(slot.index)

    def _apply(
        self, group: list[PendingMessage], block: DeviceBlock, own: _Deltas, whole: _Deltas, *, is_late: bool = False,
        rest_ns: int = IDLE_NS,
    ) -> Iterator[Step]:  # fmt: skip
        """Process messages with their own rows, close windows, and store the messages with all rows of their devices.

        Windows are closed first, because the last readings may be those of the end of a window.
        """
        batch = MessageBatch(block.layout.row_kind, group, *own, rest_ns=rest_ns)
        yield batch
        for slot, update in batch.transitions:
            slot.history.update(update)
        if (windows := block.windows) is not None:
            for devices, messages, numbers in windows.roll(own[0].devices, own[0].at_ns):
                yield ClosedWindows(windows, devices, [group[number] for number in messages.tolist()], numbers)
            if not is_late:
                windows.excursions.observe(whole[1])
        for delta in whole:
            delta.store.apply(delta)

    def _irregular(self, message: PendingMessage) -> Iterator[Step]:
        """Store a message that is late, or whose rows or columns differ from those of its slot.

        It is stored alone, as a message of all rows in which missing or late cells are absent.
        """
        yield from self.flush()
        slot, samples, at_ns = message.slot, message.samples, message.at_ns
        gauges = samples.gauges
        samples = message.samples = replace(samples, gauges=replace(gauges, values=_within_bounds(gauges.values)))
        samples = message.samples = self._within_layout(slot, samples)
        rows, tables = self._fit(slot, samples), (samples.counters, samples.gauges)
        spread = _spread(slot, tables, rows, at_ns)
        if any(is_partial for _, is_partial in spread):
            self._move(slot, slot.rows, replace(slot.block.layout, has_per_cell_times=True))
        is_late, block = at_ns < slot.newest_ns, slot.block
        if is_late and block.windows is not None:
            block.windows.apply_late(slot.index, slot.newest_ns, at_ns, tables, rows, slot.history)
        read = at_ns, samples.counters.metric, samples.gauges.metric, samples.row
        if not slot.history.contains(read):
            if is_late:
                late = LateMessage(message, rows)
                yield late
                for update in late.transitions:
                    slot.history.update(update)
            slot.history.insert(read, max(slot.newest_ns, at_ns) - self.spec.lateness_ns)
        slot.newest_ns = max(slot.newest_ns, at_ns)
        device, time = np.array([slot.index], np.intp), np.array([at_ns], np.int64)
        fits = [store.mapping(table) for store, table in zip((block.counters, block.gauges), tables, strict=True)]
        assert fits[0] is not None and fits[1] is not None
        (counts, _), (levels, _) = spread
        own = block.deltas(device, time, (fits[0], counts[:, rows]), (fits[1], levels[:, rows]), rows)
        whole = block.deltas(device, time, (fits[0], counts), (fits[1], levels))
        yield from self._apply([message], block, own, whole, is_late=is_late)

    def _fit(self, slot: DeviceSlot, samples: Samples) -> Indices:
        """Move a device into a block that also has the rows and columns of a message; return the message's rows."""
        index_of = {row: index for index, row in enumerate(slot.rows)}
        for row in samples.row:
            index_of.setdefault(row, len(index_of))
        former = slot.block.layout
        layout = BlockLayout(
            former.row_kind, _merged_columns(former.counters, samples.counters),
            _merged_columns(former.gauges, samples.gauges), len(index_of), former.has_per_cell_times,
        )  # fmt: skip
        self._move(slot, tuple(index_of), layout)
        return np.array([index_of[row] for row in samples.row], np.intp)

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

    def _add_slot(self, key: Key, samples: Samples) -> DeviceSlot:
        rows = tuple(dict.fromkeys(samples.row))
        rows = samples.row if rows == samples.row else rows  # the tuple that other devices share
        counters, gauges = _merged_columns((), samples.counters), _merged_columns((), samples.gauges)
        block = self.block(BlockLayout(samples.row_kind, counters, gauges, len(rows)))
        slot = self.slots[key] = DeviceSlot(samples.device, samples.source, rows, block, block.add())
        return slot

    def block(self, layout: BlockLayout) -> DeviceBlock:
        if (block := self.blocks.get(layout)) is None:
            block = self.blocks[layout] = DeviceBlock(layout, self.spec)
        return block

    def _move(self, slot: DeviceSlot, rows: tuple[str, ...], layout: BlockLayout) -> None:
        """Move a device into the block of a layout, unless it is there."""
        former = slot.block
        if layout != former.layout:
            self.block(layout).move_in(slot, rows)
            if not former.device_count:
                del self.blocks[former.layout]


def _stacked(tables: list[Cells]) -> Cells:
    """Concatenate tables. The table of one message is not copied, and is read-only."""
    if len(tables) > 1:
        return np.concatenate(tables)
    only = tables[0].view()
    only.flags.writeable = False
    return only


def _admitted(known: Sequence[Any], new: Sequence[Any], most: int) -> list[int]:
    """Return the indices of the names that are known, or for which there is room among `most`."""
    names = set(known)
    places = []
    for index, name in enumerate(new):
        if name in names or len(names) < most:
            names.add(name)
            places.append(index)
    return places


def _within_bounds(gauges: Cells) -> Cells:
    """Return gauges in which values beyond the bounds of messages are absent: infinity, or more than MAX_NUMBER."""
    beyond = np.abs(gauges) > MAX_NUMBER
    return np.where(beyond, np.nan, gauges) if np.count_nonzero(beyond) else gauges


def _merged_columns(columns: tuple[Column, ...], table: Table) -> tuple[Column, ...]:
    """Return the columns, followed by the new columns of a message."""
    return tuple(dict.fromkeys((*columns, *zip(table.metric, table.index, strict=True))))


def _spread(slot: DeviceSlot, tables: tuple[Table, Table], rows: Indices, at_ns: int) -> list[tuple[Cells, bool]]:
    """Return tables over all rows of a device, absent without new readings, and whether a column is partial.

    A column is partial if the table has new readings of only some of the cells that were read before.
    """
    found = []
    for store, table in zip((slot.block.counters, slot.block.gauges), tables, strict=True):
        mapping = store.mapping(table)
        assert mapping is not None
        values = np.full((len(mapping.columns), store.rows), store.absent, store.values.dtype)
        values[:, rows] = table.values
        times = store.times(slot.index, mapping.columns)
        values[times >= at_ns] = store.absent
        new = ~is_absent(values)
        found.append((values, bool((new.any(axis=1) & (~new & (times > 0)).any(axis=1)).any())))
    return found
