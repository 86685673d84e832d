"""Messages on their way into the storage, and the place of each device in it."""

from dataclasses import dataclass, field

from streams.detect.measure.storage.column_store import Indices, TableDelta
from streams.detect.measure.storage.device_block import DeviceBlock
from streams.detect.measure.storage.reading_history import ReadingHistory, TransitionUpdate
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.models import RowKind, Samples, Source


@dataclass(slots=True, eq=False)
class DeviceSlot:
    """The place of the last readings of one kind of row of one source of a device."""

    device: str
    source: Source
    rows: tuple[str, ...]
    block: DeviceBlock
    index: int
    newest_ns: int = 0
    """Time of the newest reading; 0 before the first."""
    pending: int = 0
    """Number of its messages that are enqueued."""
    history: ReadingHistory = field(default_factory=ReadingHistory)


@dataclass(slots=True)
class PendingMessage:
    """One message that is not stored yet; `number` is its position in the input batch."""

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
    """Messages of different devices beside the last readings; what is absent in a message, or late, changes nothing.

    `transitions` are the transitions that monitors find; the store adds them to the history of their slots. `appeared`
    are the indices of messages with the first reading of the state of a port.
    """

    row_kind: RowKind
    messages: list[PendingMessage]
    counters: TableDelta
    gauges: TableDelta
    transitions: list[tuple[DeviceSlot, TransitionUpdate]] = field(default_factory=list)
    appeared: set[int] = field(default_factory=set)


@dataclass(slots=True)
class LateMessage:
    """A message that is older than the last of its device; `rows` are the indices of its rows in the device's block.

    `transitions` are the changes that monitors find; the store applies them to the history of the slot.
    """

    message: PendingMessage
    rows: Indices
    transitions: list[TransitionUpdate] = field(default_factory=list)
