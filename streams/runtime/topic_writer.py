"""Publishes records to Kafka, each to the partition that the topic registry assigns, and waits for acknowledgements."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Inventory
from streams.runtime.topic_reader import kafka_errors_as_retry
from streams.wire.inventory_topic import to_chunks
from streams.wire.topics import INVENTORY, Record, encode


@asynccontextmanager
async def open_producer(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaProducer]:
    """Open a producer with acks=all; raise Retry when Kafka does not answer or refuses."""
    producer = AIOKafkaProducer(
        **kafka.client_options(), acks="all", enable_idempotence=True, linger_ms=5, max_request_size=4 << 20
    )
    try:
        with kafka_errors_as_retry(kafka):
            await producer.start()
            yield producer
    finally:
        with suppress(KafkaError):
            await producer.stop()


async def send(producer: AIOKafkaProducer, record: Record, partition: int) -> Any:
    """Queue one record; the returned future completes with its acknowledgement."""
    return await producer.send(
        record.topic.name, value=record.value, key=record.key, partition=partition, headers=list(record.headers)
    )


async def publish(kafka: KafkaSettings, records: Iterable[Record]) -> int:
    """Send the records and return their number once all are acknowledged."""
    async with open_producer(kafka) as producer:
        sent = [await send(producer, record, record.partition(kafka.partitions)) for record in records]
        for acknowledged in sent:
            await acknowledged
    return len(sent)


def inventory_records(inventory: Inventory, effective_ns: int) -> list[Record]:
    """Return the records of one inventory version that takes effect at `effective_ns`."""
    return [encode(INVENTORY, chunk) for chunk in to_chunks(inventory, effective_ns)]
