"""Commits that only the owner of a partition can make.

The owner is who the group says it is: (generation, member) as they were when the partitions were assigned. The
driver's own `commit` takes what they are when it sends, so that a sink which slept, lost its partitions and joined
again could commit what it had read before; the broker refuses the old pair. The private names of aiokafka that this
needs are held by a contract test, as those of streams.runtime are.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.structs import OffsetAndMetadata

from streams.wire.errors import Retry

_NO_ERROR = 0
_FENCED_INSTANCE = 82
_NOT_OWNER = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


class PartitionLost(Exception):
    """The partition is somebody else's now, or about to be: drop what is in hand; the next owner has it."""


@dataclass(frozen=True, slots=True)
class CommitFence:
    """The right to commit under one assignment."""

    consumer: AIOKafkaConsumer
    group: str
    generation: int
    member: str

    @classmethod
    def from_assignment(cls, consumer: AIOKafkaConsumer, group: str) -> "CommitFence":
        """The right that the assignment just made gives."""
        coordinator = consumer._coordinator  # noqa: SLF001 — see above
        return cls(consumer, group, coordinator.generation, coordinator.member_id)

    async def commit(self, at: TopicPartition, offset: int, metadata: str) -> None:
        """Commit one offset; raises Lost where the partition is not ours, Retry where the broker is away."""
        coordinator = self.consumer._coordinator  # noqa: SLF001
        request = OffsetCommitRequest(
            self.group,
            self.generation,
            self.member,
            OffsetCommitRequest.DEFAULT_RETENTION_TIME,
            [(at.topic, [(at.partition, offset, metadata)])],
        )
        try:
            await coordinator.ensure_coordinator_known()
            response = await coordinator._send_req(request)  # noqa: SLF001
            code = response.topics[0][1][0][1]
            if code == _FENCED_INSTANCE:
                raise PartitionLost(f"{at.topic}/{at.partition}")
            if code != _NO_ERROR:
                raise for_code(code)
        except _NOT_OWNER as error:
            raise PartitionLost(f"{at.topic}/{at.partition}: {type(error).__name__}") from error
        except KafkaError as error:
            if isinstance(error, NotCoordinatorForGroupError):
                coordinator.coordinator_dead()
            raise Retry(f"Kafka: commit of {at.topic}/{at.partition}: {type(error).__name__}") from error

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of those that have one, with their metadata."""
        try:
            found = await self.consumer._coordinator.fetch_committed_offsets(list(partitions))  # noqa: SLF001
        except KafkaError as error:
            raise Retry(f"Kafka: offsets of {self.group}: {type(error).__name__}") from error
        return dict(found)
