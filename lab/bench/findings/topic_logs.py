"""Holds the topics of `decide` in memory, with the guarantees that its runner relies on: order, offsets, append time.

A kill while records are sent leaves a part of them on each topic: topics are sent to side by side, each in its order.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from streams.runtime.chunk import Chunk
from streams.wire.topics import Record, Topic


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as a consumer fetches it; `timestamp` is the append time in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


@dataclass(slots=True)
class TopicLog:
    """One partition, from the oldest record that is retained."""

    first: int = 0
    records: list[StoredRecord] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return self.first + len(self.records)

    def since(self, offset: int) -> list[StoredRecord]:
        """Return the records from an offset on."""
        return self.records[offset - self.first :]

    def trim(self, offset: int) -> None:
        """Delete the records before an offset."""
        if offset > self.first:
            del self.records[: offset - self.first]
            self.first = offset


class TopicLogs:
    """The logs of these topics by name; `follow` receives each record of any topic as it is appended, with its time."""

    def __init__(self, stored: Iterable[Topic], follow: Callable[[Record, int], None]) -> None:
        self._logs = {topic.name: TopicLog() for topic in stored}
        self._follow = follow

    def log(self, topic: str) -> TopicLog:
        """Return the log of a topic."""
        return self._logs[topic]

    def append(self, record: Record, at_ns: int) -> None:
        """Append one record."""
        if (log := self._logs.get(record.topic.name)) is not None:
            log.records.append(StoredRecord(log.end, at_ns // 1_000_000, record.key, record.value, record.headers))
        self._follow(record, at_ns)

    def append_partly(self, records: Sequence[Record], at_ns: int, chance: random.Random) -> None:
        """Append what a killed process had sent: the first records of each topic."""
        ordered = sorted(records, key=lambda record: record.topic.name)
        for _, of_topic in groupby(ordered, key=lambda record: record.topic.name):
            sent = list(of_topic)
            for record in sent[: chance.randint(0, len(sent))]:
                self.append(record, at_ns)

    def chunk(self, topic: str, position: int) -> Chunk | None:
        """Return all that a topic holds from a position on; None if there is nothing."""
        log = self.log(topic)
        if position >= log.end:
            return None
        return Chunk(topic, 0, position, log.end, log.since(position), log.end)
