"""What the consumer reads, handed to the partitions that wait for it: one question to the consumer for all of them.

Each partition asking for itself is woken by every answer of the broker, whosoever records it holds, and by its own
clock: 45 partitions at seven answers a second, of which most have nothing for it. What a partition does not take soon
waits here, up to a bound; then the consumer is told to pause it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.wire.fetched import Fetched, arrive, take

FETCH_TIMEOUT_S = 10.0
"""An answer ends the wait at once, so this is only how often the consumer may say what troubles it."""

MAX_QUEUED_BYTES = 4 << 20
"""Of one partition, waiting: two seconds of the largest fabric, in which a block is stored. 45 partitions while
ClickHouse is away, of which 8 have as much, hold 32 MiB besides their blocks."""

RECORD_OVERHEAD_BYTES = 500
"""What a record takes besides its value."""


Batches = Iterable[tuple[TopicPartition, Sequence[Fetched]]]


async def fetch(consumer: AIOKafkaConsumer) -> Batches:
    """What came for each partition, none after a while; raises what troubles the consumer or its group.

    Named to the consumer as `getmany` does: one that nobody asks for too long is taken for dead.
    """
    consumer._coordinator.check_errors()  # noqa: SLF001 — see streams.wire.fetched
    with consumer._subscription.fetch_context():  # noqa: SLF001
        await arrive(consumer, FETCH_TIMEOUT_S)
        return list(take(consumer))


@dataclass(slots=True)
class _Queue:
    """One partition's records that nobody has taken, and who waits for them."""

    records: list[Any] = field(default_factory=list)
    size: int = 0
    waiter: asyncio.Future[None] | None = None
    paused: bool = False

    def add(self, records: Sequence[Any], at: int) -> None:
        """Put records before the one at this place, or after the last."""
        self.records[at:at] = records
        self.size += sum(len(record.value or b"") for record in records) + RECORD_OVERHEAD_BYTES * len(records)

    def drain(self) -> list[Any]:
        """Give up all records."""
        records, self.records, self.size = self.records, [], 0
        return records

    def wake(self) -> None:
        """Let go whoever waits."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class PartitionReader:
    """Reads for these partitions, as long as `run` runs."""

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
        """Hand out what comes; ends by cancellation, or raises what the consumer raises."""
        while True:
            for at, records in await self._fetch(self._consumer):
                if (lane := self._queues.get(at)) is None:
                    continue
                lane.add(records, len(lane.records))
                lane.wake()
                if lane.size > MAX_QUEUED_BYTES and not lane.paused:
                    lane.paused = True
                    self._consumer.pause(at)
            # What has been fetched already comes without a wait: those that it woke have their turn in between.
            await asyncio.sleep(0)

    async def take(self, at: TopicPartition, within_s: float | None = None) -> Sequence[Any]:
        """The records of a partition that have come, in order; waits for some, and answers none where none came."""
        lane = self._queues[at]
        if not lane.records:
            await self._wait(lane, within_s)
        records = lane.drain()
        self._resume(at, lane)
        return records

    def unread(self, at: TopicPartition, records: Sequence[Any]) -> None:
        """Return the last of what was taken: they are the next again."""
        self._queues[at].add(records, 0)

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Go on from an offset; what waits here was read from elsewhere."""
        self._queues[at].drain()
        self._consumer.seek(at, offset)
        self._resume(at, self._queues[at])

    async def position(self, at: TopicPartition) -> int:
        """The offset that the next record has, or follows."""
        records = self._queues[at].records
        return int(records[0].offset if records else await self._consumer.position(at))

    def _resume(self, at: TopicPartition, lane: _Queue) -> None:
        if lane.paused:
            lane.paused = False
            self._consumer.resume(at)

    async def _wait(self, lane: _Queue, within_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        lane.waiter = loop.create_future()
        clock = None if within_s is None else loop.call_later(within_s, lane.wake)
        try:
            await lane.waiter
        finally:
            lane.waiter = None
            if clock is not None:
                clock.cancel()
