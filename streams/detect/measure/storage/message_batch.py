"""Defines the blocks of devices of one layout, the place of each device in them, and the messages to be stored."""

from dataclasses import dataclass, field

import numpy as np

from streams.detect.measure.storage.array_codec import Numbers
from streams.detect.measure.storage.column_store import (
    Cells,
    Column,
    ColumnMapping,
    ColumnStore,
    Indices,
    TableDelta,
    Times,
)
from streams.detect.measure.storage.reading_history import ReadingHistory, TransitionUpdate
from streams.detect.measure.storage.window_store import (
    WindowSpec,
    WindowStore,
    has_many_nics,
    make_windows,
)
from streams.fabric.topology import Topology
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.models import IDLE_NS, RowKind, Samples, Source


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The columns and the number of rows that the devices of a block share.

    Devices whose messages have only some of their rows have their own block (`has_per_cell_times`): its columns have a
    time for each cell, whose cost other blocks avoid.
    """

    row_kind: RowKind
    counters: tuple[Column, ...]
    gauges: tuple[Column, ...]
    rows: int
    has_per_cell_times: bool = False

    @property
    def has_many_nics(self) -> bool:
        """Return whether snapshots of version 0.2.0 have no rails of these devices."""
        return has_many_nics(self.counters, self.rows)


Mapped = tuple[ColumnMapping, Cells]
"""The columns of tables, and their values."""


class DeviceBlock:
    """The last readings of the devices of one layout."""

    def __init__(self, layout: BlockLayout, spec: WindowSpec, *, has_rails: bool = True) -> None:
        self.layout = layout
        self.counters = ColumnStore(layout.counters, layout.rows, "u8")
        self.gauges = ColumnStore(layout.gauges, layout.rows, "f8")
        self.windows = make_windows(layout.row_kind, self.counters, self.gauges, spec, has_rails=has_rails)
        self.parts = self.counters, self.gauges, *(() if self.windows is None else self.windows.parts)
        self._free: list[int] = []
        self._size = 0

    def add(self) -> int:
        """Return an index for one more device, without readings."""
        if not self._free:
            room = max(4, 2 * self._size)
            self._free = list(range(room - 1, self._size - 1, -1))
            self._size = room
            for part in self.parts:
                part.grow(room)
        device = self._free.pop()
        for part in self.parts:
            part.begin(device)
        return device

    def add_all(self, devices: int) -> Numbers:
        """Return indices for all devices of a snapshot, in an empty block, without spare room."""
        self._size = devices
        for part in self.parts:
            part.grow(devices)
        return np.arange(devices)

    def remove(self, device: int) -> None:
        """Free the index of a device that moved to another block."""
        for part in self.parts:
            part.clear(device)
        self._free.append(device)

    def move_in(self, slot: "DeviceSlot", rows: tuple[str, ...]) -> None:
        """Move a device here from another block, because its rows or columns changed."""
        former, index = slot.block, self.add()
        for part, other in zip(self.parts, former.parts, strict=False):
            part.move_in(index, other, slot.index)
        former.remove(slot.index)
        slot.block, slot.index, slot.rows = self, index, rows

    def deltas(
        self, devices: Indices, at_ns: Times, counters: Mapped, gauges: Mapped, rows: Indices | None = None
    ) -> tuple[TableDelta, TableDelta]:
        """Return the tables of messages as arrays, one message after the other, beside the last readings."""
        height = self.layout.rows if rows is None else len(rows)
        (fit, counts), (gauge_fit, levels) = counters, gauges
        counts = counts.reshape(len(devices), len(fit.columns), height)
        levels = levels.reshape(len(devices), len(gauge_fit.columns), height)
        return (
            TableDelta(self.counters, devices, fit, counts, at_ns, rows),
            TableDelta(self.gauges, devices, gauge_fit, levels, at_ns, rows),
        )

    @property
    def device_count(self) -> int:
        return self._size - len(self._free)


@dataclass(slots=True, eq=False)
class DeviceSlot:
    """The place of the last readings of one kind of row of one source of a device."""

    device: str
    source: Source
    rows: tuple[str, ...]
    block: DeviceBlock
    index: int
    newest_ns: int = 0
    """The time of the newest reading; 0 before the first."""
    pending: int = 0
    """The number of its enqueued messages."""
    history: ReadingHistory = field(default_factory=ReadingHistory)

    def row_of(self, port: str, topology: Topology, name: str = "") -> str:
        """Return the name by which its source reads a port, which may be `name`; empty if it does not read the port."""
        known = next((row for row in (name, port) if row in self.rows), "")
        others = (row for row in self.rows if topology.resolve_port(self.device, row).port == port)
        return known or next(others, "")


@dataclass(slots=True)
class PendingMessage:
    """A message that is not stored yet; `number` is its position in the input batch."""

    number: int
    slot: DeviceSlot
    samples: Samples
    at_ns: int

    def row_time_ns(self, row: int) -> int:
        """Return the time at which a row was read, which may be after the message's own."""
        delays = self.samples.row_delay_us
        return min(max(self.at_ns + delays[row] * 1000, 0), MAX_TIME_NS) if delays else self.at_ns


@dataclass(slots=True)
class MessageBatch:
    """Messages of different devices beside the last readings; absent or late cells change nothing.

    `transitions` are found by monitors; the store adds them to the history of their slots. `appeared` has the indices
    of messages with the first reading of a port's state. `rest_ns` is the earliest time of the messages that arrived
    together with these and follow them: the second readings of devices follow the first ones of all devices.
    """

    row_kind: RowKind
    messages: list[PendingMessage]
    counters: TableDelta
    gauges: TableDelta
    transitions: list[tuple[DeviceSlot, TransitionUpdate]] = field(default_factory=list)
    appeared: set[int] = field(default_factory=set)
    rest_ns: int = IDLE_NS


@dataclass(slots=True)
class LateMessage:
    """A message that is older than its device's last; `rows` are the indices of its rows in the device's block.

    `transitions` are the changes that monitors find; the store applies them to the history of the slot.
    """

    message: PendingMessage
    rows: Indices
    transitions: list[TransitionUpdate] = field(default_factory=list)


@dataclass(slots=True)
class ClosedWindows:
    """Final windows of different devices of a block, with the messages that make them final."""

    windows: WindowStore
    devices: Indices
    messages: list[PendingMessage]
    numbers: Times


Step = MessageBatch | ClosedWindows | LateMessage
"""A step of the storage, yielded before it is stored."""
