"""Stores the devices of one layout together: their last readings, and the ends of their windows beside them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams.detect.measure.storage.column_store import Column, ColumnStore
from streams.detect.measure.storage.window_store import WindowSpec, WindowStore
from streams.wire.models import RowKind

MakeWindows = Callable[[RowKind, ColumnStore, ColumnStore, WindowSpec], WindowStore[Any] | None]
"""Makes the windows of a block from its counters and gauges; None where none are needed."""


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The columns and the number of rows that the devices of a block have in common.

    Devices whose messages bring only some of their rows have a block of their own (`has_per_cell_times`): its columns
    have a time for each cell, which the others do not pay for.
    """

    row_kind: RowKind
    counters: tuple[Column, ...]
    gauges: tuple[Column, ...]
    rows: int
    has_per_cell_times: bool = False


class DeviceBlock:
    """The last readings of the devices of one layout."""

    def __init__(self, layout: BlockLayout, spec: WindowSpec, make_windows: MakeWindows) -> None:
        self.layout = layout
        self.counters = ColumnStore(layout.counters, layout.rows, "u8")
        self.gauges = ColumnStore(layout.gauges, layout.rows, "f8")
        self.windows = make_windows(layout.row_kind, self.counters, self.gauges, spec)
        self._free: list[int] = []
        self._size = 0

    def add(self) -> int:
        """Return an index for one more device, without readings."""
        if not self._free:
            room = max(4, 2 * self._size)
            self._free = list(range(room - 1, self._size - 1, -1))
            self._size = room
            for part in self._parts():
                part.grow(room)
        device = self._free.pop()
        for part in self._parts():
            part.clear(device)
        return device

    def add_all(self, devices: int) -> range:
        """Return indices for all devices of a snapshot, in an empty block, without spare room."""
        self._size = devices
        for part in self._parts():
            part.grow(devices)
        return range(devices)

    def remove(self, device: int) -> None:
        """Free the index of a device that moved to another block."""
        self._free.append(device)

    def _parts(self) -> tuple[ColumnStore | WindowStore[Any], ...]:
        own = self.counters, self.gauges
        return own if self.windows is None else (*own, self.windows)

    @property
    def device_count(self) -> int:
        """The number of devices in the block."""
        return self._size - len(self._free)
