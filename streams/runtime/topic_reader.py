"""Reads topics without a consumer group: from the beginning to the current end, or continuously."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

from streams.config.kafka import KafkaSettings
from streams.runtime.standalone_consumer import open_at_beginning, read_partition
from streams.wire.errors import Retry
from streams.wire.kafka_refusals import ConnectionRefused
from streams.wire.topics import Topic


@contextmanager
def kafka_errors_as_retry(kafka: KafkaSettings) -> Iterator[None]:
    """Turn errors of a Kafka client into one Retry that names the brokers."""
    try:
        yield
    except ConnectionRefused as error:
        raise Retry(str(error)) from error
    except KafkaConnectionError as error:
        raise Retry(f"Kafka at {kafka.bootstrap} does not answer") from error
    except KafkaTimeoutError as error:
        raise Retry(
            f"Kafka at {kafka.bootstrap}: no answer in time; check that its brokers run and that the topics exist"
            " (`railsight topics --list`)"
        ) from error
    except (KafkaError, OSError, TimeoutError) as error:
        raise Retry(f"Kafka at {kafka.bootstrap}: {error or type(error).__name__}") from error


async def read_to_end(kafka: KafkaSettings, topic: Topic) -> AsyncIterator[Any]:
    """Yield the records of a topic up to its current end, partition by partition; raise Retry."""
    with kafka_errors_as_retry(kafka):
        for partition in range(kafka.partitions.count(topic)):
            async for record in read_partition(kafka, topic.name, partition):
                yield record


async def follow(
    kafka: KafkaSettings,
    *topics: Topic,
    from_end: bool = False,
    positions: dict[tuple[str, int], int] | None = None,
) -> AsyncIterator[Any]:
    """Yield the records of topics as they arrive, until the caller stops; raise Retry.

    `positions` receives the next offset of each partition that was read; a second call with it continues there.
    """
    positions = {} if positions is None else positions
    with kafka_errors_as_retry(kafka):
        async with open_at_beginning(kafka, topics) as consumer:
            if from_end:
                await consumer.seek_to_end()
            for (name, partition), offset in positions.items():
                consumer.seek(TopicPartition(name, partition), offset)
            async for record in consumer:
                positions[record.topic, record.partition] = record.offset + 1
                yield record
