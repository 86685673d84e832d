"""What Kafka says of a partition's offsets, asked until it answers."""

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
    """One partition's ends. Every method waits while the broker is away."""

    consumer: AIOKafkaConsumer
    at: TopicPartition
    params: SinkParams

    async def beginning(self) -> int:
        """The first offset that is there."""
        return int((await self._ask(lambda: self.consumer.beginning_offsets([self.at])))[self.at])

    async def end(self) -> int:
        """The offset after the last record."""
        return int((await self._ask(lambda: self.consumer.end_offsets([self.at])))[self.at])

    async def is_exhausted(self) -> bool:
        """Whether the consumer has come to the end."""
        end = await self.end()
        return bool(await self.consumer.position(self.at) >= end)

    async def first_after(self, time_ms: int) -> int:
        """The first offset whose record came after a time, the end where there is none."""
        found = (await self._ask(lambda: self.consumer.offsets_for_times({self.at: time_ms + 1})))[self.at]
        return await self.end() if found is None else int(found.offset)

    async def _ask(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        async def asked(_: int) -> Answer:
            try:
                return await ask()
            except KafkaError as error:
                raise Retry(f"Kafka: {type(error).__name__}") from error

        return await retry_forever(self.params, f"offsets of {self.at.topic}/{self.at.partition}", asked)
