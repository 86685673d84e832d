"""Tests the bridge with a real Kafka: killed in the middle, shared by two, and read once."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic

from collectors.bridge.collector import SPEC
from collectors.bridge.params import Params
from collectors.core.params import Core
from lab.constants import params_of
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Rejected
from streams.wire.topics import REJECTED, SAMPLES
from tests.fixtures.running_task import run_beside
from tests.integration.collectors.bridged_readings import (
    DEVICES,
    PARTITIONS,
    START,
    create_topics,
    of_each,
    produce,
    read,
    settings,
    whole,
)


@pytest.fixture
async def bootstrap(tmp_path: Any) -> AsyncIterator[str]:
    """Yield a Kafka for this test, with our topics and an external one of three partitions."""
    with contextlib.ExitStack() as stack:
        broker = await asyncio.to_thread(stack.enter_context, EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")))
        await create_topics(broker.bootstrap, NewTopic("peers", 3, 1))
        yield broker.bootstrap


def start(bootstrap: str) -> "subprocess.Popen[bytes]":
    """Start a bridge in a process of its own."""
    result = json.dumps({"params": settings(bootstrap), "options": {"bootstrap_servers": bootstrap}})
    return subprocess.Popen([sys.executable, "-c", START, result], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def test_a_killed_bridge_loses_nothing_and_gives_no_identity_two_contents(bootstrap: str) -> None:
    """After a SIGKILL under load, the next one sends the unacknowledged messages again, under the same identities."""
    process = start(bootstrap)
    try:
        await produce(bootstrap, range(15), pause_s=0.02)
        await read(bootstrap, SAMPLES, lambda found: len(found) > DEVICES * 5)
        await produce(bootstrap, range(15, 25))
        process.send_signal(signal.SIGKILL)
        await produce(bootstrap, range(25, 40))
        process.wait(10)
        process = start(bootstrap)
        messages = await read(bootstrap, SAMPLES, lambda found: whole(found, 40))
    finally:
        process.terminate()
        process.wait(10)
    result = of_each(messages)
    assert all(len(contents) == 1 for contents in result.values())
    assert len(result) == DEVICES * 40
    rejected = await read(bootstrap, REJECTED, lambda found: len({one.offset for one in found}) >= 2)
    assert all(isinstance(one, Rejected) and one.topic == "peers" and one.value == b"{" for one in rejected)


@asynccontextmanager
async def bridging(bootstrap: str) -> AsyncIterator[None]:
    """Run a bridge in this process."""
    core = Core(client_options={"bootstrap_servers": bootstrap}, partitions=PARTITIONS)
    async with run_beside(SPEC.run(params_of(Params, settings(bootstrap)), core)):
        yield


async def test_two_share_the_partitions_and_one_takes_over(bootstrap: str) -> None:
    """Partitions move twice under load: nothing is missing, and no identity has two contents."""
    async with bridging(bootstrap):
        await produce(bootstrap, range(10), pause_s=0.02)
        async with bridging(bootstrap):
            await produce(bootstrap, range(10, 40), pause_s=0.05)
        await produce(bootstrap, range(40, 60), pause_s=0.02)
        messages = await read(bootstrap, SAMPLES, lambda found: whole(found, 60))
    result = of_each(messages)
    assert all(len(contents) == 1 for contents in result.values())
    assert len(result) == DEVICES * 60


async def test_one_reading_is_printed_without_a_group(bootstrap: str) -> None:
    """The newest reading of each port is printed as JSON lines; a topic without any is named."""
    params = params_of(Params, settings(bootstrap))
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in range(3):
            await producer.send_and_wait("peers", b"cpu,host=a usage=1", partition=partition)
    with pytest.raises(Retry, match="no known values"):
        _ = [row async for row in SPEC.once(params, Core())]
    await produce(bootstrap, range(5))
    rows = [orjson.loads(row) async for row in SPEC.once(params, Core())]
    assert [(row["device"], row["port"], row["metrics"]) for row in rows] == [
        (f"leaf{device}", "Eth1", {"rx_bytes": 4}) for device in range(DEVICES)
    ]


async def test_a_failed_start_reports_the_reason() -> None:
    """The bridge has no topics, no Kafka, or a spool that it does not support."""
    core = Core(client_options={"bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(Misconfigured, match="topics"):
        await SPEC.run(Params(), core)
    with pytest.raises(Misconfigured, match="Kafka"):
        await SPEC.run(params_of(Params, {"topics": "peers"}), Core())
    with pytest.raises(Misconfigured, match="spool"):
        await SPEC.run(params_of(Params, {"topics": "peers", "publisher": {"spool": "/nowhere"}}), core)
    assert SPEC.name == "bridge"
