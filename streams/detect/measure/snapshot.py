"""What `measure` keeps over a restart: a JSON head that says how the arrays after it are laid out, then the arrays.

The arrays are most of it (24 metrics of 786,432 ports are 151 MB plain), so they are not turned into text; nothing in
a snapshot is ever executed. A snapshot of another schema is refused: the input is there to be read again.
"""

from collections.abc import Iterable
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import Any

import cramjam
import numpy as np
import orjson

from streams.detect.measure.facts.facts_tracker import FactsTracker
from streams.detect.measure.liveness import Liveness, SourceState
from streams.detect.measure.monitors.pcie_monitor import PcieMonitor
from streams.detect.measure.storage import snapshot_history, snapshot_windows
from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.column_store import Column, ColumnStore, is_absent
from streams.detect.measure.storage.device_block import BlockLayout
from streams.detect.measure.storage.reading_store import DeviceSlot, ReadingStore
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import RowKind, Source

_SCHEMA = 4
_TIMES = ("first_ns", "last_ns", "status_ns", "cadence_ns", "silent")
_WORD = 8


def dump(
    liveness: Liveness, readings: ReadingStore, floor_ns: int, watermark_ns: int, held: list[list[Any]],
    low: list[list[Any]], said: dict[str, Any],
) -> bytes:  # fmt: skip
    """The state as bytes, compressed; `held`, `low` and `said` are what Pauses, Trained and Selves dump."""
    packer = ArrayEncoder()
    head = {
        "schema": _SCHEMA, "width_ns": readings.clock.width_ns, "arrival_ns": liveness.arrival_ns,
        "floor_ns": floor_ns, "watermark_ns": watermark_ns, "held": held, "low": low, "said": said,
        "sources": _sources(list(liveness.sources.values()), packer), **_readings(liveness, readings, packer),
        "recent": snapshot_history.pack((slot.history for slot in _by_block(readings)), packer),
        "lengths": [len(blob) for blob in packer.blobs],
    }  # fmt: skip
    plain = bytes(cramjam.lz4.compress(orjson.dumps(head)))
    return b"".join([len(plain).to_bytes(_WORD, "little"), plain, *packer.blobs])


def load(
    data: bytes, liveness: Liveness, readings: ReadingStore, trained: PcieMonitor, selves: FactsTracker
) -> tuple[int, int, list[list[Any]]]:
    """Fill all from what `dump` wrote; answers (floor_ns, watermark_ns, held); raises Reject on what it did not."""
    try:
        whole = memoryview(data)
        start = _WORD + int.from_bytes(whole[:_WORD], "little")
        head = orjson.loads(bytes(cramjam.lz4.decompress(whole[_WORD:start])))
        if head["schema"] != _SCHEMA:
            raise Reject(f"not a snapshot of measure that this version reads: schema {head['schema']}")
        if head["width_ns"] != readings.clock.width_ns:
            raise Reject("not a snapshot of measure with windows of this width: the input is read again")
        ends = np.cumsum([start, *head["lengths"]]).tolist()
        unpacker = ArrayDecoder(whole[first:last] for first, last in pairwise(ends))
        heard = _heard(head["sources"], unpacker)
        liveness.restore(heard, head["arrival_ns"])
        _fill(head, heard, readings, unpacker)
        if "recent" in head:
            snapshot_history.unpack(head["recent"], (slot.history for slot in readings.slots.values()), unpacker)
        trained.load(head.get("low", []))
        selves.load(head["said"])
        return head["floor_ns"], head["watermark_ns"], head.get("held", [])
    except (cramjam.DecompressionError, LookupError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise Reject(f"not a snapshot of measure: {error}") from error


def _sources(sources: list[SourceState], packer: ArrayEncoder) -> dict[str, Any]:
    words: dict[str, int] = {}
    for name in _TIMES:
        packer.put_all(map(attrgetter(name), sources))
    packer.put_all(map(attrgetter("boot_id"), sources), "u8")
    packer.put_all(map(attrgetter("source"), sources))
    for name in ("collector", "unreachable"):
        packer.put_all(words.setdefault(word, len(words)) for word in map(attrgetter(name), sources))
    intervals = list(map(attrgetter("intervals_ns"), sources))
    packer.put_all(map(len, intervals))
    packer.put_all(chain.from_iterable(intervals))
    unjudged = [[place, *gap] for place, heard in enumerate(sources) for gap in heard.unevaluated_gaps]
    gaps = [[place, *gap] for place, heard in enumerate(sources) for gap in heard.gaps]
    lives = [[place, *life] for place, heard in enumerate(sources) for life in heard.restarts]
    return {
        "device": [heard.device for heard in sources], "words": list(words), "unjudged": unjudged, "gaps": gaps,
        "lives": lives,
        "intervals": sum(map(len, intervals)),
    }  # fmt: skip


def _heard(head: dict[str, Any], unpacker: ArrayDecoder) -> list[SourceState]:
    devices, words = head["device"], head["words"]
    count = len(devices)
    times = {name: unpacker.take("i8", count).tolist() for name in _TIMES}
    boots, sources = unpacker.take("u8", count).tolist(), unpacker.take("i8", count).tolist()
    collectors, unreachable = (unpacker.take("i8", count).tolist() for _ in range(2))
    ends = [0, *np.cumsum(unpacker.take("i8", count)).tolist()]
    intervals = unpacker.take("i8", head["intervals"]).tolist()
    kinds = {int(source): source for source in Source}
    heard = [
        SourceState(
            device, kinds[sources[i]], times["first_ns"][i], last_ns=times["last_ns"][i],
            silent=bool(times["silent"][i]), cadence_ns=times["cadence_ns"][i], boot_id=boots[i],
            collector=words[collectors[i]], status_ns=times["status_ns"][i], unreachable=words[unreachable[i]],
            intervals_ns=intervals[ends[i] : ends[i + 1]],
        )
        for i, device in enumerate(devices)
    ]  # fmt: skip
    for place, last_ns, next_ns in head["unjudged"]:
        heard[place].unevaluated_gaps.append((last_ns, next_ns))
    for place, last_ns, next_ns in head["gaps"]:
        heard[place].gaps.append((last_ns, next_ns))
    for place, *life in head.get("lives", []):
        heard[place].restarts.append(tuple(life))
    return heard


def _by_block(readings: ReadingStore) -> list[DeviceSlot]:
    """In the order in which a successor has them."""
    number = {id(block): number for number, block in enumerate(readings.blocks.values())}
    return sorted(readings.slots.values(), key=lambda slot: (number[id(slot.block)], slot.index))


def _readings(liveness: Liveness, readings: ReadingStore, packer: ArrayEncoder) -> dict[str, Any]:
    rows: dict[tuple[str, ...], int] = {}
    blocks = []
    for block, slots in groupby(_by_block(readings), key=attrgetter("block")):
        own = list(slots)
        places = np.array([slot.index for slot in own], np.intp)
        newest = np.array([slot.newest_ns for slot in own], np.int64)
        packer.put(newest)
        packer.put_all(liveness.sources[slot.device, slot.source].index for slot in own)
        packer.put_all(rows.setdefault(slot.rows, len(rows)) for slot in own)
        ragged = [_pack(stack, places, newest, packer) for stack in (block.counters, block.gauges)]
        if block.windows is not None:
            snapshot_windows.pack(block.windows, places, newest, packer)
        shape = block.layout
        blocks.append(
            [shape.row_kind, shape.counters, shape.gauges, shape.rows, shape.has_per_cell_times, len(own), ragged]
        )
    return {"rows": list(rows), "blocks": blocks}


def _pack(stack: ColumnStore, places: Numbers, newest: Numbers, packer: ArrayEncoder) -> list[int]:
    """One stack, column by column; answers the columns whose cells have times of their own.

    Where all cells of a column are of one time again, the stack forgets that they were not: no answer depends on it.
    """
    own: Any = slice(len(places)) if places[-1] == len(places) - 1 else places
    ragged = []
    for place in range(len(stack.columns)):
        values, times = stack.values[own, place], stack.at_ns[own, place]
        packer.put(values)
        packer.put(times - newest)
        if place in stack.per_cell_times:
            cells = np.where(is_absent(values), times[:, None], stack.per_cell_times[place][own])
            if (cells == times[:, None]).all():
                del stack.per_cell_times[place]
            else:
                packer.put(cells - newest[:, None])
                ragged.append(place)
    return ragged


def _fill(head: dict[str, Any], heard: list[SourceState], readings: ReadingStore, unpacker: ArrayDecoder) -> None:
    rows = [tuple(names) for names in head["rows"]]
    for kind, counters, gauges, height, patchy, count, ragged in head["blocks"]:
        shape = BlockLayout(RowKind(kind), _columns(counters), _columns(gauges), height, patchy)
        block = readings.block(shape)
        newest = unpacker.take("i8", count)
        owners, names = unpacker.take("i8", count).tolist(), unpacker.take("i8", count).tolist()
        places = block.add_all(count)
        for stack, own in ((block.counters, ragged[0]), (block.gauges, ragged[1])):
            _unpack(stack, own, newest, unpacker)
        if block.windows is not None:
            snapshot_windows.unpack(block.windows, newest, unpacker)
        for place, newest_ns, owner, name in zip(places, newest.tolist(), owners, names, strict=True):
            device, source = heard[owner].device, heard[owner].source
            slot = DeviceSlot(device, source, rows[name], block, place, newest_ns)
            readings.slots[device, source, shape.row_kind] = slot


def _unpack(stack: ColumnStore, ragged: Iterable[int], newest: Numbers, unpacker: ArrayDecoder) -> None:
    count, columns, rows = stack.values.shape
    for place in range(columns):
        stack.values[:, place] = unpacker.take(stack.values.dtype.str, count, rows)
        stack.at_ns[:, place] = unpacker.take("i8", count) + newest
        if place in ragged:
            stack.per_cell_times[place] = unpacker.take("i8", count, rows) + newest[:, None]


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[Column, ...]:
    return tuple((Metric(metric), index) for metric, index in pairs)
