"""Reads topics for people: from the beginning to where they end now, or on and on; belongs to no consumer group."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from streams.config.kafka import KafkaSettings
from streams.runtime.reading import following, read_whole
from streams.wire.errors import Retry
from streams.wire.topics import Topic


@contextmanager
def answering(kafka: KafkaSettings) -> Iterator[None]:
    """Turn what a client raises into one Retry line that says which Kafka."""
    try:
        yield
    except KafkaConnectionError as error:
        raise Retry(f"Kafka at {kafka.bootstrap} does not answer") from error
    except (KafkaError, OSError, TimeoutError) as error:
        raise Retry(f"Kafka at {kafka.bootstrap}: {error or type(error).__name__}") from error


async def until_end(kafka: KafkaSettings, topic: Topic) -> AsyncIterator[Any]:
    """The records of a topic up to where it ends now, one partition after the other; raises Retry."""
    with answering(kafka):
        for partition in range(kafka.partitions.of(topic)):
            async for record in read_whole(kafka, topic.name, partition):
                yield record


async def on_and_on(
    kafka: KafkaSettings,
    *topics: Topic,
    from_end: bool = False,
    positions: dict[tuple[str, int], int] | None = None,
) -> AsyncIterator[Any]:
    """The records of topics of one partition as they come, until the caller has enough; raises Retry.

    `positions` has the next offset of each partition that was read, and is where a second call goes on.
    """
    positions = {} if positions is None else positions
    with answering(kafka):
        async with following(kafka, [topic.name for topic in topics]) as consumer:
            if from_end:
                await consumer.seek_to_end()
            for (name, partition), offset in positions.items():
                consumer.seek(TopicPartition(name, partition), offset)
            async for record in consumer:
                positions[record.topic, record.partition] = record.offset + 1
                yield record
