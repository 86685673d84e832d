"""The feed: whose records go where, what waits, and what a seek makes of it."""

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition

from streams.store.persist.partition_reader import MAX_QUEUED_BYTES, RECORD_OVERHEAD_BYTES, PartitionReader
from tests.fakes.partition import FakeConsumer, FakeLog, FakeRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AT = TopicPartition("t", 0)
VALUE = b"0" * 1000
MOST = MAX_QUEUED_BYTES // (RECORD_OVERHEAD_BYTES + len(VALUE)) + 1
"""So many records wait before the consumer is told to pause."""


def consumer(records: int, most: int = 100) -> Any:
    """A consumer of a log of so many records."""
    return FakeConsumer(AT, FakeLog([FakeRecord(offset, VALUE, 1000 + offset) for offset in range(records)]), most)


@asynccontextmanager
async def fed(feed: PartitionReader) -> "AsyncIterator[None]":
    """The feed at work."""
    running = asyncio.create_task(feed.run())
    try:
        yield
    finally:
        running.cancel()


@asynccontextmanager
async def paused() -> "AsyncIterator[tuple[PartitionReader, Any]]":
    """A feed, paused because nobody took of a backlog of three times what may wait; and its consumer."""
    source = consumer(MOST * 3, most=500)
    feed = PartitionReader(source, [AT], FakeConsumer.fetch)
    async with fed(feed):
        await asyncio.wait_for(source.paused.wait(), 5)
        yield feed, source


async def taken(feed: PartitionReader, records: int) -> list[int]:
    """The offsets of the next records."""
    found: list[int] = []
    while len(found) < records:
        found += [record.offset for record in await asyncio.wait_for(feed.take(AT), 5)]
    return found


async def test_every_record_comes_once_and_in_order() -> None:
    """However few of them an answer of the broker holds."""
    feed = PartitionReader(consumer(25, most=4), [AT], FakeConsumer.fetch)
    async with fed(feed):
        assert await taken(feed, 25) == list(range(25))


async def test_who_waits_for_nothing_is_told_so_in_time() -> None:
    """Where no record comes, the answer is none after the wait."""
    feed = PartitionReader(consumer(0), [AT], FakeConsumer.fetch)
    async with fed(feed):
        assert await asyncio.wait_for(feed.take(AT, 0.01), 5) == []


async def test_what_is_given_back_comes_again_first() -> None:
    """A block that is full leaves the rest to the next one; the position is that of the first of them."""
    feed = PartitionReader(consumer(10), [AT], FakeConsumer.fetch)
    async with fed(feed):
        records = await feed.take(AT)
        feed.unread(AT, records[4:])
        assert await feed.position(AT) == 4
        assert await taken(feed, 6) == list(range(4, 10))


async def test_after_a_seek_nothing_comes_from_before_it() -> None:
    """What was read ahead and waits is dropped."""
    feed = PartitionReader(consumer(10, most=3), [AT], FakeConsumer.fetch)
    async with fed(feed):
        await feed.take(AT)
        feed.seek(AT, 7)
        assert await taken(feed, 3) == [7, 8, 9]


async def test_a_partition_that_takes_nothing_is_paused_and_loses_nothing() -> None:
    """Its memory is bounded while ClickHouse is away; with the next take it goes on."""
    async with paused() as (feed, source):
        assert MOST <= await source.position(AT) <= MOST + 500
        assert await taken(feed, MOST * 3) == list(range(MOST * 3))


async def test_a_partition_that_was_paused_before_it_began_begins() -> None:
    """A backlog is read while a sink finds out where to begin; from there on it comes, and the pause is over."""
    async with paused() as (feed, _):
        feed.seek(AT, 0)
        assert await taken(feed, MOST * 3) == list(range(MOST * 3))
