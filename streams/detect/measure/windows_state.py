"""The windows of a block in a snapshot: as differences to the last readings, because most of them are none.

What is held is written of those devices only whose window is over but not final, what was notable of those ports only
at which something was: a healthy port adds to a snapshot what its traffic was a minute ago, and no more.
"""

from typing import Any

import numpy as np
import orjson

from streams.detect.measure.packing import Numbers, Packer, Unpacker
from streams.detect.measure.told import Told
from streams.detect.measure.windows import NONE, Kept, Windows
from streams.fabric.catalogue import Metric

_WORD = 8


def pack(windows: Windows, places: Numbers, newest: Numbers, packer: Packer) -> None:
    """Add what is kept of the devices at these places; `newest` are their newest readings."""
    pending = windows.pending[places]
    packer.put(windows.open[places])
    packer.put(pending)
    packer.put(windows.rails_until[places])
    for notable in (windows.until[places], windows.alone_at[places]):
        cells = np.flatnonzero(notable != NONE)
        packer.put(np.array([len(cells)]))
        packer.put(cells)
        packer.put(notable.reshape(-1)[cells].astype(np.int64))
    _put_text(_alone(windows, places), packer)
    for level in range(len(windows.levels)):
        packer.put(_paired(windows.told[places, level]))
    held = pending != NONE
    for kept in (windows.counters, windows.gauges):
        for column, place in enumerate(kept.places.tolist()):
            last = kept.stack.values[places, place]
            if column < kept.compared:
                packer.put(_words(last) - _words(kept.base[places, column]))
            packer.put(_words(last[held]) - _words(kept.held[places[held], column]))
        _put_times(kept.base_ns[places], newest, packer)
        _put_times(kept.held_ns[places[held]], newest[held], packer)


def unpack(windows: Windows, newest: Numbers, unpacker: Unpacker) -> None:
    """Fill the windows of a block whose last readings are there already."""
    count, rows = windows.until.shape
    windows.open[:] = unpacker.take("i8", count)
    windows.pending[:] = unpacker.take("i8", count)
    windows.rails_until[:] = unpacker.take("i8", count)
    for notable in (windows.until, windows.alone_at):
        found = int(unpacker.take("i8", 1)[0])
        cells = unpacker.take("i8", found)
        notable.reshape(-1)[cells] = unpacker.take("i8", found)
    for place, row, number, since_ns, at_ns, values in orjson.loads(_take_text(unpacker)):
        read = {(Metric(metric), index): (now, before) for metric, index, now, before in values}
        windows.alone[place, row] = Told(NONE, row, number, since_ns, at_ns, read)
    for level in range(len(windows.levels)):
        words = (count * rows + 1) // 2
        windows.told[:, level] = unpacker.take("u8", words).view("f4")[: count * rows].reshape(count, rows)
    windows.plan(np.arange(count))
    for kept in (windows.counters, windows.gauges):
        _unpack(kept, newest, windows.pending != NONE, unpacker)


def _unpack(kept: Kept, newest: Numbers, held: Numbers, unpacker: Unpacker) -> None:
    count, columns, rows = kept.held.shape
    kind, holding = kept.held.dtype.str, np.flatnonzero(held)
    for column, place in zip(range(columns), kept.places.tolist(), strict=True):
        last = _words(kept.stack.values[:, place])
        if column < kept.compared:
            kept.base[:, column] = (last - unpacker.take("u8", count, rows)).view(kind)
        kept.held[:, column] = kept.stack.absent
        kept.held[holding, column] = (last[holding] - unpacker.take("u8", len(holding), rows)).view(kind)
    kept.base_ns[:] = _take_times(columns, newest, unpacker)
    kept.held_ns[:] = kept.base_ns
    kept.held_ns[holding] = _take_times(columns, newest[holding], unpacker)


def _put_times(times: Numbers, newest: Numbers, packer: Packer) -> None:
    """Of each column, shape (devices, columns): they are most often those of the first one."""
    for column in range(times.shape[1]):
        packer.put(times[:, column] - (times[:, column - 1] if column else newest))


def _take_times(columns: int, newest: Numbers, unpacker: Unpacker) -> Numbers:
    times = [newest, *(unpacker.take("i8", len(newest)) for _ in range(columns))]
    return np.cumsum(times, axis=0)[1:].T


def _alone(windows: Windows, places: Numbers) -> bytes:
    """Errors that stood alone, by the device's number in the snapshot."""
    number_of = {place: number for number, place in enumerate(places.tolist())} if windows.alone else {}
    own = [
        [number_of[place], *told[1:-1], [[*column, *values] for column, values in told.values.items()]]
        for (place, _), told in windows.alone.items()
        if place in number_of
    ]
    return orjson.dumps(sorted(own))


def _put_text(text: bytes, packer: Packer) -> None:
    packer.put(np.array([len(text)]))
    packer.put(np.frombuffer(text.ljust(-(-len(text) // _WORD) * _WORD), "u8"))


def _take_text(unpacker: Unpacker) -> bytes:
    size = int(unpacker.take("i8", 1)[0])
    return unpacker.take("u8", -(-size // _WORD)).tobytes()[:size]


def _paired(values: Numbers) -> Numbers:
    """Numbers of four bytes as words of eight."""
    flat = values.reshape(-1)
    return np.concatenate([flat, np.zeros(len(flat) % 2, flat.dtype)])


def _words(values: Numbers) -> Any:
    """Counters and gauges alike as whole numbers, whose differences are exact."""
    return np.ascontiguousarray(values).view("u8")
