"""The windows of a block in a snapshot: as differences to the last readings, because most of them are none."""

from typing import Any

import numpy as np

from streams.detect.measure.packing import Numbers, Packer, Unpacker
from streams.detect.measure.windows import Kept, Windows


def pack(windows: Windows, places: Numbers, newest: Numbers, packer: Packer) -> None:
    """Add what is kept of the devices at these places; `newest` are their newest readings."""
    packer.put(windows.open[places])
    packer.put(windows.pending[places])
    packer.put(windows.rails_until[places])
    packer.put(windows.until[places] - windows.open[places][:, None])
    for level in range(len(windows.levels)):
        packer.put(windows.told[places, level])
    for kept in (windows.counters, windows.gauges):
        for column, place in enumerate(kept.places.tolist()):
            last = _words(kept.stack.values[places, place])
            base, held = _words(kept.base[places, column]), _words(kept.held[places, column])
            packer.put(last - base)
            packer.put(held - base)
            packer.put(newest - kept.base_ns[places, column])
            packer.put(kept.held_ns[places, column] - kept.base_ns[places, column])


def unpack(windows: Windows, newest: Numbers, unpacker: Unpacker) -> None:
    """Fill the windows of a block whose last readings are there already."""
    count, rows = windows.until.shape
    windows.open[:] = unpacker.take("i8", count)
    windows.pending[:] = unpacker.take("i8", count)
    windows.rails_until[:] = unpacker.take("i8", count)
    windows.until[:] = unpacker.take("i8", count, rows) + windows.open[:, None]
    for level in range(len(windows.levels)):
        windows.told[:, level] = unpacker.take("f8", count, rows)
    windows.plan(np.arange(count))
    for kept in (windows.counters, windows.gauges):
        _unpack(kept, newest, unpacker, rows)


def _unpack(kept: Kept, newest: Numbers, unpacker: Unpacker, rows: int) -> None:
    count, kind = len(newest), kept.base.dtype.str
    for column, place in enumerate(kept.places.tolist()):
        base = _words(kept.stack.values[:, place]) - unpacker.take("u8", count, rows)
        held = base + unpacker.take("u8", count, rows)
        kept.base[:, column], kept.held[:, column] = base.view(kind), held.view(kind)
        kept.base_ns[:, column] = newest - unpacker.take("i8", count)
        kept.held_ns[:, column] = kept.base_ns[:, column] + unpacker.take("i8", count)


def _words(values: Numbers) -> Any:
    """Counters and gauges alike as whole numbers, whose differences are exact."""
    return np.ascontiguousarray(values).view("u8")
