"""Defines the stage protocol: a pure function of messages and watermarks.

The runner in streams.runtime binds a stage to Kafka; the driver in streams.replay connects the same stages in memory.
Neither depends on the results of a stage. A stage has no access to them, to a clock or to I/O.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

from streams.fabric.topology import Topology
from streams.instrument import metrics
from streams.wire.errors import Reject
from streams.wire.models import Message
from streams.wire.topics import Headers, Record, Topic


@dataclass(frozen=True, slots=True)
class Output:
    """One message for a topic; `key` None means the key of its type; `message` None deletes `key` from the topic."""

    topic: Topic
    message: Message | None
    key: str | None = None


class Stage(Protocol):
    """One owner's part of a stage: one input partition.

    Calls come one at a time, in this order: `start_epoch` once, `restore` if there is a snapshot, `set_topology` before
    the first `process` and again for each new inventory, `process` and `advance_watermark` as input arrives. All
    outputs are deterministic functions of the input, so that a restart repeats them with the same ids.
    """

    name: str

    @property
    def watermark_ns(self) -> int:
        """Return the event time before which no input is expected, though late input may arrive; 0 before the first."""
        ...

    def start_epoch(self, epoch: int) -> None:
        """Set this owner's epoch; the following revisions of its outputs are epoch << 32 | counter."""
        ...

    def set_topology(self, topology: Topology) -> list[Output]:
        """Put a version of the inventory into effect."""
        ...

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """Process messages in the order of their partition; never raises on a message that the codec accepted.

        `received_at_ns` of telemetry and `at_ns` of a CollectorStatus are times of arrival: the runner sets the
        brokers' times (streams/runtime/event_time.py), a recording has the collector's.
        """
        ...

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        """Advance event time to the watermark of the upstream stage.

        For the first stage, whose inputs are devices, it is the arrival clock: a device from which nothing arrived by
        then no longer counts as live. A time that is not later than the last one has no effect.
        """
        ...

    def snapshot(self) -> bytes:
        """Return all state in a form that `restore` of this or a later version reads, without changing the stage."""
        ...

    def restore(self, data: bytes) -> None:
        """Restore the state of a snapshot; raises Reject on an unreadable snapshot."""
        ...


@runtime_checkable
class PreviewingStage(Stage, Protocol):
    """A stage that concludes from urgent messages before it processes the earlier messages of its busy inputs."""

    def preview(self, batch: Sequence[Message]) -> list[Output]:
        """Return outputs that follow from these messages alone, without changing the stage.

        `process` gets the same messages in their order, and returns the same outputs with all others.
        """
        ...


@runtime_checkable
class VerifyingStage(Stage, Protocol):
    """A stage that accepts only some records of its input."""

    def verify(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers, arrived_ns: int) -> None:
        """Raise Reject on a record that must not be processed; called before the record is decoded."""
        ...


@runtime_checkable
class SigningStage(Stage, Protocol):
    """A stage that signs some of its outputs."""

    def sign(self, record: Record, now_ns: int) -> Record:
        """Return a record with its signature, or unchanged if its topic is not signed; called before it is sent."""
        ...


@runtime_checkable
class MeteredStage(Stage, Protocol):
    """A stage with its own self-metrics."""

    counted: Counter[metrics.Counter]
    """Counts since the runner last read them."""


@runtime_checkable
class TimeLimitedStage(Stage, Protocol):
    """A stage whose state may have advanced to a false time, because a clock was ahead."""

    def limit_time(self, limit_ns: int) -> None:
        """Return to `limit_ns` if the restored state is of a later time; raises Reject if that is impossible."""
        ...


@runtime_checkable
class RecoverableStage(Stage, Protocol):
    """A stage that needs the content of some topics before its first message."""

    def recover(self, batch: Sequence[Message], content: Collection[Message] | None = None) -> list[Output]:
        """Process these topics up to their end; called once, after `set_topology` and before the first `process`.

        The batch has the records that the snapshot does not cover, and `content` all messages of the topics now. A
        topic with the stage's outputs is in the batch only if there was no snapshot.
        """
        ...


@runtime_checkable
class ReconcilingStage(Stage, Protocol):
    """A stage whose input reports changes; if some are deleted unread, it evaluates the present states again."""

    def reconcile(self, batch: Sequence[Message], owns: Callable[[str], bool]) -> list[Output]:
        """Compare its state with the present states in the topics of `Binding.present`.

        Called after records were deleted before they were read, when the topics are read to their end. `owns` returns
        whether a pod belongs to this partition.
        """
        ...


def refuse_unknown_fields(stage: str, state: type[Any], data: object) -> None:
    """Raise Reject if the JSON of a state is not an object, or has fields that its dataclass lacks.

    Such a state is of a newer version or of another stage; it would be restored only in part.
    """
    if not isinstance(data, dict):
        raise Reject(f"not a snapshot of {stage}: no JSON object")
    unknown = data.keys() - {field.name for field in fields(state)}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise Reject(f"not a snapshot of {stage} that this version reads: unknown {names}; upgrade this process")
