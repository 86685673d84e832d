"""Where records go that cannot be read: to the rejected topic, with their origin and the reason, once.

A sink that was killed after saying so and before committing does the block again; `said` is what the topic already
has of that block, read back from it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streams.store.persist.block_intent import BlockIntent
from streams.wire import topics
from streams.wire.errors import Reject, Retry
from streams.wire.models import Rejected

STAGE = "persist"
MAX_VALUE_BYTES = 4096

_READ_MS = 1000


class RejectedRecords:
    """Sends to the rejected topic, each record once."""

    def __init__(self, producer: AIOKafkaProducer, consumer: Callable[[], AIOKafkaConsumer], topic: str) -> None:
        self._producer = producer
        self._consumer = consumer
        self._topic = topic

    async def send(self, rejected: list[Rejected]) -> None:
        """Return once the broker has all of them."""
        records = [topics.encode(topics.REJECTED, one) for one in rejected]
        try:
            sent = [
                await self._producer.send(self._topic, key=record.key, value=record.value, partition=0)
                for record in records
            ]
            await asyncio.gather(*sent)
        except KafkaError as error:
            raise Retry(f"Kafka: rejected records: {type(error).__name__}") from error

    async def already_rejected(self, bounds: BlockIntent) -> set[int]:
        """The offsets of this block that the topic holds already."""
        at = TopicPartition(self._topic, 0)
        consumer = self._consumer()
        await consumer.start()
        try:
            consumer.assign([at])
            began = (await consumer.offsets_for_times({at: max(0, bounds.stamp_ms)}))[at]
            end = (await consumer.end_offsets([at]))[at]
            if began is None or began.offset >= end:
                return set()
            consumer.seek(at, began.offset)
            found: set[int] = set()
            while await consumer.position(at) < end:
                got = await consumer.getmany(at, timeout_ms=_READ_MS)
                found |= {offset for record in got.get(at, ()) if (offset := _ours(record, bounds)) is not None}
        except KafkaError as error:
            raise Retry(f"Kafka: rejected records: {type(error).__name__}") from error
        else:
            return found
        finally:
            await consumer.stop()


def _ours(record: Any, bounds: BlockIntent) -> int | None:
    try:
        message = topics.decode(topics.REJECTED, record.value, record.headers)
    except Reject:
        return None
    assert isinstance(message, Rejected)
    same = (message.topic, message.partition, message.stage) == (bounds.topic, bounds.partition, STAGE)
    return message.offset if same else None
