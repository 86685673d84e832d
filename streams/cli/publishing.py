"""Sends records to Kafka, each to the partition that the topic registry says, and waits until all are acknowledged."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.cli.reading import answering
from streams.config.kafka import KafkaSettings
from streams.wire.topics import Record


@asynccontextmanager
async def producing(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaProducer]:
    """A producer with acks=all; raises Retry where Kafka does not answer or refuses."""
    producer = AIOKafkaProducer(
        **kafka.client_options(), acks="all", enable_idempotence=True, linger_ms=5, max_request_size=4 << 20
    )
    try:
        with answering(kafka):
            await producer.start()
            yield producer
    finally:
        with suppress(KafkaError):
            await producer.stop()


async def send(producer: AIOKafkaProducer, record: Record, partition: int) -> Any:
    """Hand one record over; what is answered can be awaited for its acknowledgement."""
    return await producer.send(
        record.topic.name, value=record.value, key=record.key, partition=partition, headers=list(record.headers)
    )


async def publish(kafka: KafkaSettings, records: Iterable[Record]) -> int:
    """Send the records, return how many once all are acknowledged."""
    async with producing(kafka) as producer:
        sent = [await send(producer, record, record.partition(kafka.partitions)) for record in records]
        for acknowledged in sent:
            await acknowledged
    return len(sent)
