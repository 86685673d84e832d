"""One partition of Kafka, a group's memory of it, and tables of ClickHouse, in memory, which crash when they are told.

They keep the promises that the sink stands on and no others: a commit is taken from the owner of the generation only,
an insert's token is remembered for as many blocks as the table's window, and either may happen and the answer be lost.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from streams.store.persist.commit_fence import PartitionLost
from streams.store.rows.native_format import NativeBlock, NumericColumn
from streams.store.rows.row_builder import SourcedMessage, TableRows
from streams.wire.errors import Retry
from streams.wire.models import Rejected


class Crash(BaseException):
    """The process was killed here."""


@dataclass
class Fuse:
    """Counts what the sink does to the world, and kills it before or after the n-th of these; 0: never."""

    left: int = 0
    after: bool = False

    def burn(self, *, done: bool) -> None:
        """Called before each act with done=False, and after it with done=True."""
        if done == self.after and self.left:
            self.left -= 1
            if not self.left:
                raise Crash


@dataclass(frozen=True)
class FakeRecord:
    """A record as aiokafka hands it out."""

    offset: int
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class FakeLog:
    """What outlives a sink: the records, the group's offset with its generation, the rejected topic."""

    records: list[FakeRecord] = field(default_factory=list)
    committed: OffsetAndMetadata | None = None
    generation: int = 0
    rejected: list[Rejected] = field(default_factory=list)


class FakeConsumer:
    """Reads the log from a position, a few records at a time."""

    def __init__(self, at: TopicPartition, log: FakeLog, most: int) -> None:
        self._at = at
        self.paused = asyncio.Event()
        self._log = log
        self._most = most
        self._position = 0

    async def fetched(self) -> list[tuple[TopicPartition, Any]]:
        # As in the driver, nothing comes between reading the position and moving it.
        await asyncio.sleep(0)
        found = [r for r in self._log.records if r.offset >= self._position][: self._most]
        if not found or self.paused.is_set():
            await asyncio.sleep(0.001)
            return []
        self._position = found[-1].offset + 1
        return [(self._at, found)]

    def pause(self, at: TopicPartition) -> None:
        self.paused.set()

    def resume(self, at: TopicPartition) -> None:
        self.paused.clear()

    def seek(self, at: TopicPartition, offset: int) -> None:
        self._position = offset

    async def position(self, at: TopicPartition) -> int:
        return self._position

    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self._log.records[0].offset if self._log.records else 0)

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self._log.records[-1].offset + 1 if self._log.records else 0)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {
            at: next((record for record in self._log.records if record.timestamp >= time), None)
            for at, time in times.items()
        }


class FakeFence:
    """The right to commit under one generation."""

    def __init__(self, log: FakeLog, fuse: Fuse) -> None:
        log.generation += 1
        self._log = log
        self._fuse = fuse
        self._generation = log.generation

    async def commit(self, at: TopicPartition, offset: int, metadata: str) -> None:
        self._fuse.burn(done=False)
        if self._generation != self._log.generation:
            raise PartitionLost("another has it")
        self._log.committed = OffsetAndMetadata(offset, metadata)
        self._fuse.burn(done=True)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {} if self._log.committed is None else dict.fromkeys(partitions, self._log.committed)


class FakeTables:
    """Tables of one column, the offsets of Kafka; `away` many requests fail before the server is back."""

    def __init__(self, fuse: Fuse, window: int = 100) -> None:
        self.fuse = fuse
        self.rows: dict[str, list[int]] = {}
        self.tokens: dict[str, list[str]] = {}
        self.away = 0
        self.forgets_rows = False
        """Killed between noting the next token and keeping its rows."""
        self._window = window

    def insert(self, table: str, columns: Sequence[str], block: NativeBlock, token: str) -> None:
        self._busy()
        self.fuse.burn(done=False)
        known = self.tokens.setdefault(table, [])
        if token not in known:
            known.append(token)
            del known[: -self._window]
            if self.forgets_rows:
                self.forgets_rows = False
                raise Retry("killed")
            self.rows.setdefault(table, []).extend(_offsets(block))
        self.fuse.burn(done=True)

    def query(self, sql: str, parameters: Any = None) -> Any:
        self._busy()
        table = sql.split("`")[1]
        rows = self.rows.get(table, [])
        if "max(kafka_offset)" in sql:
            return [(max(rows, default=0), len(rows))]
        return [(sum(parameters["first"] <= offset <= parameters["last"] for offset in rows),)]

    def _busy(self) -> None:
        if self.away:
            self.away -= 1
            raise Retry("away")


class OffsetBuilder:
    """Makes one row of each message in each of two tables: its offset."""

    def __init__(self) -> None:
        self._offsets: list[int] = []

    def add(self, taken: SourcedMessage) -> int:
        self._offsets.append(taken.offset)
        return 1

    def finish(self) -> list[TableRows]:
        offsets, self._offsets = self._offsets, []
        column = NumericColumn("kafka_offset", "Int64", np.array(offsets, np.int64))
        return [TableRows(table, [column]) for table in ("first", "second")] if offsets else []


class FakeRejects:
    """The rejected topic."""

    def __init__(self, log: FakeLog, fuse: Fuse) -> None:
        self._log = log
        self._fuse = fuse

    async def send(self, rejected: list[Rejected]) -> None:
        self._fuse.burn(done=False)
        self._log.rejected.extend(rejected)
        self._fuse.burn(done=True)

    async def already_rejected(self, bounds: Any) -> set[int]:
        return {one.offset for one in self._log.rejected if bounds.first <= one.offset <= bounds.last}


def _offsets(block: NativeBlock) -> list[int]:
    """The values of a Native block of one Int64 column."""
    data = b"".join(block.pieces)
    at = data.index(b"\x05Int64") + len(b"\x05Int64")
    return [int(value) for value in np.frombuffer(data[at:], "<i8")]
