"""Queries Kafka for a partition's offsets, retrying until it responds."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.store.params import SinkParams
from streams.store.persist.retry import retry_forever
from streams.wire.errors import Retry

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of one partition; every method waits while the broker is unavailable."""

    consumer: AIOKafkaConsumer
    at: TopicPartition
    params: SinkParams

    async def beginning(self) -> int:
        """Return the first offset that is retained."""
        return int((await self._query(lambda: self.consumer.beginning_offsets([self.at])))[self.at])

    async def end(self) -> int:
        """Return the offset after the last record."""
        return int((await self._query(lambda: self.consumer.end_offsets([self.at])))[self.at])

    async def first_after(self, time_ms: int) -> int:
        """Return the first offset whose record has a later time; the end where there is none."""
        found = (await self._query(lambda: self.consumer.offsets_for_times({self.at: time_ms + 1})))[self.at]
        return await self.end() if found is None else int(found.offset)

    async def _query(self, query: Callable[[], Awaitable[Answer]]) -> Answer:
        async def attempt(_: int) -> Answer:
            try:
                return await query()
            except KafkaError as error:
                raise Retry(f"Kafka: {type(error).__name__}") from error

        return await retry_forever(self.params, f"offsets of {self.at.topic}/{self.at.partition}", attempt)
