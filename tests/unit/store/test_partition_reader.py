"""Tests the partition reader: distribution of records, queues and their limit, and seeks."""

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
FULL = MAX_QUEUED_BYTES // (RECORD_OVERHEAD_BYTES + len(VALUE)) + 1
"""The number of queued records at which the consumer is paused."""


def consumer(records: int, max_records: int = 100) -> Any:
    """Return a consumer of a log with this number of records."""
    return FakeConsumer(
        AT, FakeLog([FakeRecord(offset, VALUE, 1000 + offset) for offset in range(records)]), max_records
    )


@asynccontextmanager
async def running(reader: PartitionReader) -> "AsyncIterator[None]":
    """Run the reader."""
    task = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def paused() -> "AsyncIterator[tuple[PartitionReader, Any]]":
    """Yield a reader that is paused by a backlog of three times the limit, and its consumer."""
    source = consumer(FULL * 3, max_records=500)
    reader = PartitionReader(source, [AT], FakeConsumer.fetch)
    async with running(reader):
        await asyncio.wait_for(source.paused.wait(), 5)
        yield reader, source


async def take_offsets(reader: PartitionReader, records: int) -> list[int]:
    """Return the offsets of the next records."""
    offsets: list[int] = []
    while len(offsets) < records:
        offsets += [record.offset for record in await asyncio.wait_for(reader.take(AT), 5)]
    return offsets


async def test_every_record_is_returned_once_and_in_order() -> None:
    """The order does not depend on the number of records in a response of the broker."""
    reader = PartitionReader(consumer(25, max_records=4), [AT], FakeConsumer.fetch)
    async with running(reader):
        assert await take_offsets(reader, 25) == list(range(25))


async def test_take_returns_nothing_after_the_timeout() -> None:
    """Without records, the result is empty after the timeout."""
    reader = PartitionReader(consumer(0), [AT], FakeConsumer.fetch)
    async with running(reader):
        assert await asyncio.wait_for(reader.take(AT, 0.01), 5) == []


async def test_unread_records_are_returned_first() -> None:
    """A full block leaves the remaining records to the next one; the position is that of the first of them."""
    reader = PartitionReader(consumer(10), [AT], FakeConsumer.fetch)
    async with running(reader):
        records = await reader.take(AT)
        reader.unread(AT, records[4:])
        assert await reader.position(AT) == 4
        assert await take_offsets(reader, 6) == list(range(4, 10))


class _SlowPosition(FakeConsumer):
    """Returns its position after records were fetched meanwhile, as the driver does while it looks one up."""

    async def position(self, at: TopicPartition) -> int:
        for _ in range(5):
            await asyncio.sleep(0.002)
        return self._position


async def test_the_position_is_before_records_that_arrive_while_it_is_queried() -> None:
    """Records that are queued meanwhile are not read yet, whatever the consumer's position."""
    log = FakeLog([FakeRecord(offset, VALUE, 1000 + offset) for offset in range(3)])
    reader = PartitionReader(_SlowPosition(AT, log, 100), [AT], FakeConsumer.fetch)
    async with running(reader):
        assert await reader.position(AT) == 0
        assert await take_offsets(reader, 3) == [0, 1, 2]
        assert await reader.position(AT) == 3


async def test_a_seek_drops_queued_records() -> None:
    """Records that were fetched ahead are dropped."""
    reader = PartitionReader(consumer(10, max_records=3), [AT], FakeConsumer.fetch)
    async with running(reader):
        await reader.take(AT)
        reader.seek(AT, 7)
        assert await take_offsets(reader, 3) == [7, 8, 9]


async def test_a_full_queue_pauses_the_partition_and_loses_nothing() -> None:
    """Memory is bounded while ClickHouse is unavailable; the next take resumes."""
    async with paused() as (reader, source):
        assert FULL <= await source.position(AT) <= FULL + 500
        assert await take_offsets(reader, FULL * 3) == list(range(FULL * 3))


async def test_a_seek_resumes_a_paused_partition() -> None:
    """A backlog is fetched while a sink finds its start offset; after the seek, records arrive and the pause ends."""
    async with paused() as (reader, _):
        reader.seek(AT, 0)
        assert await take_offsets(reader, FULL * 3) == list(range(FULL * 3))
