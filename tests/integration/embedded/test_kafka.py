"""Tests the embedded Kafka: it starts, retains acknowledged records, and ends with its parent."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.errors import Misconfigured
from tests.integration.embedded.processes import first_line, python, running, until
from tests.integration.fixtures_kafka import create_topics

PARENT = """
import sys, time
from pathlib import Path
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
kafka = EmbeddedKafka(KafkaParams(data=Path(sys.argv[1])))
kafka.start()
print(kafka.bootstrap, flush=True)
time.sleep(600)
"""
BROKER_COMMAND = "import typer; from streams.cli.servers import broker; typer.run(broker)"


async def send_through(bootstrap: str, topic: str, count: int, at_half: Callable[[], None]) -> None:
    """Send numbered messages and await every acknowledgement; call `at_half`, in a thread, on the way."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=60000
    )
    await producer.start()
    try:
        pending = [await producer.send(topic, str(i).encode()) for i in range(count // 2)]
        interruption = asyncio.create_task(asyncio.to_thread(at_half))
        pending.extend([await producer.send(topic, str(i).encode()) for i in range(count // 2, count)])
        await asyncio.gather(*pending)
        await interruption
    finally:
        await producer.stop()


async def everything(bootstrap: str, topic: str) -> list[int]:
    """Return the numbers in the topic's one partition, in order."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        (partition,) = consumer.assignment()
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[int] = []
        async with asyncio.timeout(30):
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found.extend(int(record.value) for record in records)
    finally:
        await consumer.stop()
    return found


async def test_acknowledged_messages_survive_a_kill(tmp_path: Path) -> None:
    """After a kill during sends, a stop and a restart, every message is there once, on the same ports."""
    kafka = EmbeddedKafka(KafkaParams(data=tmp_path))

    def crash() -> None:
        kafka.kill()
        assert kafka.ended() == [1]
        assert not kafka.ready()
        kafka.restart()

    await asyncio.to_thread(kafka.start)
    try:
        await create_topics(kafka.bootstrap, "numbers")
        await send_through(kafka.bootstrap, "numbers", 2000, crash)
        assert kafka.ready()
        first = kafka.bootstrap
    finally:
        await asyncio.to_thread(kafka.stop)
    with EmbeddedKafka(KafkaParams(data=tmp_path)) as again:
        assert again.bootstrap == first
        assert await everything(again.bootstrap, "numbers") == list(range(2000))


async def test_a_cluster_of_three_continues_without_one(tmp_path: Path) -> None:
    """With one of three killed, messages are still acknowledged; after its restart, all are there once."""
    kafka = EmbeddedKafka(KafkaParams(data=tmp_path, brokers=3))
    await asyncio.to_thread(kafka.start)
    try:
        assert len(kafka.bootstrap.split(",")) == 3
        await create_topics(kafka.bootstrap, "numbers", copies=3)
        await send_through(kafka.bootstrap, "numbers", 1000, lambda: kafka.kill(2))
        assert kafka.ended() == [2]
        await asyncio.to_thread(kafka.restart, 2)
        assert kafka.ready()
        assert await everything(kafka.bootstrap, "numbers") == list(range(1000))
    finally:
        await asyncio.to_thread(kafka.stop)
    assert running(str(tmp_path)) == []


def test_a_killed_parent_leaves_no_java_and_its_successor_gets_the_folder(tmp_path: Path) -> None:
    """After kill -9 of the parent the broker ends, and a start immediately afterwards waits for that and succeeds."""
    with python(PARENT, tmp_path) as parent:
        bootstrap = first_line(parent)
        before = running(f"{tmp_path}/node-1", without="parent_watchdog.py")
        parent.kill()
    assert len(before) == 1
    with EmbeddedKafka(KafkaParams(data=tmp_path)) as successor:
        assert successor.bootstrap == bootstrap
        after = running(f"{tmp_path}/node-1", without="parent_watchdog.py")
        assert len(after) == 1
        assert after != before
    assert until(lambda: not running(str(tmp_path)), 60)


def test_a_port_taken_between_two_runs_is_reported_from_the_log(tmp_path: Path) -> None:
    """If a port is lost between two runs of a node, its restart raises an error, and the cluster can be stopped."""
    kafka = EmbeddedKafka(KafkaParams(data=tmp_path))
    with kafka, socket.socket() as thief:
        host, port = kafka.bootstrap.split(":")
        kafka.kill()
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind((host, int(port)))
        thief.listen(1)
        with pytest.raises(
            Misconfigured, match=rf"broker 1 ended with \d+: port {port} or \d+ on 127\.0\.0\.1 is taken"
        ):
            kafka.restart()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_its_address_and_ends_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """`railsight broker` prints its address once it accepts requests, and ends with 0 and no process left."""
    with python(BROKER_COMMAND, "--data", tmp_path) as broker:
        host, port = first_line(broker).split(":")
        socket.create_connection((host, int(port)), timeout=5).close()
        broker.send_signal(number)
        assert broker.wait(15) == 0
    assert running(str(tmp_path)) == []


def test_the_command_ends_when_its_broker_does(tmp_path: Path) -> None:
    """A broker that ends by itself causes one line and exit code 1, for a supervisor."""
    with python(BROKER_COMMAND, "--data", tmp_path, "--json") as broker:
        assert str(tmp_path) in first_line(broker)
        (java,) = running(f"{tmp_path}/node-1", without="parent_watchdog.py")
        os.kill(java, signal.SIGKILL)
        stderr = broker.communicate(timeout=15)[1]
    assert broker.returncode == 1
    assert stderr == f"railsight broker: broker 1 ended on its own; see {tmp_path}/node-1/server.log\n"


def test_the_command_prints_one_line_if_it_cannot_start(tmp_path: Path) -> None:
    """A misconfiguration causes one line on standard error and exit code 2."""
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-c", BROKER_COMMAND, "--data", str(tmp_path / "file")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == f"railsight broker: data folder {tmp_path}/file: File exists\n"
