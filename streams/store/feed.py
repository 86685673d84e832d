"""What the consumer reads, handed to the partitions that wait for it: one question to the consumer for all of them.

Each partition asking for itself is woken by every answer of the broker, whosoever records it holds, and by its own
clock: 45 partitions at seven answers a second, of which most have nothing for it. What a partition does not take soon
waits here, up to a bound; then the consumer is told to pause it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

ASK_MS = 10_000
"""An answer ends the wait at once, so this is only how often the consumer may say what troubles it."""

MOST_AT_ONCE = 500
"""Of records unpacked before others have their turn: 15 ms."""

MOST_WAITING = 2000
"""Of one partition: about what a fetch of it brings at the largest fabric while a block is stored."""


@dataclass(slots=True)
class _Lane:
    """One partition's records that nobody has taken, and who waits for them."""

    records: list[Any] = field(default_factory=list)
    waiter: asyncio.Future[None] | None = None
    paused: bool = False

    def wake(self) -> None:
        """Let go whoever waits."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class Feed:
    """Reads for these partitions, as long as `run` runs."""

    def __init__(self, consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
        self._consumer = consumer
        self._lanes = {at: _Lane() for at in partitions}

    async def run(self) -> None:
        """Hand out what comes; ends by cancellation, or raises what the consumer raises."""
        while True:
            got = await self._consumer.getmany(timeout_ms=ASK_MS, max_records=MOST_AT_ONCE)
            for at, records in got.items():
                if (lane := self._lanes.get(at)) is None:
                    continue
                lane.records += records
                lane.wake()
                if len(lane.records) > MOST_WAITING and not lane.paused:
                    lane.paused = True
                    self._consumer.pause(at)

    async def take(self, at: TopicPartition, within_s: float | None = None) -> Sequence[Any]:
        """The records of a partition that have come, in order; waits for some, and answers none where none came."""
        lane = self._lanes[at]
        if not lane.records:
            await self._wait(lane, within_s)
        records, lane.records = lane.records, []
        if lane.paused:
            lane.paused = False
            self._consumer.resume(at)
        return records

    def back(self, at: TopicPartition, records: Sequence[Any]) -> None:
        """Return the last of what was taken: they are the next again."""
        if records:
            self._lanes[at].records[:0] = records

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Go on from an offset; what waits here was read from elsewhere."""
        self._lanes[at].records.clear()
        self._consumer.seek(at, offset)

    async def position(self, at: TopicPartition) -> int:
        """The offset that the next record has, or follows."""
        records = self._lanes[at].records
        return int(records[0].offset if records else await self._consumer.position(at))

    async def _wait(self, lane: _Lane, within_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        lane.waiter = loop.create_future()
        clock = None if within_s is None else loop.call_later(within_s, lane.wake)
        try:
            await lane.waiter
        finally:
            lane.waiter = None
            if clock is not None:
                clock.cancel()
