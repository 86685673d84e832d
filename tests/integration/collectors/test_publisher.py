"""Tests the publisher with a real Kafka: order, partitions, refusals, and a broker that starts late and stops."""

import asyncio
import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core, PublisherParams
from collectors.core.publisher import KafkaPublisher
from lab.constants import with_constants
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.errors import Misconfigured
from streams.wire.models import Event
from streams.wire.topics import Partitions, PartitionScheme, Record, Topic, partition_of
from tests.integration.fixtures_kafka import Broker, create_topics

PARTITIONS = 3


def topic_of(name: str) -> Topic:
    return Topic(name, Event, PartitionScheme.TELEMETRY)


def core(bootstrap: str, acknowledged: Path | None = None, memory_bytes: int = 64 << 20) -> Core:
    return Core(
        client_options={"bootstrap_servers": bootstrap}, partitions=Partitions(telemetry=PARTITIONS),
        acknowledged_file=acknowledged, publisher=with_constants(PublisherParams, memory_bytes=memory_bytes)(),
    )  # fmt: skip


async def read(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """Return every value of a topic, by partition, in order."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        async with asyncio.timeout(60):
            while sum(map(len, found.values())) < sum(ends.values()):
                for place, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[place.partition] += [record.value for record in records]
        return found
    finally:
        await consumer.stop()


def record(topic: Topic, device: str, number: int, size: int = 0) -> Record:
    return Record(topic, device.encode(), f"{device} {number}".encode() + b"." * size, (), device)


async def test_records_arrive_in_order_in_the_partition_of_their_device(
    kafka: Broker, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Each device's records keep their order, in the partition of its name; acknowledged ones are counted."""
    topic, metrics = topic_of(topic_name("order")), CollectorMetrics()
    await create_topics(kafka.bootstrap, topic.name, partitions=PARTITIONS)
    devices = [f"leaf{n}" for n in range(5)]
    async with KafkaPublisher(core(kafka.bootstrap, tmp_path / "ack.json"), metrics) as publisher:
        for number in range(1000):
            assert all(publisher.offer(record(topic, device, number), rows=2) for device in devices)
        await publisher.flushed()
    found = await read(kafka.bootstrap, topic.name)
    for device in devices:
        own = [value for value in found[partition_of(device, PARTITIONS)] if value.startswith(device.encode() + b" ")]
        assert own == [f"{device} {number}".encode() for number in range(1000)]
    result = json.loads((tmp_path / "ack.json").read_text())
    assert result["acknowledged"] == {topic.name: 5000}
    assert result["acknowledged_rows"] == {topic.name: 10_000}


async def test_a_topic_of_another_number_of_partitions_is_refused(
    kafka: Broker, topic_name: Callable[[str], str]
) -> None:
    """Every consumer relies on a device's partition, so nothing is written."""
    topic = topic_of(topic_name("wrong"))
    await create_topics(kafka.bootstrap, topic.name, partitions=PARTITIONS + 1)
    async with KafkaPublisher(core(kafka.bootstrap), CollectorMetrics()) as publisher:
        publisher.offer(record(topic, "leaf1", 1))
        with pytest.raises(Misconfigured, match="4 partitions where 3"):
            await publisher.failed()


async def test_a_record_that_kafka_refuses_blocks_no_other(kafka: Broker, topic_name: Callable[[str], str]) -> None:
    """The record is counted as rejected, and the following ones are sent."""
    topic, metrics = topic_of(topic_name("large")), CollectorMetrics()
    await create_topics(kafka.bootstrap, topic.name, partitions=PARTITIONS)
    async with KafkaPublisher(core(kafka.bootstrap), metrics) as publisher:
        publisher.offer(record(topic, "leaf1", 1))
        publisher.offer(record(topic, "leaf1", 2, size=8 << 20))
        publisher.offer(record(topic, "leaf1", 3))
        await publisher.flushed()
    assert metrics.value("rejected") == 1
    assert metrics.value("acknowledged") == 2
    assert sorted(chain(*(await read(kafka.bootstrap, topic.name)).values())) == [b"leaf1 1", b"leaf1 3"]


async def test_records_are_settled_in_the_spool_while_kafka_is_unreachable(tmp_path: Path) -> None:
    """The first record is settled after `spool_after_s`; with older ones in the spool, a record is written at once."""
    topic = topic_of("settled.v1")
    for run, after_s in enumerate((0.2, 3600.0)):
        params, metrics = with_constants(PublisherParams, spool_after_s=after_s)(spool=tmp_path), CollectorMetrics()
        own = Core(client_options={"bootstrap_servers": "127.0.0.1:1"}, collector="test", publisher=params)
        async with KafkaPublisher(own, metrics) as publisher:
            assert publisher.offer(record(topic, "leaf1", run))
            async with asyncio.timeout(60):
                await publisher.settled()
            assert metrics.value("spooled") == 1


async def test_acknowledged_records_survive_a_late_start_and_an_outage_of_kafka(tmp_path: Path) -> None:
    """Records that fit the buffer arrive later, in order; beyond its limit the newest are refused and counted."""
    embedded, topic, metrics = (
        EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")),
        topic_of("late.v1"),
        CollectorMetrics(),
    )
    await asyncio.to_thread(embedded.start)
    bootstrap = embedded.bootstrap
    try:
        await create_topics(bootstrap, topic.name, partitions=PARTITIONS)
        await asyncio.to_thread(embedded.stop)
        async with KafkaPublisher(core(bootstrap, memory_bytes=100_000), metrics) as publisher:
            taken = [number for number in range(2000) if publisher.offer(record(topic, "leaf1", number))]
            assert 0 < len(taken) < 2000 and metrics.value("refused") == 2000 - len(taken)
            await asyncio.to_thread(embedded.start)
            async with asyncio.timeout(30):
                await publisher.flushed()
            assert metrics.value("acknowledged") == len(taken)
            await asyncio.to_thread(embedded.stop)
            more = [number for number in range(5000, 5100) if publisher.offer(record(topic, "leaf1", number))]
            assert len(more) == 100
            await asyncio.to_thread(embedded.start)
            async with asyncio.timeout(30):
                await publisher.flushed()
        values = chain(*(await read(bootstrap, topic.name)).values())
        assert list(dict.fromkeys(values)) == [f"leaf1 {number}".encode() for number in (*taken, *more)]
    finally:
        await asyncio.to_thread(embedded.stop)
