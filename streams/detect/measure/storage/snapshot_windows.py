"""Writes the windows of a block into a snapshot, as differences to the last readings, most of which are zero.

Closed windows are written of those devices only whose window is over but not final: a healthy port adds to a snapshot
its traffic of a minute ago, and no more.
"""

from typing import Any

import numpy as np

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.window_store import NONE, WindowColumns, WindowStore


def pack(windows: WindowStore[Any], places: Numbers, newest: Numbers, encoder: ArrayEncoder) -> None:
    """Write the devices at these indices; `newest` are the times of their newest readings."""
    pending = windows.pending[places]
    encoder.put(windows.open[places])
    encoder.put(pending)
    windows.attached.pack(places, encoder)
    closed = pending != NONE
    for columns in (windows.counters, windows.gauges):
        for column, place in enumerate(columns.store_columns.tolist()):
            last = columns.store.values[places, place]
            if column < columns.compared:
                encoder.put(_words(last) - _words(columns.base[places, column]))
            encoder.put(_words(last[closed]) - _words(columns.closed[places[closed], column]))
        _put_times(columns.base_ns[places], newest, encoder)
        _put_times(columns.closed_ns[places[closed]], newest[closed], encoder)


def unpack(windows: WindowStore[Any], newest: Numbers, decoder: ArrayDecoder) -> None:
    """Fill the windows of a block whose last readings are restored already."""
    count = len(windows.open)
    windows.open[:] = decoder.take("i8", count)
    windows.pending[:] = decoder.take("i8", count)
    windows.attached.unpack(count, decoder)
    windows.plan(np.arange(count))
    for columns in (windows.counters, windows.gauges):
        _unpack(columns, newest, windows.pending != NONE, decoder)


def _unpack(columns: WindowColumns, newest: Numbers, closed: Numbers, decoder: ArrayDecoder) -> None:
    count, width, rows = columns.closed.shape
    kind, closing = columns.closed.dtype.str, np.flatnonzero(closed)
    for column, place in zip(range(width), columns.store_columns.tolist(), strict=True):
        last = _words(columns.store.values[:, place])
        if column < columns.compared:
            columns.base[:, column] = (last - decoder.take("u8", count, rows)).view(kind)
        columns.closed[:, column] = columns.store.absent
        columns.closed[closing, column] = (last[closing] - decoder.take("u8", len(closing), rows)).view(kind)
    columns.base_ns[:] = _take_times(width, newest, decoder)
    columns.closed_ns[:] = columns.base_ns
    columns.closed_ns[closing] = _take_times(width, newest[closing], decoder)


def _put_times(times: Numbers, newest: Numbers, encoder: ArrayEncoder) -> None:
    """Write times of shape (devices, columns) as differences: columns are most often read together."""
    for column in range(times.shape[1]):
        encoder.put(times[:, column] - (times[:, column - 1] if column else newest))


def _take_times(columns: int, newest: Numbers, decoder: ArrayDecoder) -> Numbers:
    times = [newest, *(decoder.take("i8", len(newest)) for _ in range(columns))]
    return np.cumsum(times, axis=0)[1:].T


def _words(values: Numbers) -> Any:
    """Return counters and gauges alike as whole numbers, whose differences are exact."""
    return np.ascontiguousarray(values).view("u8")
