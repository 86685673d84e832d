"""Writes the last readings of all devices into a snapshot, block by block and column by column."""

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from streams.detect.measure.storage import snapshot_windows
from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.column_store import Column, ColumnStore, is_absent
from streams.detect.measure.storage.message_batch import BlockLayout, DeviceSlot
from streams.detect.measure.storage.reading_history import pack_history, unpack_history
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.fabric.catalogue import Metric
from streams.wire.models import RowKind, Source

Owner = tuple[str, Source]
"""A source of a device."""


def pack(
    readings: ReadingStore, owners_of: Callable[[list[DeviceSlot]], Iterable[int]], encoder: ArrayEncoder
) -> dict[str, Any]:
    """Write all readings; return the JSON head. `owners_of` numbers the sources of slots."""
    rows: dict[tuple[str, ...], int] = {}
    blocks = []
    ordered = _by_block(readings)
    for block, slots in groupby(ordered, key=attrgetter("block")):
        own = list(slots)
        places = np.array([slot.index for slot in own], np.intp)
        newest = np.array([slot.newest_ns for slot in own], np.int64)
        encoder.put(newest)
        encoder.put_all(owners_of(own))
        encoder.put_all(rows.setdefault(slot.rows, len(rows)) for slot in own)
        per_cell = [_pack(store, places, newest, encoder) for store in (block.counters, block.gauges)]
        if block.windows is not None:
            snapshot_windows.pack(block.windows, places, newest, encoder)
        layout: BlockLayout = block.layout
        own_head = [layout.row_kind, layout.counters, layout.gauges, layout.rows, layout.has_per_cell_times]
        blocks.append([*own_head, len(own), per_cell])
    history = pack_history((slot.history for slot in ordered), encoder)
    return {"rows": list(rows), "blocks": blocks, "history": history}


def unpack(head: dict[str, Any], owners: list[Owner], readings: ReadingStore, decoder: ArrayDecoder) -> None:
    """Fill an empty store; `owners` are the sources by their numbers."""
    rows = [tuple(names) for names in head["rows"]]
    for kind, counters, gauges, height, has_per_cell_times, count, per_cell in head["blocks"]:
        layout = BlockLayout(RowKind(kind), _columns(counters), _columns(gauges), height, has_per_cell_times)
        block = readings.block(layout)
        newest = decoder.take("i8", count)
        numbers, names = decoder.take("i8", count).tolist(), decoder.take("i8", count).tolist()
        indices = block.add_all(count)
        for store, own in ((block.counters, per_cell[0]), (block.gauges, per_cell[1])):
            _unpack(store, own, newest, decoder)
        if block.windows is not None:
            snapshot_windows.unpack(block.windows, newest, decoder)
        for index, newest_ns, number, name in zip(indices, newest.tolist(), numbers, names, strict=True):
            device, source = owners[number]
            slot = DeviceSlot(device, source, rows[name], block, index, newest_ns)
            readings.slots[device, source, layout.row_kind] = slot
    unpack_history(head["history"], (slot.history for slot in readings.slots.values()), decoder)


def _by_block(readings: ReadingStore) -> list[DeviceSlot]:
    """Return the slots in the order in which `unpack` makes them."""
    number = {id(block): number for number, block in enumerate(readings.blocks.values())}
    return sorted(readings.slots.values(), key=lambda slot: (number[id(slot.block)], slot.index))


def _pack(store: ColumnStore, places: Numbers, newest: Numbers, encoder: ArrayEncoder) -> list[int]:
    """Write a store column by column; return the columns with a time for each cell.

    A column whose cells all have one time again loses its times by cell in the store, too: no result depends on them.
    """
    own: Any = slice(len(places)) if places[-1] == len(places) - 1 else places
    per_cell = []
    for place in range(len(store.columns)):
        values, times = store.values[own, place], store.at_ns[own, place]
        encoder.put(values)
        encoder.put(times - newest)
        if place in store.per_cell_times:
            cells = np.where(is_absent(values), times[:, None], store.per_cell_times[place][own])
            if (cells == times[:, None]).all():
                del store.per_cell_times[place]
            else:
                encoder.put(cells - newest[:, None])
                per_cell.append(place)
    return per_cell


def _unpack(store: ColumnStore, per_cell: Iterable[int], newest: Numbers, decoder: ArrayDecoder) -> None:
    count, columns, rows = store.values.shape
    for place in range(columns):
        store.values[:, place] = decoder.take(store.values.dtype.str, count, rows)
        store.at_ns[:, place] = decoder.take("i8", count) + newest
        if place in per_cell:
            store.per_cell_times[place] = decoder.take("i8", count, rows) + newest[:, None]


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[Column, ...]:
    return tuple((Metric(metric), index) for metric, index in pairs)
