"""A bridge reads more than Kafka takes: its memory is bounded, reading pauses, and nothing that it read is lost."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.embedded.kafka_data_dir import free_ports
from streams.wire.topics import SAMPLES
from tests.integration.collectors.bridged_readings import (
    DEVICES,
    START,
    create_topics,
    line,
    of_each,
    produce,
    read,
    settings,
    whole,
)

pytestmark = pytest.mark.timeout(280)
READINGS = 5_000
PADDING = "x" * 4_000
"""Of a tag that is left out: all readings are 120 MB."""
MAX_WAITING = 500
BOUND_MIB = 64
"""Half of the records; 4 MiB of each partition are prefetched."""
POLLED = 2_000
"""The most that one turn reads after the number of waiting messages was compared."""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[str]:
    """Yield the address of the Kafka that the bridge reads."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "source")) as broker:
        yield broker.bootstrap


@pytest.fixture
def output(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """Yield the Kafka to which the bridge writes."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "output")) as broker:
        yield broker


def start(source: str, output: str, port: int) -> "subprocess.Popen[bytes]":
    """Start a bridge between two clusters."""
    params = settings(source) | {"max_waiting": MAX_WAITING}
    spec = json.dumps({"params": params, "options": {"bootstrap_servers": output}, "port": port})
    return subprocess.Popen([sys.executable, "-c", START, spec], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def waiting(port: int) -> float:
    """Return the number of messages that the bridge has handed to its publisher and Kafka has not acknowledged."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        metrics = text_string_to_metric_families(answer.read().decode())
    (value,) = (one.samples[0].value for one in metrics if one.name == "railsight_collector_waiting")
    return float(value)


def peak_mib(pid: int) -> float:
    """Return the highest resident memory of a process."""
    fields = dict(one.split(":", 1) for one in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) / 1024


async def flood(source: str) -> None:
    """Send all readings as fast as the source takes them."""
    async with AIOKafkaProducer(bootstrap_servers=source, linger_ms=20) as producer:
        for first in range(20, READINGS, 500):
            sending = [
                await producer.send("peers", line(device, number, pad=PADDING), partition=device % 3)
                for number in range(first, min(first + 500, READINGS))
                for device in range(DEVICES)
            ]
            await asyncio.gather(*sending)


async def test_a_flood_while_the_brokers_stand_still_is_bounded_and_arrives_whole(
    source: str, output: EmbeddedKafka
) -> None:
    """The output's brokers are paused while 120 MB arrive in the source; then all of it is there, once by identity."""
    await create_topics(source, NewTopic("peers", 3, 1))
    await create_topics(output.bootstrap)
    broker = output._nodes[1].process
    assert broker is not None and broker.pid is not None
    (port,) = free_ports(1)
    process = start(source, output.bootstrap, port)
    try:
        await produce(source, range(20))
        await read(output.bootstrap, SAMPLES, lambda found: whole(found, 20))
        before_mib = peak_mib(process.pid)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            await flood(source)
            during_mib, waited = peak_mib(process.pid), await asyncio.to_thread(waiting, port)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        messages = await read(output.bootstrap, SAMPLES, lambda found: whole(found, READINGS), 200)
        grown_mib = peak_mib(process.pid) - before_mib
    finally:
        process.terminate()
        process.wait(10)
    assert MAX_WAITING < waited <= MAX_WAITING + POLLED
    assert during_mib - before_mib < BOUND_MIB
    assert grown_mib < BOUND_MIB
    assert all(len(contents) == 1 for contents in of_each(messages).values())
