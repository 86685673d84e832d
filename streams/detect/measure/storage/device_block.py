"""The devices of one shape: their last readings, and those at the ends of windows beside them."""

from dataclasses import dataclass

from streams.detect.measure.storage.column_store import Column, ColumnStore
from streams.detect.measure.storage.window_store import WindowSpec, WindowStore
from streams.detect.measure.windows.window_selection import windows_of
from streams.wire.models import RowKind


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """What the devices of a block have in common.

    Those whose messages bring some of their rows only are `patchy`: their times are ragged in all columns, which the
    others are not to pay for.
    """

    row_kind: RowKind
    counters: tuple[Column, ...]
    gauges: tuple[Column, ...]
    rows: int
    has_per_cell_times: bool = False


class DeviceBlock:
    """The last readings of the devices of one shape."""

    def __init__(self, shape: BlockLayout, clock: WindowSpec) -> None:
        self.layout = shape
        self.counters = ColumnStore(shape.counters, shape.rows, "u8")
        self.gauges = ColumnStore(shape.gauges, shape.rows, "f8")
        self.windows = windows_of(shape.row_kind, self.counters, self.gauges, clock)
        self._free: list[int] = []
        self._size = 0

    def add(self) -> int:
        """A place for one more device, of which nothing was read yet."""
        if not self._free:
            room = max(4, 2 * self._size)
            self._free = list(range(room - 1, self._size - 1, -1))
            self._size = room
            for kept in self._parts():
                kept.grow(room)
        device = self._free.pop()
        for kept in self._parts():
            kept.clear(device)
        return device

    def add_all(self, devices: int) -> range:
        """Places for all that a snapshot holds, in an empty block, with no room beside."""
        self._size = devices
        for kept in self._parts():
            kept.grow(devices)
        return range(devices)

    def remove(self, device: int) -> None:
        """The device is elsewhere."""
        self._free.append(device)

    def _parts(self) -> tuple[ColumnStore | WindowStore, ...]:
        own = self.counters, self.gauges
        return own if self.windows is None else (*own, self.windows)

    @property
    def device_count(self) -> int:
        """How many devices it has."""
        return self._size - len(self._free)
