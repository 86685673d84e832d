"""Reads partitions with a consumer that belongs to no group: whole topics, from the beginning."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.wire.client_stop import stop_client
from streams.wire.topics import Topic

AWAY = (KafkaError, OSError, TimeoutError)
"""The errors that a client raises while the brokers are away: wait and try again."""


_WAIT_MS = 50
"""Brokers answer a connection's requests in order, so whatever is asked beside a fetch waits as long as the fetch."""


@asynccontextmanager
async def open_consumer(kafka: KafkaSettings, wait_ms: int = _WAIT_MS) -> AsyncIterator[Any]:
    """Return a consumer to read with; starting one costs more than most of what is read."""
    consumer = AIOKafkaConsumer(
        **kafka.client_options(), enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=wait_ms
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        await stop_client(consumer)


@asynccontextmanager
async def open_at_beginning(kafka: KafkaSettings, topics: Iterable[Topic]) -> AsyncIterator[Any]:
    """Return a consumer of all partitions of each topic, at their beginning."""
    async with open_consumer(kafka, wait_ms=500) as consumer:
        assigned = [TopicPartition(topic.name, i) for topic in topics for i in range(kafka.partitions.count(topic))]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        yield consumer


async def read_partition(kafka: KafkaSettings, topic: str, partition: int, start: int = 0) -> AsyncIterator[Any]:
    """Yield the records that the partition holds now, from offset `start` on."""
    async with open_consumer(kafka) as consumer:
        async for record in records(consumer, topic, partition, start):
            yield record


async def records(consumer: Any, topic: str, partition: int, start: int = 0) -> AsyncIterator[Any]:
    """Yield the same with an open consumer."""
    tp = TopicPartition(topic, partition)
    first = max(start, (await consumer.beginning_offsets([tp]))[tp])
    end = (await consumer.end_offsets([tp]))[tp]
    if first >= end:
        return
    consumer.assign([tp])
    consumer.seek(tp, first)
    while await consumer.position(tp) < end:
        for record in (await consumer.getmany(tp, timeout_ms=500)).get(tp, ()):
            yield record
    # Else it would go on to fetch, and what is asked next would wait for that.
    consumer.unsubscribe()


async def start_and_end_offsets(
    consumer: Any, partitions: Iterable[tuple[str, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the first offset that each partition still holds, and the one after its last; by topic."""
    wanted = [TopicPartition(*partition) for partition in partitions]
    first, end = await consumer.beginning_offsets(wanted), await consumer.end_offsets(wanted)
    return {tp.topic: offset for tp, offset in first.items()}, {tp.topic: offset for tp, offset in end.items()}
