"""A broker in memory for one owner after another: records, transactions, fencing, and a kill at any of its effects."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced

from streams.wire.topics import PROGRESS, Record, Topic
from tests.fakes.log_consumer import LogConsumer, LogRecord
from tests.fakes.partition import Crash
from tests.fakes.producer import Metadata


@dataclass
class FakeBroker:
    """The committed records of each partition; `left` counts effects down to the kill, and 0 means that none kills."""

    log: dict[TopicPartition, list[LogRecord]] = field(default_factory=dict)
    now_ms: int = 0
    left: int = 0
    process: int = 0
    """The number of the process that runs; an earlier one was killed, and its effects raise Crash."""
    epochs: dict[str, int] = field(default_factory=dict)

    def append(self, record: Record) -> None:
        """Store a record in partition 0 of its topic."""
        self.store(record.topic.name, 0, record.key, record.value, record.headers)

    def store(
        self, topic: str, partition: int, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        """Store a record."""
        stored = self.log.setdefault(TopicPartition(topic, partition), [])
        stored.append(LogRecord(len(stored), key, value, tuple(headers), self.now_ms))

    def records(self, topic: Topic) -> list[LogRecord]:
        """Return the records of partition 0 of a topic."""
        return self.log.get(TopicPartition(topic.name, 0), [])

    def effect(self, process: int) -> None:
        """Count an effect of a process; the last one kills it."""
        if process != self.process:
            raise Crash
        if self.left:
            self.left -= 1
            if not self.left:
                self.process += 1
                raise Crash

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[LogConsumer]:
        yield LogConsumer(self.log)


class BrokerClient:
    """A producer of one process; with a transactional id its records wait for the commit."""

    def __init__(self, broker: FakeBroker, transactional_id: str = "") -> None:
        self._broker, self._id, self._process = broker, transactional_id, broker.process
        self._epoch = broker.epochs[transactional_id] = broker.epochs.get(transactional_id, 0) + 1
        self._waiting: list[tuple[str, int, bytes, bytes | None, Sequence[tuple[str, bytes]]]] = []

    async def open_transactions(self, transactional_id: str) -> "BrokerClient":
        """Return a producer that fences the former ones with this id."""
        return BrokerClient(self._broker, transactional_id)

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> "asyncio.Future[Metadata]":
        """Accept a record; a kill here comes before it is stored, and none at a Progress, which decides nothing."""
        if topic != PROGRESS.name:
            self._broker.effect(self._process)
        offset = len(self._broker.log.get(TopicPartition(topic, partition), ())) + len(self._waiting)
        self._waiting.append((topic, partition, key, value, headers))
        if not self._id:
            self._store()
        delivery: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        delivery.set_result(Metadata(offset))
        return delivery

    async def begin_transaction(self) -> None:
        """Begin without records."""
        assert not self._waiting

    async def commit_transaction(self) -> None:
        """Store all records, or none if a later producer has the id; a kill comes before or after that."""
        self._broker.effect(self._process)
        if self._broker.epochs[self._id] != self._epoch:
            raise ProducerFenced
        self._store()
        self._broker.effect(self._process)

    async def stop(self) -> None:
        """Drop what is not committed."""
        self._waiting = []

    def _store(self) -> None:
        for record in self._waiting:
            self._broker.store(*record)
        self._waiting = []
