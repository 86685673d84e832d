"""Reads topics without a consumer group, to their end or continuously, and publishes records; raises Retry."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Inventory
from streams.wire.errors import Retry
from streams.wire.inventory_topic import to_chunks
from streams.wire.kafka_refusals import ConnectionRefused
from streams.wire.standalone_consumer import CompactedTopic, offset_at, open_consumer, read_compacted
from streams.wire.standalone_consumer import records as records_of
from streams.wire.topics import INVENTORY, Record, Topic, encode

_UNNAMED = (
    " (the default, as no pipeline of this user runs here: `railsight up --config FILE` starts one;"
    " --config, --bootstrap or RAILSIGHT__KAFKA__BOOTSTRAP name another)"
)


@contextmanager
def kafka_errors_as_retry(kafka: KafkaSettings) -> Iterator[None]:
    """Turn errors of a Kafka client into one Retry that names the brokers."""
    try:
        yield
    except ConnectionRefused as error:
        raise Retry(str(error) + ("" if "bootstrap" in kafka.model_fields_set else _UNNAMED)) from error
    except KafkaConnectionError as error:
        raise Retry(f"Kafka at {kafka.bootstrap} does not answer") from error
    except KafkaTimeoutError as error:
        raise Retry(
            f"Kafka at {kafka.bootstrap}: no answer in time; check that its brokers run and that the topics exist"
            " (`railsight topics --list`)"
        ) from error
    except (KafkaError, OSError, TimeoutError) as error:
        raise Retry(f"Kafka at {kafka.bootstrap}: {error or type(error).__name__}") from error


async def read_to_end(kafka: KafkaSettings, topic: Topic, since_ns: int = 0) -> AsyncIterator[Any]:
    """Yield the records of a topic since a time up to its current end, partition by partition; raises Retry."""
    with kafka_errors_as_retry(kafka):
        async with open_consumer(kafka.client_options()) as consumer:
            for partition in range(kafka.partitions.count(topic)):
                start = await offset_at(consumer, topic.name, partition, since_ns) if since_ns else 0
                async for record in records_of(consumer, topic.name, partition, start):
                    yield record


async def read_newest(kafka: KafkaSettings, topic: Topic) -> CompactedTopic:
    """Return the present content of a compacted topic; raises Retry."""
    with kafka_errors_as_retry(kafka):
        async with open_consumer(kafka.client_options()) as consumer:
            return await read_compacted(consumer, topic, kafka.partitions.count(topic))


@asynccontextmanager
async def open_at_beginning(kafka: KafkaSettings, topics: Iterable[Topic], wait_ms: int = 500) -> AsyncIterator[Any]:
    """Return a consumer of all partitions of each topic, at their beginning.

    A fetch without data waits for `wait_ms`, and a later seek waits for it.
    """
    async with open_consumer(kafka.client_options(), wait_ms=wait_ms) as consumer:
        assigned = [TopicPartition(topic.name, i) for topic in topics for i in range(kafka.partitions.count(topic))]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        yield consumer


async def follow(
    kafka: KafkaSettings,
    *topics: Topic,
    from_end: bool = False,
    positions: dict[tuple[str, int], int] | None = None,
) -> AsyncIterator[Any]:
    """Yield the records of topics as they arrive, until the caller stops; raises Retry.

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


@asynccontextmanager
async def open_producer(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaProducer]:
    """Open a producer with acks=all; raises Retry if Kafka does not answer or refuses."""
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
    """Send the records and return their number after all are acknowledged."""
    async with open_producer(kafka) as producer:
        sent = [await send(producer, record, record.partition(kafka.partitions)) for record in records]
        for acknowledged in sent:
            await acknowledged
    return len(sent)


def inventory_records(inventory: Inventory, effective_ns: int) -> list[Record]:
    """Return the records of one inventory version that takes effect at `effective_ns`."""
    return [encode(INVENTORY, chunk) for chunk in to_chunks(inventory, effective_ns)]
