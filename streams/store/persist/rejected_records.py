"""Sends unreadable records to the rejected topic, each once, with their origin and the reason.

A sink that was killed after sending and before committing processes the block again; `already_rejected` reads the
records of that block that the topic has.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streams.store.persist.block_writer import BlockIntent
from streams.wire import topics
from streams.wire.errors import Reject, Retry
from streams.wire.kafka_clients import publish_loss
from streams.wire.models import InputLoss, Rejected
from streams.wire.standalone_consumer import open_consumer, records

STAGE = "persist"
"""The label `stage` of a sink's metrics and rejected records."""
MAX_VALUE_BYTES = 4096


class RejectedRecords:
    """A writer and reader of the rejected topic."""

    def __init__(self, producer: AIOKafkaProducer, options: Mapping[str, Any], topic: str) -> None:
        self._producer = producer
        self._options = options
        self._topic = topic

    async def send(self, rejected: list[Rejected]) -> None:
        """Send the records and return after the broker has all of them."""
        encoded = [topics.encode(topics.REJECTED, one) for one in rejected]
        try:
            sent = [
                await self._producer.send(self._topic, key=record.key, value=record.value, partition=0)
                for record in encoded
            ]
            await asyncio.gather(*sent)
        except KafkaError as error:
            raise Retry(f"Kafka: cannot send rejected records: {type(error).__name__}") from error

    async def report_loss(self, at: TopicPartition, first: int, count: int, now_ns: int, *, is_recreated: bool) -> None:
        """Publish that records were deleted before they were stored."""
        loss = InputLoss(STAGE, at.topic, at.partition, first, count, now_ns, is_recreated=is_recreated)
        await publish_loss(self._producer, loss)

    async def already_rejected(self, intent: BlockIntent) -> set[int]:
        """Return the offsets of this block that the topic has."""
        at = TopicPartition(self._topic, 0)
        try:
            async with open_consumer(self._options) as consumer:
                start = (await consumer.offsets_for_times({at: max(0, intent.stamp_ms)}))[at]
                if start is None:
                    return set()
                found = [_offset_in(one, intent) async for one in records(consumer, self._topic, 0, start.offset)]
        except KafkaError as error:
            raise Retry(f"Kafka: cannot read rejected records: {type(error).__name__}") from error
        return {offset for offset in found if offset is not None}


def _offset_in(record: Any, intent: BlockIntent) -> int | None:
    """Return the rejected offset if this stage rejected it in the block's partition, else None."""
    try:
        message = topics.decode(topics.REJECTED, record.value, record.headers)
    except Reject:
        return None
    assert isinstance(message, Rejected)
    same = (message.topic, message.partition, message.stage) == (intent.topic, intent.partition, STAGE)
    return message.offset if same else None
