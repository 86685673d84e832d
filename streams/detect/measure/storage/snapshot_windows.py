"""The windows of a block in a snapshot: as differences to the last readings, because most of them are none.

What is held is written of those devices only whose window is over but not final, what was notable of those ports only
at which something was: a healthy port adds to a snapshot what its traffic was a minute ago, and no more.
"""

from typing import Any

import numpy as np
import orjson

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.window_store import NONE, WindowColumns, WindowStore
from streams.detect.measure.windows.window_report import PortWindowReport
from streams.fabric.catalogue import Metric

_WORD = 8


def pack(windows: WindowStore, places: Numbers, newest: Numbers, packer: ArrayEncoder) -> None:
    """Add what is kept of the devices at these places; `newest` are their newest readings."""
    pending = windows.pending[places]
    packer.put(windows.open[places])
    packer.put(pending)
    packer.put(windows.peers_watch_until[places])
    for notable in (windows.watch_until[places], windows.isolated_error_at[places]):
        cells = np.flatnonzero(notable != NONE)
        packer.put(np.array([len(cells)]))
        packer.put(cells)
        packer.put(notable.reshape(-1)[cells].astype(np.int64))
    _put_text(_alone(windows, places), packer)
    for level in range(len(windows.levels)):
        packer.put(_paired(windows.sent_levels[places, level]))
    held = pending != NONE
    for kept in (windows.counters, windows.gauges):
        for column, place in enumerate(kept.store_columns.tolist()):
            last = kept.store.values[places, place]
            if column < kept.compared:
                packer.put(_words(last) - _words(kept.base[places, column]))
            packer.put(_words(last[held]) - _words(kept.closed[places[held], column]))
        _put_times(kept.base_ns[places], newest, packer)
        _put_times(kept.closed_ns[places[held]], newest[held], packer)


def unpack(windows: WindowStore, newest: Numbers, unpacker: ArrayDecoder) -> None:
    """Fill the windows of a block whose last readings are there already."""
    count, rows = windows.watch_until.shape
    windows.open[:] = unpacker.take("i8", count)
    windows.pending[:] = unpacker.take("i8", count)
    windows.peers_watch_until[:] = unpacker.take("i8", count)
    for notable in (windows.watch_until, windows.isolated_error_at):
        found = int(unpacker.take("i8", 1)[0])
        cells = unpacker.take("i8", found)
        notable.reshape(-1)[cells] = unpacker.take("i8", found)
    for place, row, number, since_ns, at_ns, values in orjson.loads(_take_text(unpacker)):
        read = {(Metric(metric), index): (now, before) for metric, index, now, before in values}
        windows.isolated_errors[place, row] = PortWindowReport(NONE, row, number, since_ns, at_ns, read)
    for level in range(len(windows.levels)):
        words = (count * rows + 1) // 2
        windows.sent_levels[:, level] = unpacker.take("u8", words).view("f4")[: count * rows].reshape(count, rows)
    windows.plan(np.arange(count))
    for kept in (windows.counters, windows.gauges):
        _unpack(kept, newest, windows.pending != NONE, unpacker)


def _unpack(kept: WindowColumns, newest: Numbers, held: Numbers, unpacker: ArrayDecoder) -> None:
    count, columns, rows = kept.closed.shape
    kind, holding = kept.closed.dtype.str, np.flatnonzero(held)
    for column, place in zip(range(columns), kept.store_columns.tolist(), strict=True):
        last = _words(kept.store.values[:, place])
        if column < kept.compared:
            kept.base[:, column] = (last - unpacker.take("u8", count, rows)).view(kind)
        kept.closed[:, column] = kept.store.absent
        kept.closed[holding, column] = (last[holding] - unpacker.take("u8", len(holding), rows)).view(kind)
    kept.base_ns[:] = _take_times(columns, newest, unpacker)
    kept.closed_ns[:] = kept.base_ns
    kept.closed_ns[holding] = _take_times(columns, newest[holding], unpacker)


def _put_times(times: Numbers, newest: Numbers, packer: ArrayEncoder) -> None:
    """Of each column, shape (devices, columns): they are most often those of the first one."""
    for column in range(times.shape[1]):
        packer.put(times[:, column] - (times[:, column - 1] if column else newest))


def _take_times(columns: int, newest: Numbers, unpacker: ArrayDecoder) -> Numbers:
    times = [newest, *(unpacker.take("i8", len(newest)) for _ in range(columns))]
    return np.cumsum(times, axis=0)[1:].T


def _alone(windows: WindowStore, places: Numbers) -> bytes:
    """Errors that stood alone, by the device's number in the snapshot."""
    number_of = {place: number for number, place in enumerate(places.tolist())} if windows.isolated_errors else {}
    own = [
        [number_of[place], *told[1:-1], [[*column, *values] for column, values in told.values.items()]]
        for (place, _), told in windows.isolated_errors.items()
        if place in number_of
    ]
    return orjson.dumps(sorted(own))


def _put_text(text: bytes, packer: ArrayEncoder) -> None:
    packer.put(np.array([len(text)]))
    packer.put(np.frombuffer(text.ljust(-(-len(text) // _WORD) * _WORD), "u8"))


def _take_text(unpacker: ArrayDecoder) -> bytes:
    size = int(unpacker.take("i8", 1)[0])
    return unpacker.take("u8", -(-size // _WORD)).tobytes()[:size]


def _paired(values: Numbers) -> Numbers:
    """Numbers of four bytes as words of eight."""
    flat = values.reshape(-1)
    return np.concatenate([flat, np.zeros(len(flat) % 2, flat.dtype)])


def _words(values: Numbers) -> Any:
    """Counters and gauges alike as whole numbers, whose differences are exact."""
    return np.ascontiguousarray(values).view("u8")
