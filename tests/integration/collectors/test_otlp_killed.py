"""Kills the OTLP collector with SIGKILL, with and without Kafka: what a sender was answered for is in Kafka."""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from aiokafka import AIOKafkaConsumer, TopicPartition

from collectors.core.spec import TELEMETRY
from collectors.otlp.server import METHOD
from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.catalogue import Metric
from streams.runtime.admin import ensure_topics
from streams.wire.models import Samples
from streams.wire.topics import SAMPLES, Partitions, decode
from tests.fixtures.otlp_requests import Given, message
from tests.fixtures.ports import free_port
from tests.fixtures.waiting import until

OUT = "nvswitch_interface_if_out_octets"
_FIRST_NS = 1_700_000_000 * 10**9
_MANY = 40
_WITHIN_S = 120.0


class Senders:
    """Four senders of one device, each with a port of its own; each repeats a value until it is answered."""

    def __init__(self, port: int) -> None:
        self._address = f"127.0.0.1:{port}"
        self.answered: set[tuple[str, int]] = set()
        self.refusals: list[grpc.StatusCode] = []

    async def _send(self, name: str) -> None:
        async with grpc.aio.insecure_channel(self._address, [("grpc.max_reconnect_backoff_ms", 200)]) as channel:
            call: Any = channel.unary_unary(METHOD)
            for number in itertools.count(1):
                point = Given(number, {"interface": name}, _FIRST_NS + number * 10**9)
                body = message({OUT: [point]}).SerializeToString()
                while (name, number) not in self.answered:
                    try:
                        answer = await call(body, wait_for_ready=True, timeout=20)
                        assert answer == b""
                        self.answered.add((name, number))
                    except grpc.aio.AioRpcError as error:
                        self.refusals.append(error.code())
                        await asyncio.sleep(0.01)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send until the end of the context."""
        tasks = [asyncio.create_task(self._send(f"swp{number}")) for number in range(4)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def more(self) -> None:
        """Wait for answers."""
        wanted = len(self.answered) + _MANY
        await until(lambda: len(self.answered) >= wanted, _WITHIN_S)


@contextmanager
def collector(bootstrap: str, port: int, log: Path) -> Iterator[None]:
    """Run the collector, and kill it at the end of the context."""
    target = json.dumps([{"name": "leaf1", "addresses": ["127.0.0.1"]}])
    command = [
        sys.executable, "-m", "streams.cli.main", "collect", "otlp", "--bootstrap", bootstrap,
        "--set", f"listen=127.0.0.1:{port}", "--set", f"targets={target}",
    ]  # fmt: skip
    with log.open("ab") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield
        finally:
            process.kill()


async def stored(bootstrap: str) -> set[tuple[str, int]]:
    """Return port and value of all samples in Kafka."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    found: set[tuple[str, int]] = set()
    try:
        places = [TopicPartition(SAMPLES.name, number) for number in range(Partitions().count(SAMPLES))]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        async with asyncio.timeout(_WITHIN_S):
            for place in places:
                while await consumer.position(place) < ends[place]:
                    for record in (await consumer.getmany(place, timeout_ms=200)).get(place, ()):
                        samples = decode(SAMPLES, record.value, record.headers)
                        assert isinstance(samples, Samples)
                        column = samples.counters.metric.index(Metric.TX_BYTES)
                        found.update(zip(samples.row, map(int, samples.counters.values[column]), strict=True))
    finally:
        await consumer.stop()
    return found


async def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """The first kill is between requests; the second one while Kafka is stopped, when no sender is answered."""
    kafka = EmbeddedKafka(KafkaParams(data=tmp_path / "kafka"))
    await asyncio.to_thread(kafka.start)
    try:
        await ensure_topics(KafkaSettings(bootstrap=kafka.bootstrap), TELEMETRY.writes)
        port = free_port()
        senders, log = Senders(port), tmp_path / "log"
        async with senders.running():
            with collector(kafka.bootstrap, port, log):
                await senders.more()
            with collector(kafka.bootstrap, port, log):
                await senders.more()
                await asyncio.to_thread(kafka.stop)
                before, refusals = len(senders.answered), len(senders.refusals)
                await until(lambda: senders.refusals[refusals:].count(grpc.StatusCode.UNAVAILABLE) >= 8, _WITHIN_S)
                assert len(senders.answered) <= before + 4  # the requests that waited when Kafka stopped
        await asyncio.to_thread(kafka.start)
        assert senders.answered <= await stored(kafka.bootstrap), log.read_text()
    finally:
        await asyncio.to_thread(kafka.stop)
