"""Fakes of one Kafka partition, the group's offset and ClickHouse tables, in memory, with crashes on request.

They have only the guarantees that the sink relies on: a commit is accepted from the owner of the generation only, an
insert's token is remembered for the table's window of blocks, and either may happen without a response.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.store.persist.partition_offsets import PartitionLost
from streams.store.rows.native_format import NativeBlock, NumericColumn
from streams.store.rows.row_builder import SourcedMessage, TableRows
from streams.wire.errors import Retry
from streams.wire.models import Rejected


class Crash(BaseException):
    """Ends the process here, as a kill does."""


@dataclass
class Fuse:
    """Counts the sink's external effects, and kills it before or after the n-th of them; 0: never."""

    left: int = 0
    after: bool = False

    def burn(self, *, done: bool) -> None:
        """Count an effect; called before each with done=False and after it with done=True."""
        if done == self.after and self.left:
            self.left -= 1
            if not self.left:
                raise Crash


@dataclass(frozen=True)
class FakeRecord:
    """A record as aiokafka returns it."""

    offset: int
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class FakeLog:
    """State that survives a sink: the records, the group's offset with its generation, the rejected topic."""

    records: list[FakeRecord] = field(default_factory=list)
    begin: int | None = None
    """The first retained offset; None: that of the first record."""
    committed: OffsetAndMetadata | None = None
    generation: int = 0
    rejected: list[Rejected] = field(default_factory=list)


class FakeConsumer:
    """Reads the log from a position, a few records at a time."""

    def __init__(self, at: TopicPartition, log: FakeLog, max_records: int) -> None:
        self._at = at
        self.paused = asyncio.Event()
        self._log = log
        self._max_records = max_records
        self._position = 0

    async def fetch(self) -> list[tuple[TopicPartition, Any]]:
        # As in the driver, no other task runs between reading the position and moving it.
        await asyncio.sleep(0)
        found = [r for r in self._log.records if r.offset >= self._position][: self._max_records]
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
        first = self._log.records[0].offset if self._log.records else 0
        return dict.fromkeys(partitions, first if self._log.begin is None else self._log.begin)

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
            raise PartitionLost("another sink is the owner")
        self._log.committed = OffsetAndMetadata(offset, metadata)
        self._fuse.burn(done=True)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {} if self._log.committed is None else dict.fromkeys(partitions, self._log.committed)


class FakeTables(ClickHouse):
    """Tables of one column, the Kafka offsets; the first `failures` requests fail."""

    def __init__(self, fuse: Fuse, window: int = 100) -> None:
        super().__init__(StoreParams())
        self.fuse = fuse
        self.rows: dict[str, list[int]] = {}
        self.tokens: dict[str, list[str]] = {}
        self.failures = 0
        self.loses_rows = False
        """True if the server is killed between recording the next token and storing its rows."""
        self._window = window

    def insert(self, table: str, columns: Sequence[str], block: NativeBlock, token: str) -> None:
        self._fail_maybe()
        self.fuse.burn(done=False)
        tokens = self.tokens.setdefault(table, [])
        if token not in tokens:
            tokens.append(token)
            del tokens[: -self._window]
            if self.loses_rows:
                self.loses_rows = False
                raise Retry("killed")
            self.rows.setdefault(table, []).extend(_offsets(block))
        self.fuse.burn(done=True)

    def query(self, sql: str, parameters: Any = None) -> Any:
        self._fail_maybe()
        table = sql.split("`")[1]
        rows = self.rows.get(table, [])
        if "max(kafka_offset)" in sql:
            return [(max(rows, default=0), len(rows))]
        return [(sum(parameters["first"] <= offset <= parameters["last"] for offset in rows),)]

    def _fail_maybe(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Retry("unavailable")


class OffsetBuilder:
    """Builds one row per message in each of two tables: its offset."""

    def __init__(self) -> None:
        self._offsets: list[int] = []

    def add(self, sourced: SourcedMessage) -> int:
        self._offsets.append(sourced.offset)
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
        self.losses: list[tuple[int, int, bool]] = []
        """The first offset and the number of the records of each report, and whether the topic was created again."""

    async def send(self, rejected: list[Rejected]) -> None:
        self._fuse.burn(done=False)
        self._log.rejected.extend(rejected)
        self._fuse.burn(done=True)

    async def report_loss(self, at: Any, first: int, count: int, now_ns: int, *, is_recreated: bool) -> None:
        self.losses.append((first, count, is_recreated))

    async def already_rejected(self, intent: Any) -> set[int]:
        return {one.offset for one in self._log.rejected if intent.first <= one.offset <= intent.last}


def _offsets(block: NativeBlock) -> list[int]:
    """Return the values of a Native block of one Int64 column."""
    data = b"".join(block.pieces)
    at = data.index(b"\x05Int64") + len(b"\x05Int64")
    return [int(value) for value in np.frombuffer(data[at:], "<i8")]
