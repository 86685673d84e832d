"""One partition's way into ClickHouse: collect a block, say its bounds, store it, say that it is stored.

What is committed to Kafka decides everything after a restart (bounds.py); every commit is fenced (fence.py), so
that a sink which lost the partition can begin no block. It may still be storing the last one it began: the next owner
stores that with the same bounds and token, and ClickHouse keeps one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.store.bounds import Bounds, Done, read
from streams.store.build import Builder, Taken
from streams.store.claim import Claim
from streams.store.counts import Counts
from streams.store.fence import Fence
from streams.store.offsets import Offsets
from streams.store.params import SinkParams
from streams.store.patience import until_done
from streams.store.registry import Asks, Persisted, Stretch
from streams.store.rejects import STAGE, VALUE_BYTES, Rejects
from streams.store.writer import Writer
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Rejected

Answer = TypeVar("Answer")

IDLE_MS = 1000
MOST_RECORDS = 500
"""Taken at once: 64,000 rows at 128 a message, about what may exceed `block_rows`."""

_HIGHEST = "SELECT max(kafka_offset), count() FROM `{table}` WHERE kafka_partition = {{p:UInt16}}"

_log = structlog.get_logger("railsight.persist")


@dataclass(frozen=True, slots=True)
class Means:
    """What every partition of a sink shares."""

    consumer: AIOKafkaConsumer
    fence: Fence
    asks: Asks
    writer: Writer
    rejects: Rejects
    params: SinkParams
    counts: Counts
    now_ns: Callable[[], int]


@dataclass(slots=True)
class Block:
    """Records that were taken and not stored yet; `first` is where it begins, also where records are missing."""

    first: int
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


class Partition:
    """Follows one partition of one topic, from its assignment until it is taken away."""

    def __init__(self, at: TopicPartition, persisted: Persisted, means: Means) -> None:
        self._at = at
        self._persisted = persisted
        self._means = means
        self._position = 0
        self._newest_ms = 0
        self._builder: Builder
        self._offsets = Offsets(means.consumer, at, means.params)

    async def run(self) -> None:
        """Store block after block; ends by cancellation, or by Lost."""
        left = await self._begin()
        if left is not None:
            await self._store_again(left)
        while True:
            block = await self._collect()
            bounds = Bounds(self._at.topic, self._at.partition, block.first, block.last, block.stamp_ms)
            if block.rows or block.rejected:
                await self._commit(bounds.first, bounds.intent())
            await self._store(bounds, block, doubtful=False)

    async def _begin(self) -> Bounds | None:
        """Find where to begin, and remember what is stored before; answers the block that may be stored in part."""
        found = await self._patiently("committed offset", lambda: self._means.fence.committed([self._at]))
        left: Bounds | Done = Done(0)
        if self._at in found:
            self._position = found[self._at].offset
            left = read(self._at.topic, self._at.partition, self._position, found[self._at].metadata)
        else:
            self._position = await self._stored_to()
        if isinstance(left, Done):
            self._newest_ms = left.newest_ms
        now_ms = self._means.now_ns() // 1_000_000
        window_ms = int(self._means.params.resend_window_s * 1000)
        stretch = Stretch(self._at.partition, self._position, window_ms, now_ms)
        start = partial(self._persisted.start, self._means.asks, stretch)
        self._builder = await self._patiently("identities", partial(asyncio.to_thread, start))
        if self._persisted.whole:
            await self._show_beginning()
        self._means.consumer.seek(self._at, self._position)
        _log.debug("partition taken", topic=self._at.topic, partition=self._at.partition, offset=self._position)
        return left if isinstance(left, Bounds) else None

    async def _stored_to(self) -> int:
        """Where a group without an offset begins: after what the tables hold, which it or another group stored."""
        highest = -1
        for table in self._persisted.tables:
            ask = partial(self._means.asks.query, _HIGHEST.format(table=table), {"p": self._at.partition})
            rows = await self._patiently("offsets in ClickHouse", partial(asyncio.to_thread, ask))
            if rows[0][1]:
                highest = max(highest, int(rows[0][0]))
        if highest + 1 > await self._offsets.end():
            _log.warning("the topic was made anew: its rows begin again", topic=self._at.topic)
            return await self._offsets.beginning()
        return max(await self._offsets.beginning(), highest + 1)

    async def _show_beginning(self) -> None:
        """Give the builder all records before the position, and throw their rows away."""
        consumer = self._means.consumer
        consumer.seek(self._at, await self._offsets.beginning())
        while await consumer.position(self._at) < self._position:
            got = await consumer.getmany(self._at, timeout_ms=IDLE_MS, max_records=MOST_RECORDS)
            before = [record for record in got.get(self._at, ()) if record.offset < self._position]
            block = Block(self._position)
            for record in before:
                self._take(block, record)
            self._builder.finish()
            if not before and await self._offsets.read_out():
                break

    async def _store_again(self, left: Bounds) -> None:
        """Take exactly the records of a block that was begun, and store it with its old token."""
        _log.info("a block that was begun is stored again", token=left.token)
        consumer = self._means.consumer
        block = Block(left.first)
        while True:
            got = await consumer.getmany(self._at, timeout_ms=IDLE_MS, max_records=MOST_RECORDS)
            records = got.get(self._at, ())
            for record in records:
                if record.offset <= left.last:
                    self._take(block, record)
            past = any(record.offset > left.last for record in records)
            if (
                past
                or await consumer.position(self._at) > left.last
                or (not records and await self._offsets.read_out())
            ):
                break
        consumer.seek(self._at, left.last + 1)
        said = await self._patiently("rejected records", lambda: self._said(block, left))
        block.rejected = [rejected for rejected in block.rejected if rejected.offset not in said]
        self._position = left.last + 1
        block.last = left.last
        await self._store(left, block, doubtful=True)

    async def _said(self, block: Block, left: Bounds) -> set[int]:
        return await self._means.rejects.said(left) if block.rejected else set()

    async def _collect(self) -> Block:
        """Take records until there are enough, or the first has waited as long as it may."""
        params = self._means.params
        block = Block(self._position)
        first_at = 0.0
        while True:
            left_s = first_at + self._linger_s(block) - time.monotonic()
            wait_ms = IDLE_MS if block.empty else max(1, int(left_s * 1000))
            got = await self._means.consumer.getmany(self._at, timeout_ms=wait_ms, max_records=MOST_RECORDS)
            records: Sequence[Any] = got.get(self._at, ())
            if records and not await self._in_order(records[0]):
                return await self._collect()
            if records and block.empty:
                first_at = time.monotonic()
            for record in records:
                self._take(block, record)
            if block.empty:
                continue
            full = block.rows >= params.block_rows or block.size >= params.block_bytes
            late = time.monotonic() >= first_at + self._linger_s(block)
            if full or late or block.records >= params.block_rows:
                self._position = block.last + 1
                return block

    def _linger_s(self, block: Block) -> float:
        """How long a block's first record may wait: longer where rows come in numbers, for small blocks cost more."""
        params = self._means.params
        grows = self._persisted.bulk and block.rows >= params.bulk_rows
        return max(params.linger_s, params.linger_most_s) if grows else params.linger_s

    async def _in_order(self, record: Any) -> bool:
        """Whether a record follows what was stored; after a rewind of the topic, find the first that is new."""
        if record.offset >= self._position:
            return True
        self._position = await self._offsets.newer_than(self._newest_ms)
        _log.warning("the topic was rewound", topic=self._at.topic, partition=self._at.partition, to=self._position)
        self._means.counts.rewinds += 1
        self._means.consumer.seek(self._at, self._position)
        return False

    def _take(self, block: Block, record: Any) -> None:
        """One record into the block: rows, a rejection, or nothing."""
        if block.records == 0:
            block.stamp_ms = record.timestamp
        block.last = record.offset
        block.newest_ms = max(block.newest_ms, record.timestamp)
        block.records += 1
        if record.value is None:
            return
        block.size += len(record.value)
        try:
            message = topics.decode(self._persisted.topic, record.value, record.headers)
            if isinstance(message, self._persisted.model):
                block.rows += self._builder.add(Taken(self._at.partition, record.offset, record.timestamp, message))
        except Reject as error:
            self._reject(block, record, str(error))

    def _reject(self, block: Block, record: Any, reason: str) -> None:
        self._means.counts.rejected += 1
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
                record.value[:VALUE_BYTES],
            )
        )

    async def _store(self, bounds: Bounds, block: Block, *, doubtful: bool) -> None:
        claim = Claim(partial(self._means.fence.commit, self._at, bounds.first, bounds.intent()))
        rows = await asyncio.to_thread(self._builder.finish)
        if block.rejected:
            await self._patiently("rejected records", lambda: self._say(block.rejected, claim))
        await self._means.writer.store(bounds, rows, claim, doubtful=doubtful)
        self._newest_ms = max(self._newest_ms, block.newest_ms)
        await self._commit(bounds.last + 1, Done(self._newest_ms).metadata())
        self._means.counts.stored(self._at.topic, block.records, {part.table: part.count for part in rows})

    async def _say(self, rejected: list[Rejected], claim: Claim) -> None:
        await claim.hold()
        await self._means.rejects.send(rejected)

    async def _commit(self, offset: int, metadata: str) -> None:
        await self._patiently("commit", lambda: self._means.fence.commit(self._at, offset, metadata))

    async def _patiently(self, what: str, act: Callable[[], Awaitable[Answer]]) -> Answer:
        name = f"{what} of {self._at.topic}/{self._at.partition}"
        return await until_done(self._means.params, name, lambda _: act())
