"""Reads the open findings and the controls: the compacted topics from their beginning, then their changes.

Both topics have one partition, so a reader at the end has the current state without any history.
"""

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from streams.wire.errors import Retry
from streams.wire.topics import CONTROLS, FINDINGS_OPEN

_PARTITIONS = tuple(TopicPartition(topic.name, 0) for topic in (FINDINGS_OPEN, CONTROLS))
_POLL_MS = 200


class OpenFindings:
    """A reader of the two topics without a consumer group; an async context."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._consumer = AIOKafkaConsumer(**kafka, enable_auto_commit=False)

    async def read_all(self) -> AsyncIterator[ConsumerRecord]:
        """Yield all records from the beginning to the current ends of the topics."""
        await self._consumer.seek_to_beginning(*_PARTITIONS)
        ends = await self._consumer.end_offsets(_PARTITIONS)
        while [p for p in _PARTITIONS if await self._consumer.position(p) < ends[p]]:
            for record in await self._poll(_POLL_MS):
                yield record

    async def changes(self) -> list[ConsumerRecord]:
        """Return the records since the last call, without waiting."""
        return await self._poll(0)

    async def _poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        try:
            batches = await self._consumer.getmany(timeout_ms=timeout_ms)
        except KafkaError as error:
            raise Retry(f"{FINDINGS_OPEN.name}: {error}") from error
        return [record for batch in batches.values() for record in batch]

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
        except KafkaError:
            await self._consumer.stop()
            raise
        self._consumer.assign(_PARTITIONS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.stop()
