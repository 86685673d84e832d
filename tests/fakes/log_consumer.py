"""A consumer of topics in memory, as far as streams.wire.standalone_consumer reads with it."""

from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from streams.wire.topics import Record


@dataclass(frozen=True)
class LogRecord:
    """A record as aiokafka returns it."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = 0


@dataclass
class LogConsumer:
    """Reads `log`, which has the records of each partition."""

    log: dict[TopicPartition, list[LogRecord]] = field(default_factory=dict)
    at: dict[TopicPartition, int] = field(default_factory=dict)

    def add(self, partition: int, *records: Record) -> None:
        for record in records:
            stored = self.log.setdefault(TopicPartition(record.topic.name, partition), [])
            stored.append(LogRecord(len(stored), record.key, record.value, record.headers))

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.log.get(tp, ())) for tp in partitions}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.at = dict.fromkeys(partitions, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.at[tp] = offset

    async def position(self, tp: TopicPartition) -> int:
        return self.at[tp]

    async def getmany(self, tp: TopicPartition, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        found = self.log.get(tp, [])[self.at[tp] : self.at[tp] + 10]
        self.at[tp] += len(found)
        return {tp: found}

    def unsubscribe(self) -> None:
        self.at = {}
