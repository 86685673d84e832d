"""Writes and reads snapshots of `measure`: a JSON head that describes the layout of the arrays, then the arrays.

The arrays are most of it (24 metrics of 786,432 ports take 151 MB uncompressed), so they are not converted to text.
Reading a snapshot executes nothing. A snapshot of another schema is refused, and the input is read again.
"""

from collections.abc import Callable, Iterable
from dataclasses import astuple
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import Any

import cramjam
import numpy as np
import orjson

from streams.detect.measure.liveness import TRANSPORT_NS, Liveness, SourceState
from streams.detect.measure.source_clock import SourceClock
from streams.detect.measure.storage.array_codec import ArrayCodec, ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.column_store import Column, Times
from streams.detect.measure.storage.message_batch import BlockLayout, DeviceBlock, DeviceSlot
from streams.detect.measure.storage.reading_history import pack_history, unpack_history
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.measure.storage.refresh_periods import assume_proven, exchange_periods, has_periods
from streams.fabric.catalogue import Metric
from streams.fabric.decompression import lz4
from streams.wire.errors import Reject
from streams.wire.models import RowKind, Source

_SCHEMA = 5
_TIMES = ("first_ns", "last_ns", "status_ns", "cadence_ns", "silent")
_LISTS = ("unevaluated_gaps", "gaps", "restarts")
_WORD = 8
MAX_HEAD_BYTES = 1 << 30
"""The limit for names and small state: 786,432 ports with LLDP neighbors in one partition take 200 MB."""


def dump(liveness: Liveness, readings: ReadingStore, small: dict[str, Any]) -> bytes:
    """Return the state as compressed bytes; `small` is the state besides readings and sources, in JSON types."""
    encoder = ArrayEncoder()
    sources = liveness.sources
    head = {
        "schema": _SCHEMA, "width_ns": readings.spec.width_ns, "arrival_ns": liveness.arrival_ns, "small": small,
        "sources": _pack_sources(list(sources.values()), encoder),
        "readings": _pack_readings(
            readings, lambda slots: (sources[slot.device, slot.source].index for slot in slots), encoder
        ),
        "lengths": [len(blob) for blob in encoder.blobs],
    }  # fmt: skip
    plain = bytes(cramjam.lz4.compress(orjson.dumps(head)))
    return b"".join([len(plain).to_bytes(_WORD, "little"), plain, *encoder.blobs])


def load(
    data: bytes, liveness: Liveness, readings: ReadingStore, restore_small: Callable[[dict[str, Any]], None]
) -> None:
    """Fill empty liveness and readings from the output of `dump`, then the rest; raises Reject on invalid data."""
    try:
        whole = memoryview(data)
        start = _WORD + int.from_bytes(whole[:_WORD], "little")
        head = orjson.loads(lz4(whole[_WORD:start], MAX_HEAD_BYTES))
        if head["schema"] != _SCHEMA:
            raise Reject(f"not a snapshot of measure that this version reads: schema {head['schema']}")
        if head["width_ns"] != readings.spec.width_ns:
            raise Reject("not a snapshot of measure with windows of this width: the input is read again")
        ends = np.cumsum([start, *head["lengths"]]).tolist()
        decoder = ArrayDecoder(whole[first:last] for first, last in pairwise(ends))
        sources = _unpack_sources(head["sources"], decoder)
        liveness.restore(sources, head["arrival_ns"])
        _unpack_readings(head["readings"], [(state.device, state.source) for state in sources], readings, decoder)
        restore_small(head["small"])
    except (cramjam.DecompressionError, LookupError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise Reject(f"not a snapshot of measure: {error}") from error


def _pack_sources(sources: list[SourceState], encoder: ArrayEncoder) -> dict[str, Any]:
    texts: dict[str, int] = {}
    for name in _TIMES:
        encoder.put_all(map(attrgetter(name), sources))
    encoder.put_all(map(attrgetter("boot_id"), sources), "u8")
    encoder.put_all(map(attrgetter("source"), sources))
    for name in ("collector", "unreachable"):
        encoder.put_all(texts.setdefault(text, len(texts)) for text in map(attrgetter(name), sources))
    intervals = list(map(attrgetter("intervals_ns"), sources))
    encoder.put_all(map(len, intervals))
    encoder.put_all(chain.from_iterable(intervals))
    return {
        "device": [state.device for state in sources], "texts": list(texts),
        **{name: [[n, *one] for n, state in enumerate(sources) for one in getattr(state, name)] for name in _LISTS},
        "intervals": sum(map(len, intervals)),
        "arrived": [
            [place, state.arrived_ns]
            for place, state in enumerate(sources)
            if state.arrived_ns > state.last_ns + TRANSPORT_NS
        ],
        "status_gaps": [[n, *state.status_gap_ns] for n, state in enumerate(sources) if any(state.status_gap_ns)],
        "runs": [state.run for state in sources],
        "others": [[n, *state.other] for n, state in enumerate(sources) if any(state.other)],
        "ended": [place for place, state in enumerate(sources) if state.ended],
        "clocks": [[place, *astuple(state.clock)] for place, state in enumerate(sources) if state.clock is not None],
    }  # fmt: skip


def _unpack_sources(head: dict[str, Any], decoder: ArrayDecoder) -> list[SourceState]:
    devices, texts = head["device"], head["texts"]
    count = len(devices)
    times = {name: decoder.take("i8", count).tolist() for name in _TIMES}
    boots, sources = decoder.take("u8", count).tolist(), decoder.take("i8", count).tolist()
    collectors, unreachable = (decoder.take("i8", count).tolist() for _ in range(2))
    ends = [0, *np.cumsum(decoder.take("i8", count)).tolist()]
    intervals = decoder.take("i8", head["intervals"]).tolist()
    kinds = {int(source): source for source in Source}
    states = [
        SourceState(
            device, kinds[sources[i]], times["first_ns"][i], last_ns=times["last_ns"][i],
            arrived_ns=times["last_ns"][i], silent=bool(times["silent"][i]), cadence_ns=times["cadence_ns"][i],
            boot_id=boots[i], collector=texts[collectors[i]], status_ns=times["status_ns"][i],
            unreachable=texts[unreachable[i]], intervals_ns=intervals[ends[i] : ends[i + 1]],
        )
        for i, device in enumerate(devices)
    ]  # fmt: skip
    for name in _LISTS:
        for place, *one in head[name]:
            getattr(states[place], name).append(tuple(one))
    for place, arrived_ns in head["arrived"]:
        states[place].arrived_ns = arrived_ns
    for place, begin_ns, end_ns in head.get("status_gaps", ()):  # 0.2.0 has none
        states[place].status_gap_ns = begin_ns, end_ns
    for place, run in enumerate(head.get("runs", ())):  # 0.2.0 has none, nor the others
        states[place].run = run
    for place, *other in head.get("others", ()):
        states[place].other = tuple(other)
    for place in head.get("ended", ()):  # 0.1.0 has none
        states[place].ended = True
    for place, *clock in head["clocks"]:
        states[place].clock = SourceClock(*clock)
    return states


Owner = tuple[str, Source]
"""A source of a device."""


def _pack_readings(
    readings: ReadingStore, owners_of: Callable[[list[DeviceSlot]], Iterable[int]], encoder: ArrayEncoder
) -> dict[str, Any]:
    """Write all readings, block by block and column by column; return the JSON head.

    `owners_of` numbers the sources of slots.
    """
    rows: dict[tuple[str, ...], int] = {}
    blocks, packed = [], []
    number = {id(block): number for number, block in enumerate(readings.blocks.values())}
    ordered = sorted(readings.slots.values(), key=lambda slot: (number[id(slot.block)], slot.index))
    for block, slots in groupby(ordered, key=attrgetter("block")):
        own = list(slots)
        places = np.array([slot.index for slot in own], np.intp)
        newest = np.array([slot.newest_ns for slot in own], np.int64)
        encoder.put(newest)
        encoder.put_all(owners_of(own))
        encoder.put_all(rows.setdefault(slot.rows, len(rows)) for slot in own)
        per_cell = _exchange(block, encoder, places, newest, [[], []])
        layout: BlockLayout = block.layout
        own_head = [layout.row_kind, layout.counters, layout.gauges, layout.rows, layout.has_per_cell_times]
        blocks.append([*own_head, len(own), per_cell, *([True] if layout.has_many_nics else ())])
        packed.append((block, places))
    history = pack_history((slot.history for slot in ordered), encoder)
    return {"rows": list(rows), "blocks": blocks, "history": history, "learned": _pack_learned(packed, encoder)}


def _unpack_readings(head: dict[str, Any], owners: list[Owner], readings: ReadingStore, decoder: ArrayDecoder) -> None:
    """Fill an empty store; `owners` are the sources by their numbers."""
    rows = [tuple(names) for names in head["rows"]]
    filled: list[tuple[DeviceBlock, Numbers]] = []
    for kind, counters, gauges, height, has_per_cell_times, count, per_cell, *has_rails in head["blocks"]:
        layout = BlockLayout(RowKind(kind), _columns(counters), _columns(gauges), height, has_per_cell_times)
        block = target = readings.block(layout)
        if layout.has_many_nics and not has_rails:  # 0.2.0 has no mark, and no windows of these counters
            block = DeviceBlock(layout, readings.spec, has_rails=False)
        newest = decoder.take("i8", count)
        numbers, names = decoder.take("i8", count).tolist(), decoder.take("i8", count).tolist()
        indices = block.add_all(count)
        _exchange(block, decoder, indices, newest, per_cell)
        for index, newest_ns, number, name in zip(indices.tolist(), newest.tolist(), numbers, names, strict=True):
            device, source = owners[number]
            slot = DeviceSlot(device, source, rows[name], block, index, newest_ns)
            if block is not target:
                target.move_in(slot, slot.rows)
            readings.slots[device, source, layout.row_kind] = slot
        filled.append((target, indices))
        assume_proven(target.counters)
    unpack_history(head["history"], (slot.history for slot in readings.slots.values()), decoder)
    for place, *kinds in head.get("learned", ()):  # 0.2.0 has none
        _exchange_learned(filled[place][0], decoder, filled[place][1], *kinds)


def _pack_learned(blocks: Iterable[tuple[DeviceBlock, Numbers]], encoder: ArrayEncoder) -> list[list[int]]:
    """Write what is known of slow counters and of carriers, of blocks with a port that is not usual.

    Returns these blocks, by number, and whether each has periods and carriers. Version 0.2.0 reads none of it.
    """
    found = []
    for number, (block, places) in enumerate(blocks):
        kinds = has_periods(block.counters, places), bool(block.gauges.carrier[places].any())
        if any(kinds):
            _exchange_learned(block, encoder, places, *kinds)
            found.append([number, *kinds])
    return found


def _exchange_learned(
    block: DeviceBlock, codec: ArrayCodec, places: Numbers, has_periods: int, has_carriers: int
) -> None:
    """Write or fill what is known of the ports of devices: periods, carriers or both."""
    if has_periods:
        exchange_periods(block.counters, codec, places)
    if has_carriers:
        codec.exchange(block.gauges.carrier, places)
        block.gauges.has_carriers = True


def _exchange(
    block: DeviceBlock, codec: ArrayCodec, places: Numbers, newest: Times, per_cell: list[list[int]]
) -> list[list[int]]:
    """Write or fill the devices of a block at these indices; return the columns with a time for each cell."""
    stores = (block.counters, block.gauges)
    found = [store.exchange(codec, places, newest, own) for store, own in zip(stores, per_cell, strict=True)]
    if block.windows is not None:
        block.windows.exchange(codec, places, newest)
    return found


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[Column, ...]:
    return tuple((Metric(metric), index) for metric, index in pairs)
