"""Provides a broker, a ClickHouse and sinks as processes that a test may kill."""

import asyncio
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from pydantic import SecretStr

from lab.constants import command_with
from streams.config.kafka import KafkaSettings
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.kafka import EmbeddedKafka
from streams.fabric.catalogue import Metric
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from streams.wire import topics
from streams.wire.errors import Retry
from streams.wire.models import Message, RowKind, Samples, Source, Table
from streams.wire.topics import Partitions, Record
from tests.fixtures.ports import free_port

WITHIN_S = 60.0
PARTITIONS = Partitions(telemetry=4, pod=2)
ROWS = 16
NS = 1_750_000_000_000_000_000


class Rig:
    """The servers, and the messages acknowledged by Kafka since the broker started (`sent`: device, sequence)."""

    def __init__(self, kafka: EmbeddedKafka, folder: Path) -> None:
        self.kafka = kafka
        self.clickhouse = EmbeddedClickHouse(ClickHouseParams(data=folder / "clickhouse", port=free_port()))
        self.sent: list[tuple[str, int]] = []
        self._sequences: dict[str, int] = {}
        self._run = uuid.uuid4().int >> 64

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings(bootstrap=self.kafka.bootstrap, telemetry_partitions=4, pod_partitions=2)

    def database(self) -> "Database":
        """Return a new migrated database."""
        database = Database(self, f"test_{uuid.uuid4().hex[:8]}")
        apply(database.client, shipped_migrations())
        return database

    def samples(self, devices: int) -> list[Samples]:
        """Return one message of each device, the next in its sequence."""
        messages = []
        for number in range(devices):
            device = f"leaf-{number}"
            sequence = self._sequences.get(device, 0)
            self._sequences[device] = sequence + 1
            messages.append(samples(device, sequence, self._run))
        return messages

    async def send(self, producer: AIOKafkaProducer, record: Record) -> None:
        """Send one record; return when Kafka has acknowledged it."""
        await producer.send_and_wait(
            record.topic.name,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            partition=record.partition(PARTITIONS),
        )

    async def send_all(self, messages: Iterable[tuple[topics.Topic, Message]]) -> None:
        """Send messages, each after the acknowledgement of the one before."""
        async with producing(self.kafka.bootstrap) as producer:
            for topic, message in messages:
                await self.send(producer, topics.encode(topic, message))

    async def produce(self, rounds: int, devices: int, pause_s: float) -> None:
        """Send messages at an interval, all of every fifth round twice, as a spool resends."""
        async with producing(self.kafka.bootstrap) as producer:
            for turn in range(rounds):
                for message in self.samples(devices):
                    record = topics.encode(topics.SAMPLES, message)
                    await self.send(producer, record)
                    if turn % 5 == 0:
                        await self.send(producer, record)
                    self.sent.append((message.device, message.sequence))
                await asyncio.sleep(pause_s)


def producing(bootstrap: str) -> AIOKafkaProducer:
    """Return a producer with the settings of collectors."""
    return AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)


def samples(device: str, sequence: int, run: int) -> Samples:
    """Return a message of sixteen ports with a scalar counter and gauge, one value absent, and two lanes."""
    counters = np.full((1, ROWS), sequence, np.uint64)
    gauges = np.vstack([np.ones(ROWS), np.full((2, ROWS), -2.5)])
    gauges[0, 0] = np.nan
    return Samples(
        device=device,
        source=Source.SOURCE_GNMI,
        collector="rig",
        collector_run=run,
        sequence=sequence,
        sampled_at_ns=NS + sequence * 10**10,
        received_at_ns=NS + sequence * 10**10,
        boot_id=1,
        row_kind=RowKind.ROW_KIND_PORT,
        row=tuple(f"Ethernet{i}" for i in range(ROWS)),
        rows_digest=1,
        counters=Table((Metric.RX_BYTES,), (-1,), counters),
        gauges=Table((Metric.OPER_UP, Metric.RX_POWER_DBM, Metric.RX_POWER_DBM), (-1, 0, 1), gauges),
    )


class Database:
    """One database with the consumer group and the sinks that fill it."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.rig = rig
        self.name = name
        self.client = ClickHouse(
            StoreParams(url=rig.clickhouse.url, password=SecretStr(rig.clickhouse.password), database=name)
        )
        self._sinks: list[subprocess.Popen[bytes]] = []

    def start_sink(self, linger_s: float = 0.2, instance: str = "") -> subprocess.Popen[bytes]:
        """Start a sink as a process."""
        environ = {
            **os.environ,
            "RAILSIGHT__KAFKA__BOOTSTRAP": self.rig.kafka.bootstrap,
            "RAILSIGHT__STORE__URL": self.rig.clickhouse.url,
            "RAILSIGHT__STORE__PASSWORD_FILE": str(self.rig.clickhouse.password_file),
            "RAILSIGHT__STORE__DATABASE": self.name,
            **({"RAILSIGHT__RUNTIME__INSTANCE": instance} if instance else {}),
        }
        constants = {
            "persist.group": self.name,
            "persist.linger_s": linger_s,
            "persist.linger_max_s": linger_s,
            "persist.session_timeout_s": 6,
            "persist.retry_backoff_max_s": 1,
        }
        command = command_with(constants, "persist")
        sink = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._sinks.append(sink)
        return sink

    async def hold(self, messages: Iterable[tuple[topics.Topic, Message]], counts: Mapping[str, int]) -> None:
        """Send messages, start a sink, and wait until the tables have at least these numbers of rows."""
        await self.rig.send_all(messages)
        self.start_sink()
        assert await until(lambda: all(self.count(table) >= count for table, count in counts.items())), counts

    def configure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make commands of this process use this database."""
        monkeypatch.setenv("RAILSIGHT__STORE__URL", self.client.params.url)
        monkeypatch.setenv("RAILSIGHT__STORE__PASSWORD", self.client.params.password.get_secret_value())
        monkeypatch.setenv("RAILSIGHT__STORE__DATABASE", self.name)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return [tuple(row) for row in self.client.query(sql)]

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 while ClickHouse is unavailable."""
        try:
            return int(self.rows(f"SELECT count() FROM {table}")[0][0])
        except Retry:
            return 0

    def stored(self) -> list[tuple[str, int]]:
        """Return (device, sequence) of every stored samples message."""
        return [(row[0], row[1]) for row in self.rows("SELECT device, sequence FROM sample_messages")]

    def end(self) -> None:
        """Kill the remaining sinks."""
        for sink in self._sinks:
            if sink.poll() is None:
                sink.send_signal(signal.SIGCONT)
                sink.kill()
            sink.wait(10)
        self.client.close()


async def until(condition: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
    """Wait for a condition; return whether it was met in time."""
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up:
        if await asyncio.to_thread(condition):
            return True
        await asyncio.sleep(0.1)
    return False


@contextmanager
def running(rig: Rig) -> Iterator[Rig]:
    """Start the rig's ClickHouse, and stop it at the end."""
    rig.clickhouse.start()
    try:
        yield rig
    finally:
        rig.clickhouse.stop()
