"""What a stage promises: a pure fold over messages and watermarks.

The runner in streams.runtime binds a stage to Kafka, the driver in streams.replay binds the same stages to each other
in memory. Neither knows what a stage decides; a stage knows neither of them, no clock and no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.fabric.topology import Topology
from streams.wire.models import Message
from streams.wire.topics import Topic


@dataclass(frozen=True, slots=True)
class Output:
    """One message for a topic; `key` None means the key of its type; `message` None removes `key` from the topic."""

    topic: Topic
    message: Message | None
    key: str | None = None


class Stage(Protocol):
    """One owner's share of a stage: one input partition.

    Calls come one at a time, in this order: `start_epoch` once, then `restore` if there is a snapshot, `set_topology`
    before the first `process` and again at each new inventory, `process` and `advance_watermark` as input arrives.
    All outputs are deterministic in what was put in, so that a restart repeats them with the same ids.
    """

    name: str

    @property
    def watermark_ns(self) -> int:
        """How far event time has come: nothing earlier is still expected (but may come late). 0 before the first."""
        ...

    def start_epoch(self, epoch: int) -> None:
        """This owner's epoch; revisions of what it says are epoch << 32 | counter from here on."""
        ...

    def set_topology(self, topology: Topology) -> list[Output]:
        """A version of the inventory takes effect now."""
        ...

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """Fold in messages, in the order of their partition; raises on none that the codec let through."""
        ...

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        """Event time has come to here, upstream says.

        For the first stage, whose upstream are devices, it is the arrival clock: no device that was not heard by then
        can still be called live. A time that is not later than the last changes nothing.
        """
        ...

    def snapshot(self) -> bytes:
        """All state, in a form that `restore` of this or a later version reads. Does not change the stage."""
        ...

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot; raises Reject where it cannot be read."""
        ...
