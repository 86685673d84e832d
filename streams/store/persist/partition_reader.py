"""Distributes the consumer's records to the partitions that wait for them, with one fetch for all.

If each partition fetched separately, every response of the broker and every timeout would wake all of them: 45
partitions at seven responses a second, most of which have no record for a partition. Records that wait for a partition
are queued up to a limit; then the consumer pauses the partition.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.wire.batch_fetch import FetchedRecord, drain_fetched, wait_for_fetch

FETCH_TIMEOUT_S = 10.0
"""The interval of checks for the consumer's errors; a response ends the wait at once."""

MAX_QUEUED_BYTES = 4 << 20
"""Limit of one partition's queue: two seconds of the largest fabric, the time to store a block. While ClickHouse is
unavailable, 8 of the 45 partitions reach it: 32 MiB besides their blocks."""

RECORD_OVERHEAD_BYTES = 500
"""Memory of a record besides its value."""


Batches = Iterable[tuple[TopicPartition, Sequence[FetchedRecord]]]


async def fetch(consumer: AIOKafkaConsumer) -> Batches:
    """Return the fetched records of each partition (empty after a timeout); raises errors of the consumer or its group.

    Registers as a poll, like `getmany`: the group evicts a member that does not poll for too long.
    """
    consumer._coordinator.check_errors()  # noqa: SLF001 — see streams.wire.batch_fetch
    with consumer._subscription.fetch_context():  # noqa: SLF001
        await wait_for_fetch(consumer, FETCH_TIMEOUT_S)
        return list(drain_fetched(consumer))


@dataclass(slots=True)
class _Queue:
    """One partition's queued records, and the task that waits for them."""

    records: list[Any] = field(default_factory=list)
    size: int = 0
    waiter: asyncio.Future[None] | None = None
    paused: bool = False

    def add(self, records: Sequence[Any], index: int) -> None:
        """Insert records at an index; at the length, append them."""
        self.records[index:index] = records
        self.size += sum(len(record.value or b"") for record in records) + RECORD_OVERHEAD_BYTES * len(records)

    def drain(self) -> list[Any]:
        """Remove and return all records."""
        records, self.records, self.size = self.records, [], 0
        return records

    def wake(self) -> None:
        """Wake the waiting task."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class PartitionReader:
    """Fetches for these partitions while `run` runs."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        partitions: Iterable[TopicPartition],
        fetch: Callable[[Any], Awaitable[Batches]] = fetch,
    ) -> None:
        self._consumer = consumer
        self._fetch = fetch
        self._queues = {at: _Queue() for at in partitions}

    async def run(self) -> None:
        """Queue fetched records until cancelled; raises the consumer's errors."""
        while True:
            for at, records in await self._fetch(self._consumer):
                if (queue := self._queues.get(at)) is None:
                    continue
                queue.add(records, len(queue.records))
                queue.wake()
                if queue.size > MAX_QUEUED_BYTES and not queue.paused:
                    queue.paused = True
                    self._consumer.pause(at)
            # A fetch may return without waiting; this lets the tasks run that were woken.
            await asyncio.sleep(0)

    async def take(self, at: TopicPartition, timeout_s: float | None = None) -> Sequence[Any]:
        """Return a partition's queued records in order; wait for records, and return none after the timeout."""
        queue = self._queues[at]
        if not queue.records:
            await self._wait(queue, timeout_s)
        records = queue.drain()
        self._resume(at, queue)
        return records

    def unread(self, at: TopicPartition, records: Sequence[Any]) -> None:
        """Return the last of the taken records to the front of the queue."""
        self._queues[at].add(records, 0)

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Continue at an offset; queued records are dropped, because they were read elsewhere."""
        self._queues[at].drain()
        self._consumer.seek(at, offset)
        self._resume(at, self._queues[at])

    async def position(self, at: TopicPartition) -> int:
        """Return the offset of the next record, or an earlier one if compaction removed records."""
        position = await self._consumer.position(at)
        # Read after the position: records that arrive meanwhile are queued, and the position is after them.
        records = self._queues[at].records
        return int(records[0].offset if records else position)

    def _resume(self, at: TopicPartition, queue: _Queue) -> None:
        if queue.paused:
            queue.paused = False
            self._consumer.resume(at)

    async def _wait(self, queue: _Queue, timeout_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        queue.waiter = loop.create_future()
        timer = None if timeout_s is None else loop.call_later(timeout_s, queue.wake)
        try:
            await queue.waiter
        finally:
            queue.waiter = None
            if timer is not None:
                timer.cancel()
