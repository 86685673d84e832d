"""Lag of a consumer group: the distance of its committed offsets from Kafka's end offsets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_reader import kafka_errors_as_retry
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES

_TELEMETRY = (SAMPLES, EVENTS, COLLECTOR_STATUS)


class GroupLag:
    """Reads end offsets and committed offsets from Kafka."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, kafka: KafkaSettings) -> None:
        self._consumer = consumer
        self._admin = admin
        self._partitions = [
            TopicPartition(topic.name, partition)
            for topic in _TELEMETRY
            for partition in range(kafka.partitions.count(topic))
        ]

    async def lag_of(self, group: str) -> int | None:
        """Return the telemetry records that the group has not committed; None while Kafka does not answer."""
        with suppress(KafkaError, OSError):
            ends = await self._consumer.end_offsets(self._partitions)
            committed = await self._admin.list_consumer_group_offsets(group, partitions=self._partitions)
            return sum(int(end) - max(0, int(committed[tp].offset)) for tp, end in ends.items())
        return None


@asynccontextmanager
async def open_group_lag(kafka: KafkaSettings) -> AsyncIterator[GroupLag]:
    """Open the clients; raise Retry when Kafka does not answer."""
    consumer = AIOKafkaConsumer(**kafka.client_options(), enable_auto_commit=False)
    admin = AIOKafkaAdminClient(**kafka.client_options())
    with kafka_errors_as_retry(kafka):
        await consumer.start()
        await admin.start()
    try:
        yield GroupLag(consumer, admin, kafka)
    finally:
        with suppress(KafkaError, OSError):
            await admin.close()
            await consumer.stop()
