"""Commits the offsets of partitions, which only the owner can do, and queries them, waiting for the broker.

Ownership is the pair (generation, member) at the time of the assignment. The driver's own `commit` uses the pair at
the time of sending, so a sink that was suspended, lost its partitions and rejoined could commit records that it had
read before; the broker refuses the old pair. A contract test checks the private names of aiokafka that this uses.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import structlog
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

from streams.store.params import SinkParams
from streams.wire.errors import Retry
from streams.wire.retry import Backoff, Failure, retry

Answer = TypeVar("Answer")
_LOG_EVERY = 6
"""Attempts per warning: about one warning a minute at the longest wait."""

_log = structlog.get_logger("railsight.persist")


async def retry_forever(params: SinkParams, operation: str, act: Callable[[int], Awaitable[Answer]]) -> Answer:
    """Await `act(attempt)` until it raises no Retry; attempts count from 0."""

    def warn(failure: Failure) -> None:
        if failure.attempts % _LOG_EVERY == 1:
            _log.warning("retrying", operation=operation, attempts=failure.attempts, error=str(failure.error))

    return await retry(act, Retry, Backoff(params.retry_backoff_s, params.retry_backoff_max_s), before_wait=warn)


_NO_ERROR = 0
_FENCED_INSTANCE = 82
_NOT_OWNER = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


class PartitionLost(Exception):
    """Raised if the partition has, or will have, another owner, which reads the records again."""


@dataclass(frozen=True, slots=True)
class CommitFence:
    """The right to commit under one assignment."""

    consumer: AIOKafkaConsumer
    group: str
    generation: int
    member: str

    @classmethod
    def from_assignment(cls, consumer: AIOKafkaConsumer, group: str) -> "CommitFence":
        """Return the right of the current assignment."""
        coordinator = consumer._coordinator  # noqa: SLF001 — see above
        return cls(consumer, group, coordinator.generation, coordinator.member_id)

    async def commit(self, at: TopicPartition, offset: int, metadata: str) -> None:
        """Commit one offset; raises PartitionLost without ownership, Retry while the broker is unavailable."""
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
            raise Retry(f"Kafka: cannot commit {at.topic}/{at.partition}: {type(error).__name__}") from error

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets with their metadata, for partitions with a committed offset."""
        try:
            found = await self.consumer._coordinator.fetch_committed_offsets(list(partitions))  # noqa: SLF001
        except KafkaError as error:
            raise Retry(f"Kafka: cannot fetch the offsets of {self.group}: {type(error).__name__}") from error
        return dict(found)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of one partition; every method waits while the broker is unavailable."""

    consumer: AIOKafkaConsumer
    at: TopicPartition
    params: SinkParams

    async def beginning(self) -> int:
        """Return the first retained offset."""
        return int((await self._query(lambda: self.consumer.beginning_offsets([self.at])))[self.at])

    async def end(self) -> int:
        """Return the offset after the last record."""
        return int((await self._query(lambda: self.consumer.end_offsets([self.at])))[self.at])

    async def first_after(self, time_ms: int) -> int:
        """Return the first offset with a later time; the end if there is none."""
        found = (await self._query(lambda: self.consumer.offsets_for_times({self.at: time_ms + 1})))[self.at]
        return await self.end() if found is None else int(found.offset)

    async def _query(self, query: Callable[[], Awaitable[Answer]]) -> Answer:
        async def attempt(_: int) -> Answer:
            try:
                return await query()
            except KafkaError as error:
                raise Retry(f"Kafka: {type(error).__name__}") from error

        return await retry_forever(self.params, f"offsets of {self.at.topic}/{self.at.partition}", attempt)
