"""One partition's way into ClickHouse: collect a block, say its bounds, store it, say that it is stored.

What is committed to Kafka decides everything after a restart (bounds.py); every commit is fenced (fence.py), so
that a sink which lost the partition can begin no block. It may still be storing the last one it began: the next owner
stores that with the same bounds and token, and ClickHouse keeps one.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.store.params import SinkParams
from streams.store.persist.block_intent import BlockIntent, Committed, parse_metadata
from streams.store.persist.block_lease import BlockLease
from streams.store.persist.block_writer import BlockWriter
from streams.store.persist.commit_fence import CommitFence
from streams.store.persist.partition_offsets import PartitionOffsets
from streams.store.persist.partition_reader import PartitionReader
from streams.store.persist.persisted_topics import LatencyClass, OffsetRange, PersistedTopic, QueryClient
from streams.store.persist.rejected_records import MAX_VALUE_BYTES, STAGE, RejectedRecords
from streams.store.persist.retry import retry_forever
from streams.store.persist.sink_stats import SinkStats
from streams.store.rows.row_builder import RowBuilder, SourcedMessage
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Rejected

Answer = TypeVar("Answer")

IDLE_TIMEOUT_S = 1.0
"""How long nothing may come before the broker is asked whether anything is to come."""

_HIGHEST = "SELECT max(kafka_offset), count() FROM `{table}` WHERE kafka_partition = {{p:UInt16}}"

_log = structlog.get_logger("railsight.persist")


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What every partition of a sink shares."""

    consumer: AIOKafkaConsumer
    reader: PartitionReader
    fence: CommitFence
    queries: QueryClient
    writer: BlockWriter
    rejects: RejectedRecords
    params: SinkParams
    stats: SinkStats
    now_ns: Callable[[], int]


@dataclass(slots=True)
class PendingBlock:
    """Records that were taken and not stored yet; `first` is where it begins, also where records are missing."""

    first: int
    first_at: float = 0.0
    last: int = -1
    stamp_ms: int = -1
    newest_ms: int = 0
    records: int = 0
    rows: int = 0
    size: int = 0
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Nothing was taken."""
        return self.last < self.first

    def add(self, records: Sequence[Any]) -> None:
        """Note that these were taken."""
        if records:
            if self.records == 0:
                self.stamp_ms = records[0].timestamp
            self.last = records[-1].offset
            self.newest_ms = max(self.newest_ms, *(record.timestamp for record in records))
            self.records += len(records)


class PartitionWriter:
    """Follows one partition of one topic, from its assignment until it is taken away."""

    def __init__(self, at: TopicPartition, persisted: PersistedTopic, means: SinkContext) -> None:
        self._at = at
        self._persisted = persisted
        self._means = means
        self._position = 0
        self._newest_ms = 0
        self._builder: RowBuilder
        self._others = frozenset(other.__name__.lower().encode() for other in persisted.topic.others)
        self._stored_at = -math.inf
        self._offsets = PartitionOffsets(means.consumer, at, means.params)

    async def run(self) -> None:
        """Store block after block; ends by cancellation, or by Lost."""
        left = await self._begin()
        if left is not None:
            await self._store_again(left)
        while True:
            block = await self._collect()
            bounds = BlockIntent(self._at.topic, self._at.partition, block.first, block.last, block.stamp_ms)
            if block.rows or block.rejected:
                await self._commit(bounds.first, bounds.metadata())
            await self._store(bounds, block, doubtful=False)

    async def _begin(self) -> BlockIntent | None:
        """Find where to begin, and remember what is stored before; answers the block that may be stored in part."""
        found = await self._patiently("committed offset", lambda: self._means.fence.committed([self._at]))
        left: BlockIntent | Committed = Committed(0)
        if self._at in found:
            self._position = found[self._at].offset
            left = parse_metadata(self._at.topic, self._at.partition, self._position, found[self._at].metadata)
        else:
            self._position = await self._stored_to()
        if isinstance(left, Committed):
            self._newest_ms = left.newest_ms
        now_ms = self._means.now_ns() // 1_000_000
        window_ms = int(self._means.params.deduplication_window_s * 1000)
        stretch = OffsetRange(self._at.partition, self._position, window_ms, now_ms)
        start = partial(self._persisted.start, self._means.queries, stretch)
        self._builder = await self._patiently("identities", partial(asyncio.to_thread, start))
        if self._persisted.from_beginning:
            await self._show_beginning()
        self._means.reader.seek(self._at, self._position)
        _log.debug("partition taken", topic=self._at.topic, partition=self._at.partition, offset=self._position)
        return left if isinstance(left, BlockIntent) else None

    async def _stored_to(self) -> int:
        """Where a group without an offset begins: after what the tables hold, which it or another group stored."""
        highest = -1
        for table in self._persisted.tables:
            ask = partial(self._means.queries.query, _HIGHEST.format(table=table), {"p": self._at.partition})
            rows = await self._patiently("offsets in ClickHouse", partial(asyncio.to_thread, ask))
            if rows[0][1]:
                highest = max(highest, int(rows[0][0]))
        if highest + 1 > await self._offsets.end():
            _log.warning("the topic was made anew: its rows begin again", topic=self._at.topic)
            return await self._offsets.beginning()
        return max(await self._offsets.beginning(), highest + 1)

    async def _show_beginning(self) -> None:
        """Give the builder all records before the position, and throw their rows away."""
        feed = self._means.reader
        feed.seek(self._at, await self._offsets.beginning())
        while await feed.position(self._at) < self._position:
            came = await feed.take(self._at, IDLE_TIMEOUT_S)
            before = [record for record in came if record.offset < self._position]
            await self._put(PendingBlock(self._position), before)
            self._builder.finish()
            if not before and await self._offsets.is_exhausted():
                break

    async def _store_again(self, left: BlockIntent) -> None:
        """Take exactly the records of a block that was begun, and store it with its old token."""
        _log.info("a block that was begun is stored again", token=left.token)
        feed = self._means.reader
        block = PendingBlock(left.first)
        while True:
            records = await feed.take(self._at, IDLE_TIMEOUT_S)
            await self._put(block, [record for record in records if record.offset <= left.last])
            past = any(record.offset > left.last for record in records)
            if (
                past
                or await feed.position(self._at) > left.last
                or (not records and await self._offsets.is_exhausted())
            ):
                break
        feed.seek(self._at, left.last + 1)
        said = await self._patiently("rejected records", lambda: self._said(block, left))
        block.rejected = [rejected for rejected in block.rejected if rejected.offset not in said]
        self._position = left.last + 1
        block.last = left.last
        await self._store(left, block, doubtful=True)

    async def _said(self, block: PendingBlock, left: BlockIntent) -> set[int]:
        return await self._means.rejects.already_rejected(left) if block.rejected else set()

    async def _collect(self) -> PendingBlock:
        """Take records until there are enough, or the first has waited as long as it may."""
        feed = self._means.reader
        block = PendingBlock(self._position)
        while True:
            left_s = None if block.empty else max(0.0, block.first_at + self._linger_s(block) - time.monotonic())
            records = await feed.take(self._at, left_s)
            if records and not await self._in_order(records[0]):
                return await self._collect()
            if records and block.empty:
                block.first_at = time.monotonic()
            taken = await self._put(block, records, until_full=True)
            feed.unread(self._at, records[taken:])
            if self._full(block) or time.monotonic() >= block.first_at + self._linger_s(block):
                self._position = block.last + 1
                return block

    def _full(self, block: PendingBlock) -> bool:
        params = self._means.params
        return block.rows >= params.block_rows or block.records >= params.block_rows or block.size >= params.block_bytes

    def _linger_s(self, block: PendingBlock) -> float:
        """How long a block's first record may wait: longer where much is to come, for small blocks cost more."""
        params, pace = self._means.params, self._persisted.latency
        longest = max(
            params.linger_s, params.linger_background_s if pace is LatencyClass.BACKGROUND else params.linger_max_s
        )
        match pace:
            case _ if not block.rows and not block.rejected:
                # Nothing waits to be seen: records that make no rows, progress among them, only move the offset.
                return max(params.linger_s, params.linger_max_s)
            case LatencyClass.PROMPT:
                more = False
            case LatencyClass.BULK:
                more = block.rows >= params.bulk_rows
            case LatencyClass.STEADY | LatencyClass.BACKGROUND:
                more = block.first_at < self._stored_at + longest
        return longest if more else params.linger_s

    async def _in_order(self, record: Any) -> bool:
        """Whether a record follows what was stored; after a rewind of the topic, find the first that is new."""
        if record.offset >= self._position:
            return True
        self._position = await self._offsets.first_after(self._newest_ms)
        _log.warning("the topic was rewound", topic=self._at.topic, partition=self._at.partition, to=self._position)
        self._means.stats.rewinds += 1
        self._means.reader.seek(self._at, self._position)
        return False

    async def _put(self, block: PendingBlock, records: Sequence[Any], *, until_full: bool = False) -> int:
        take = partial(self._take, block, records, until_full=until_full)
        # A version of the largest inventory is seconds of work: others' records and the heartbeat do not wait for it.
        return await asyncio.to_thread(take) if self._persisted.from_beginning else take()

    def _take(self, block: PendingBlock, records: Sequence[Any], *, until_full: bool = False) -> int:
        """Records into the block, each as rows, a rejection, or nothing; answers how many were taken."""
        topic, model, others = self._persisted.topic, self._persisted.model, self._others
        partition, add = self._at.partition, self._builder.add
        most_rows, most_bytes = self._means.params.block_rows, self._means.params.block_bytes
        taken = 0
        for record in records:
            taken += 1
            value, headers = record.value, record.headers
            if value is None:
                continue
            block.size += len(value)
            # What the registry knows to make no rows is not read.
            if headers and _type_of(headers) in others:
                continue
            try:
                message = topics.decode(topic, value, headers)
                if isinstance(message, model):
                    block.rows += add(SourcedMessage(partition, record.offset, record.timestamp, message))
            except Reject as error:
                self._reject(block, record, str(error))
            if until_full and (block.rows >= most_rows or block.size >= most_bytes):
                break
        block.add(records[:taken])
        return taken

    def _reject(self, block: PendingBlock, record: Any, reason: str) -> None:
        self._means.stats.rejected += 1
        _log.warning("a record cannot be read", topic=self._at.topic, offset=record.offset, reason=reason)
        if self._persisted.topic is topics.REJECTED:
            return  # a rejection of a rejection would go round for ever
        block.rejected.append(
            Rejected(
                self._at.topic,
                self._at.partition,
                record.offset,
                STAGE,
                reason,
                self._means.now_ns(),
                record.value[:MAX_VALUE_BYTES],
            )
        )

    async def _store(self, bounds: BlockIntent, block: PendingBlock, *, doubtful: bool) -> None:
        claim = BlockLease(partial(self._means.fence.commit, self._at, bounds.first, bounds.metadata()))
        rows = await asyncio.to_thread(self._builder.finish)
        if block.rejected:
            await self._patiently("rejected records", lambda: self._say(block.rejected, claim))
        await self._means.writer.store(bounds, rows, claim, doubtful=doubtful)
        self._newest_ms = max(self._newest_ms, block.newest_ms)
        await self._commit(bounds.last + 1, Committed(self._newest_ms).metadata())
        self._stored_at = time.monotonic()
        self._means.stats.add_block(self._at.topic, block.records, {part.table: part.count for part in rows})

    async def _say(self, rejected: list[Rejected], claim: BlockLease) -> None:
        await claim.verify()
        await self._means.rejects.send(rejected)

    async def _commit(self, offset: int, metadata: str) -> None:
        await self._patiently("commit", lambda: self._means.fence.commit(self._at, offset, metadata))

    async def _patiently(self, what: str, act: Callable[[], Awaitable[Answer]]) -> Answer:
        name = f"{what} of {self._at.topic}/{self._at.partition}"
        return await retry_forever(self._means.params, name, lambda _: act())


def _type_of(headers: topics.Headers) -> bytes:
    """The name of the message that a record holds, where it is not its topic's own."""
    return next((data for name, data in headers if name == "type"), b"")
