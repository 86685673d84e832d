"""A broker in memory for one owner after another: records, transactions, fencing, and kills at any of its effects."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced

from streams.wire.topics import Record, Topic
from tests.fakes.log_consumer import LogConsumer, LogRecord
from tests.fakes.partition import Crash
from tests.fakes.producer import Metadata


@dataclass
class FakeBroker:
    """The committed records of each partition; `kill_after` counts effects down, and 0 means that none kills."""

    log: dict[TopicPartition, list[LogRecord]] = field(default_factory=lambda: defaultdict(list))
    now_ms: int = 0
    kill_after: int = 0
    process: int = 0
    """The number of the process that runs; an earlier one was killed, and its effects raise Crash."""
    epochs: dict[str, int] = field(default_factory=dict)

    def append(self, record: Record, partition: int = 0) -> int:
        """Store a record, and return its offset."""
        stored = self.log[TopicPartition(record.topic.name, partition)]
        stored.append(LogRecord(len(stored), record.key, record.value, record.headers, self.now_ms))
        return len(stored) - 1

    def records(self, topic: Topic) -> list[LogRecord]:
        """Return the records of partition 0 of a topic."""
        return self.log[TopicPartition(topic.name, 0)]

    def effect(self, process: int) -> None:
        """Count an effect of a process; the last one kills it before it has happened."""
        if process != self.process:
            raise Crash
        if self.kill_after:
            self.kill_after -= 1
            if not self.kill_after:
                self.process += 1
                raise Crash

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[LogConsumer]:
        yield LogConsumer(self.log)


Sent = tuple[str, int, LogRecord]


class FakeClient:
    """A producer of one process; with a transactional id its records wait for the commit."""

    def __init__(self, broker: FakeBroker, transactional_id: str = "") -> None:
        self._broker, self._id, self._process = broker, transactional_id, broker.process
        self._epoch = broker.epochs[transactional_id] = broker.epochs.get(transactional_id, 0) + 1
        self._waiting: list[Sent] = []

    async def open_transactions(self, transactional_id: str) -> "FakeClient":
        """Return a producer that fences the former ones with this id."""
        self._broker.effect(self._process)
        return FakeClient(self._broker, transactional_id)

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> "asyncio.Future[Metadata]":
        """Accept a record."""
        self._broker.effect(self._process)
        self._waiting.append((topic, partition, LogRecord(0, key, value, tuple(headers), self._broker.now_ms)))
        delivery: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        delivery.set_result(Metadata(len(self._broker.log[TopicPartition(topic, partition)])))
        if not self._id:
            self._store()
        return delivery

    async def begin_transaction(self) -> None:
        """Begin with no records."""
        assert not self._waiting

    async def commit_transaction(self) -> None:
        """Store all records, or none if a later producer has the id."""
        self._broker.effect(self._process)
        if self._broker.epochs[self._id] != self._epoch:
            raise ProducerFenced
        self._store()

    async def stop(self) -> None:
        """Drop what is not committed."""
        self._waiting = []

    def _store(self) -> None:
        for topic, partition, record in self._waiting:
            stored = self._broker.log[TopicPartition(topic, partition)]
            stored.append(LogRecord(len(stored), record.key, record.value, record.headers, record.timestamp))
        self._waiting = []
