"""Stores one partition in ClickHouse: collects a block, commits its intent, inserts it, commits that it is stored.

After a restart only the committed offset counts (block_writer.py). Every commit is fenced (partition_offsets.py), so a
sink that lost the partition cannot begin a block. It may still insert its last block: the next owner inserts that block
with the same bounds and token, and ClickHouse stores it once.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.store.clickhouse import QueryClient
from streams.store.params import SinkParams
from streams.store.persist.block_builder import BlockBuilder, PendingBlock, SinkStats
from streams.store.persist.block_writer import BlockIntent, BlockLease, BlockWriter, Committed, parse_metadata
from streams.store.persist.partition_offsets import CommitFence, PartitionOffsets, retry_forever
from streams.store.persist.partition_reader import PartitionReader
from streams.store.persist.persisted_topics import LatencyClass, OffsetRange, PersistedTopic
from streams.store.persist.rejected_records import RejectedRecords
from streams.wire.models import Rejected

if TYPE_CHECKING:
    from streams.wire.identity import MacVerifier

Answer = TypeVar("Answer")

IDLE_TIMEOUT_S = 1.0
_GAP_S = 10.0
"""The interval at which a partition without records passes the gaps at its end: markers of transactions."""
"""After this time without records, the end of the partition is requested from the broker."""

_HIGHEST = "SELECT max(kafka_offset), count() FROM `{table}` WHERE kafka_partition = {{p:UInt16}}"

_log = structlog.get_logger("railsight.persist")


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The parts that all partitions of a sink share."""

    consumer: AIOKafkaConsumer
    reader: PartitionReader
    fence: CommitFence
    queries: QueryClient
    writer: BlockWriter
    rejects: RejectedRecords
    params: SinkParams
    stats: SinkStats
    now_ns: Callable[[], int]
    verifier: "MacVerifier | None" = None


class PartitionWriter:
    """Stores one partition of one topic, from its assignment until it is revoked."""

    def __init__(self, at: TopicPartition, persisted: PersistedTopic, context: SinkContext) -> None:
        self._at = at
        self._persisted = persisted
        self._context = context
        self._position = 0
        self._newest_ms = 0
        self._blocks: BlockBuilder
        self._stored_at = -math.inf
        self._storing_at: float | None = None
        self.is_restored = False
        """True if the start offset and the stored identities are known."""
        self._attempts = 0
        self._lease: BlockLease | None = None
        self._offsets = PartitionOffsets(context.consumer, at, context.params)

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """The offset of the first record outside a finished block; empty for compacted topics."""
        is_known = self.is_restored and self._persisted.topic.retention_s is not None
        return {(self._at.topic, self._at.partition): self._position} if is_known else {}

    @property
    def attempts(self) -> int:
        """The number of requests and reads of the start and of the present block; each ends in bounded time."""
        return self._attempts + (self._lease.verifications if self._lease else 0)

    @property
    def sending_s(self) -> float:
        """The waiting time of a finished block for ClickHouse and Kafka; 0 without one."""
        return 0.0 if self._storing_at is None else time.monotonic() - self._storing_at

    async def run(self) -> None:
        """Store block after block; ends by cancellation or with PartitionLost."""
        unfinished = await self._start()
        self.is_restored = True
        if unfinished is not None:
            self._storing_at = time.monotonic()
            await self._store_again(unfinished)
            self._storing_at = None
        while True:
            block = await self._collect()
            self._storing_at = time.monotonic()
            intent = BlockIntent(self._at.topic, self._at.partition, block.first, block.last, block.stamp_ms)
            if block.rows or block.rejected:
                await self._commit(intent.first, intent.metadata())
            await self._store(intent, block, doubtful=False)
            self._storing_at = None

    async def _start(self) -> BlockIntent | None:
        """Find the start offset and restore stored identities; return a block that may be stored in part."""
        context = self._context
        found = await self._retry("committed offset", lambda: context.fence.committed([self._at]))
        state: BlockIntent | Committed = Committed(0)
        if self._at in found:
            self._position = found[self._at].offset
            state = parse_metadata(self._at.topic, self._at.partition, self._position, found[self._at].metadata)
        else:
            self._position = await self._first_unstored()
        if isinstance(state, Committed):
            self._newest_ms = state.newest_ms
        # Uses Kafka's time if it is known: with a clock that is ahead, no stored identity would be in the window.
        newest_ms = state.newest_ms if isinstance(state, Committed) else state.stamp_ms
        now_ms = newest_ms or context.now_ns() // 1_000_000
        window_ms = int(context.params.deduplication_window_s * 1000)
        offsets = OffsetRange(self._at.partition, self._position, window_ms, now_ms)
        start = partial(self._persisted.start, context.queries, offsets)
        rows = await self._retry("identities", partial(asyncio.to_thread, start))
        self._blocks = BlockBuilder(
            self._at, self._persisted, rows, context.params, context.stats, context.now_ns, context.verifier
        )
        if self._persisted.from_beginning:
            await self._replay(await self._offsets.beginning())
        elif self._persisted.resume is not None:
            resume = partial(self._persisted.resume, context.queries, offsets)
            first = await self._retry("open minutes", partial(asyncio.to_thread, resume))
            if first < self._position:
                await self._replay(max(first, await self._offsets.beginning()))
        context.reader.seek(self._at, self._position)
        _log.debug("partition assigned", topic=self._at.topic, partition=self._at.partition, offset=self._position)
        return state if isinstance(state, BlockIntent) else None

    async def _first_unstored(self) -> int:
        """Return the start offset of a new group: after the rows in the tables, whichever group stored them."""
        highest = -1
        for table in self._persisted.tables:
            query = partial(self._context.queries.query, _HIGHEST.format(table=table), {"p": self._at.partition})
            rows = await self._retry("offsets in ClickHouse", partial(asyncio.to_thread, query))
            if rows[0][1]:
                highest = max(highest, int(rows[0][0]))
        if highest + 1 > await self._offsets.end():
            _log.warning("topic was recreated, starting at its beginning", topic=self._at.topic)
            return await self._offsets.beginning()
        return max(await self._offsets.beginning(), highest + 1)

    async def _replay(self, first: int) -> None:
        """Pass the records from `first` to the position to the builder, and discard their rows."""
        reader = self._context.reader
        reader.seek(self._at, first)
        while await reader.position(self._at) < self._position:
            records = await reader.take(self._at, IDLE_TIMEOUT_S)
            self._attempts += 1
            earlier = [record for record in records if record.offset < self._position]
            await self._add(PendingBlock(self._position), earlier)
            self._blocks.rows.finish()
            if not earlier and await self._is_exhausted():
                break

    async def _is_exhausted(self) -> bool:
        """Return whether all records up to the present end of the partition were taken."""
        end = await self._offsets.end()
        return await self._context.reader.position(self._at) >= end

    async def _store_again(self, intent: BlockIntent) -> None:
        """Read exactly the records of an unfinished block, and store it with its old token."""
        _log.info("storing an unfinished block again", token=intent.token)
        reader = self._context.reader
        block = PendingBlock(intent.first)
        while True:
            records = await reader.take(self._at, IDLE_TIMEOUT_S)
            self._attempts += 1
            await self._add(block, [record for record in records if record.offset <= intent.last])
            past_end = any(record.offset > intent.last for record in records)
            if past_end or await reader.position(self._at) > intent.last:
                break
            if not records and await self._is_exhausted():
                break
        reader.seek(self._at, intent.last + 1)
        await self._report_lost_of(intent, block)
        already = await self._retry("rejected records", lambda: self._already_rejected(block, intent))
        block.rejected = [rejected for rejected in block.rejected if rejected.offset not in already]
        self._position = intent.last + 1
        block.last = intent.last
        await self._store(intent, block, doubtful=True)

    async def _report_lost_of(self, intent: BlockIntent, block: PendingBlock) -> None:
        """Report the deleted records of an unfinished block that no earlier attempt has stored."""
        missing = intent.last - intent.first + 1 - block.records
        if missing > 0 and self._persisted.topic.retention_s is not None:
            # Retention deletes from the beginning. A message is complete when the last table has it.
            deleted = replace(intent, last=intent.first + missing - 1)
            query = partial(self._context.writer.stored_offsets, deleted, self._persisted.tables[-1])
            stored = await self._retry("stored offsets", partial(asyncio.to_thread, query))
            await self._report_lost(intent.first, missing - stored)

    async def _already_rejected(self, block: PendingBlock, intent: BlockIntent) -> set[int]:
        return await self._context.rejects.already_rejected(intent) if block.rejected else set()

    async def _collect(self) -> PendingBlock:
        """Read records until the block is full, or its first record has waited for the linger time."""
        reader = self._context.reader
        block = PendingBlock(self._position)
        while True:
            timeout_s = _GAP_S if block.empty else max(0.0, block.first_at + self._linger_s(block) - time.monotonic())
            records = await reader.take(self._at, timeout_s)
            if not records and block.empty:
                await self._pass_gap()
                continue
            if records and not await self._in_order(records[0]):
                return await self._collect()
            if records and block.empty:
                block.first_at = time.monotonic()
            expected = max(self._position, block.last + 1)
            added = await self._add(block, records, until_full=True)
            await self._report_lost(expected, block.last + 1 - expected - added)
            reader.unread(self._at, records[added:])
            if self._blocks.is_full(block) or time.monotonic() >= block.first_at + self._linger_s(block):
                self._position = block.last + 1
                return block

    async def _pass_gap(self) -> None:
        """Commit the end of a gap that no record follows, because it would count as unread."""
        position = await self._context.reader.position(self._at)
        if position > self._position:
            self._position = position
            await self._commit(position, Committed(self._newest_ms).metadata())

    def _linger_s(self, block: PendingBlock) -> float:
        """Return the longest wait of a block's first record: longer if more rows follow, as small blocks cost more."""
        params, latency = self._context.params, self._persisted.latency
        background = latency is LatencyClass.BACKGROUND
        longest = max(params.linger_s, params.linger_background_s if background else params.linger_max_s)
        match latency:
            case _ if not block.rows and not block.rejected:
                # No row waits to become visible: records without rows, such as progress, only advance the offset.
                return max(params.linger_s, params.linger_background_s)
            case LatencyClass.PROMPT:
                more_expected = False
            case LatencyClass.STEADY | LatencyClass.BACKGROUND:
                more_expected = block.first_at < self._stored_at + longest
        return longest if more_expected else params.linger_s

    async def _in_order(self, record: Any) -> bool:
        """Return whether a record follows the stored ones; if the topic was rewound, seek to the first new record."""
        if record.offset >= self._position:
            return True
        self._position = await self._offsets.first_after(self._newest_ms)
        _log.warning("topic was rewound", topic=self._at.topic, partition=self._at.partition, to=self._position)
        self._context.reader.seek(self._at, self._position)
        await self._report_lost(self._position, 0, is_recreated=True)
        return False

    async def _report_lost(self, first: int, count: int, *, is_recreated: bool = False) -> None:
        """Report records that the brokers had deleted before they were read.

        Retention deletes from the beginning; other gaps are of compaction or of transactions.
        """
        if count > 0 and self._persisted.topic.retention_s is not None:
            count = min(count, await self._offsets.beginning() - first)
        if (count <= 0 and not is_recreated) or self._persisted.topic.retention_s is None:
            return
        if count > 0:
            self._context.stats.add_lost(self._at, count)
            _log.error(
                "records were deleted before they were stored; give the topic more retention than the longest outage",
                topic=self._at.topic, partition=self._at.partition, records=count,
            )  # fmt: skip
        now_ns = self._context.now_ns()
        await self._context.rejects.report_loss(self._at, first, max(0, count), now_ns, is_recreated=is_recreated)

    async def _add(self, block: PendingBlock, records: Sequence[Any], *, until_full: bool = False) -> int:
        add = partial(self._blocks.add, block, records, until_full=until_full)
        # A version of the largest inventory takes seconds, so a thread prevents delays of other records and heartbeats.
        return await asyncio.to_thread(add) if self._persisted.from_beginning else add()

    async def _store(self, intent: BlockIntent, block: PendingBlock, *, doubtful: bool) -> None:
        commit = partial(self._context.fence.commit, self._at, intent.first, intent.metadata())
        lease = self._lease = BlockLease(commit)
        rows = await asyncio.to_thread(self._blocks.rows.finish)
        if block.rejected:
            await self._retry("rejected records", lambda: self._send_rejected(block.rejected, lease))
        await self._context.writer.store(intent, rows, lease, doubtful=doubtful)
        self._newest_ms = max(self._newest_ms, block.newest_ms)
        await self._commit(intent.last + 1, Committed(self._newest_ms).metadata())
        self._stored_at = time.monotonic()
        self._context.stats.add_block(self._at, block.records, {part.table: part.count for part in rows})

    async def _send_rejected(self, rejected: list[Rejected], lease: BlockLease) -> None:
        await lease.verify()
        await self._context.rejects.send(rejected)

    async def _commit(self, offset: int, metadata: str) -> None:
        await self._retry("commit", lambda: self._context.fence.commit(self._at, offset, metadata))

    async def _retry(self, operation: str, act: Callable[[], Awaitable[Answer]]) -> Answer:
        name = f"{operation} of {self._at.topic}/{self._at.partition}"

        def attempt(_: int) -> Awaitable[Answer]:
            self._attempts += 1
            return act()

        return await retry_forever(self._context.params, name, attempt)
