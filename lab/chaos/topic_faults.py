"""Defines faults inside Kafka's topics: unreadable records, and records that are deleted before they are read."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from streams.config.kafka import KafkaSettings
from streams.wire.kafka_clients import controller_errors
from streams.wire.topics import EVENTS, SAMPLES, TOPICS

GARBAGE = (b"\xff" * 40, b"{}x", b"\x08", b'{"id": [', bytes(range(256)))
"""Values that are not a message of any topic."""


async def send_poison(kafka: KafkaSettings, rng: random.Random) -> list[tuple[str, int, int]]:
    """Send an unreadable record to a partition of every topic; return topic, partition and offset of each."""
    sent: list[tuple[str, int, int]] = []
    producer = AIOKafkaProducer(**kafka.client_options(), acks="all")
    await producer.start()
    try:
        for topic in TOPICS:
            if topic.model is None:
                continue  # the topic's records have no message
            partition = rng.randrange(kafka.partitions.count(topic))
            value = rng.choice(GARBAGE)
            metadata = await producer.send_and_wait(topic.name, value, key=b"poison", partition=partition)
            sent.append((topic.name, partition, metadata.offset))
    finally:
        await producer.stop()
    return sent


async def delete_telemetry(kafka: KafkaSettings) -> None:
    """Delete all present records of samples and events."""
    partitions = [
        TopicPartition(topic.name, partition)
        for topic in (SAMPLES, EVENTS)
        for partition in range(kafka.partitions.count(topic))
    ]
    consumer = AIOKafkaConsumer(**kafka.client_options())
    await consumer.start()
    try:
        ends = await consumer.end_offsets(partitions)
    finally:
        await consumer.stop()
    async with _admin(kafka) as admin:
        await admin.delete_records({at: RecordsToDelete(end) for at, end in ends.items()})


@asynccontextmanager
async def _admin(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    try:
        with controller_errors():
            yield admin
    finally:
        await admin.close()
