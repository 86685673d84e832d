"""Messages that the tests of the bridge send to Kafka, and readers of what the bridge sends."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.fabric.catalogue import Metric
from streams.wire.models import Samples
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, REJECTED, SAMPLES, Partitions, PartitionScheme, Topic, decode

PARTITIONS = Partitions(telemetry=2)
START_NS = 1_700_000_000 * 10**9
DEVICES = 6
START = """
import sys, json
from collectors.bridge.collector import SPEC
from lab.constants import params_of
from streams.wire.topics import Partitions
spec = json.loads(sys.argv[1])
params = params_of(SPEC.Params, spec["params"])
SPEC.start(params, client_options=spec["options"], partitions=Partitions(telemetry=2), metrics_port=spec.get("port"))
"""


async def create_topics(bootstrap: str, *others: NewTopic) -> None:
    """Create our topics, and others."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    ours = [NewTopic(t.name, 1 if t.scheme is PartitionScheme.SINGLE else PARTITIONS.telemetry, 1)
            for t in (SAMPLES, EVENTS, COLLECTOR_STATUS, REJECTED)]  # fmt: skip
    await admin.create_topics([*others, *ours])
    await admin.close()


def line(device: int, number: int, pad: str = "") -> bytes:
    """Return a line with a device's counter, whose value is the number of its reading."""
    tags = f"source=leaf{device},name=Eth1,path=/interfaces/interface/state/counters{pad and f',pad={pad}'}"
    return f"ifcounters,{tags} in_octets={number}u {START_NS + number * 10**10}".encode()


async def produce(bootstrap: str, numbers: range, pause_s: float = 0.0) -> None:
    """Send readings of every device, each device's in one partition, and some invalid records."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in numbers:
            for device in range(DEVICES):
                await producer.send_and_wait("peers", line(device, number), partition=device % 3)
            if number % 10 == 0:
                await producer.send_and_wait("peers", b"{", partition=number % 3)
            await asyncio.sleep(pause_s)


async def read(bootstrap: str, topic: Topic, done: Callable[[list[Any]], bool], within_s: float = 45) -> list[Any]:
    """Return the messages of a topic once `done` accepts them."""
    count = 1 if topic.scheme is PartitionScheme.SINGLE else PARTITIONS.telemetry
    found: list[Any] = []
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic.name, number) for number in range(count)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        async with asyncio.timeout(within_s):
            while not done(found):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [decode(topic, record.value, record.headers) for record in records]
    return found


def values(messages: list[Samples]) -> dict[str, set[int]]:
    """Return the values of each device's messages."""
    found: dict[str, set[int]] = {}
    for message in messages:
        assert message.counters.metric == (Metric.RX_BYTES,)
        found.setdefault(message.device, set()).update(message.counters.values[0].tolist())
    return found


def whole(messages: list[Samples], readings: int) -> bool:
    """Return whether nothing is missing."""
    return values(messages) == {f"leaf{device}": set(range(readings)) for device in range(DEVICES)}


def of_each(messages: list[Samples]) -> dict[tuple[Any, ...], set[tuple[Any, ...]]]:
    """Return the messages of each identity."""
    found: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    for one in messages:
        key = (one.device, one.source, one.collector, one.collector_run, one.sequence)
        result = (one.sampled_at_ns, one.row, one.counters.metric, one.counters.values.tobytes())
        found.setdefault(key, set()).add(result)
    return found


def settings(bootstrap: str) -> dict[str, Any]:
    return {"topics": ["peers"], "start": "earliest", "group": "test", "bootstrap": bootstrap}
