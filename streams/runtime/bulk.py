"""Reads the busy inputs of a stage in few large fetches, while another consumer delivers the other inputs at once.

Brokers answer the requests of a connection in order, so a fetch that waits for a batch would delay urgent messages. So
these topics have a separate consumer outside of the group: brokers answer its fetches after `bulk_s`, or earlier with
enough data, so that a backlog is read at full speed. Owners decide which partitions it reads, and from which offset;
the group decides the ownership.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from streams.config.kafka import KafkaSettings
from streams.runtime.ordered_input import Chunk, Chunker, InputSource
from streams.wire.batch_fetch import drain_fetched, wait_for_fetch
from streams.wire.standalone_consumer import AWAY, open_consumer

FULL_PER_S = 100.0
"""From this rate of messages per second on, a fetch waits for the longest time; below, in proportion to the rate."""
_WORTH_MESSAGES = 2.0
"""The fewest expected messages for which a fetch waits, because brokers also answer empty fetches after their time. At
four messages a second, a fetch of 20 ms was requested 28 times a second."""
_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class FetchPacer:
    """Decides from the last second's rate how long a fetch of a busy topic may wait for data.

    A fetch costs as much as about fifty of its messages, and ten times that with the resulting turns of all owners and
    their Progress: a tenth of the largest fabric, fetched eighteen times a second, took as much CPU as half of it. So a
    topic is fetched twice a second, in batches that a stage processes at once. If a batch would have fewer than two
    messages, each message is fetched at once.
    """

    most_s: float
    wait_s: float = 0.0
    """The longest wait of the next fetch; 0: it is answered with the first message."""
    _since_s: float = 0.0
    _count: int = 0

    def on_fetch(self, messages: int, now_s: float) -> None:
        """Count the messages of a fetch that ended now."""
        self._count += messages
        lasted_s = now_s - self._since_s
        if lasted_s < _LOOK_EVERY_S:
            return
        rate = self._count / lasted_s
        wait_s = self.most_s * min(1.0, rate / FULL_PER_S)
        self.wait_s = wait_s if wait_s * rate >= _WORTH_MESSAGES else 0.0
        self._since_s, self._count = now_s, 0


log = logging.getLogger(__name__)

_ENOUGH_BYTES = 4 << 20
"""A fetch with this much data is answered at once: more than the largest fabric sends in 0.5 s (5 MB/s, compressed)."""
_PARTITION_BYTES = 4 << 20
_QUIET_WAIT_S = 0.5
_AGAIN_S = 0.5


class Group(NamedTuple):
    """The part of the consumer group's state that decides whether a chunk has an owner in this process."""

    generation: Callable[[], int | None]
    assigned: Callable[[], Iterable[tuple[str, int]]]


class BulkReader:
    """Reads one stage's busy inputs in this process."""

    def __init__(
        self,
        kafka: KafkaSettings,
        bulk_s: float,
        group: Group,
        take: Callable[[Chunk, int], Awaitable[None]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kafka = kafka
        self._pace = FetchPacer(bulk_s)
        self._group = group
        self._take = take
        self._now_s = now_s
        self._requested: dict[TopicPartition, int] = {}
        self._news = asyncio.Event()
        self._generation: int | None = None
        self._chunker = Chunker()
        self._ends: dict[tuple[str, int], int] = {}

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that were fetched before are still delivered."""
        self._requested[TopicPartition(topic, partition)] = offset
        self._news.set()

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the offset after the last record at the last fetch; None before the first fetch."""
        return self._ends.get((topic, partition))

    async def run(self) -> None:
        """Read until cancelled; after an outage of the brokers, continue at the last positions."""
        while True:
            options = self._kafka.client_options() | {"max_partition_fetch_bytes": _PARTITION_BYTES}
            try:
                async with open_consumer(options, wait_ms=int(_QUIET_WAIT_S * 1000)) as consumer:
                    while True:
                        await self._step(consumer)
            except AWAY as error:
                log.warning("bulk reader: %s", error or type(error).__name__)
                self._requested = {
                    TopicPartition(*tp): at for tp, at in self._chunker.positions.items()
                } | self._requested
                self._news.set()
                await asyncio.sleep(_AGAIN_S)

    async def _step(self, consumer: Any) -> None:
        """Fetch once and deliver the records."""
        generation = self._group.generation()
        if generation != self._generation:
            # Drops fetched records: the new owner of a partition decides from which offset it is read.
            self._generation = generation
            self._chunker.positions.clear()
            self._ends.clear()
            consumer.unsubscribe()
        self._seek(consumer)
        if generation is None or not consumer.assignment():
            self._news.clear()
            await _within(self._news, _QUIET_WAIT_S)
            return
        await wait_for_fetch(consumer, _QUIET_WAIT_S)
        fetched = {}
        for tp, records in drain_fetched(consumer):
            fetched[tp] = records
            await asyncio.sleep(0)
        if self._group.generation() != generation:
            return
        ends = {tp: consumer.highwater(tp) for tp in fetched}
        self._pace.on_fetch(sum(map(len, fetched.values())), self._now_s())
        self._gather(consumer)
        for tp, records in fetched.items():
            # Sets the ends one by one, or events of the last partition would wait until the others were processed.
            self._ends[tp.topic, tp.partition] = ends[tp]
            for chunk in self._chunker.chunks(tp.topic, tp.partition, records, ends[tp]):
                await self._take(chunk, generation)
                # The owner processes the chunk now, and urgent events are processed between the chunks.
                await asyncio.sleep(0)

    def _seek(self, consumer: Any) -> None:
        if not self._requested:
            return
        requested, self._requested = self._requested, {}
        assigned = set(self._group.assigned())
        wanted = {tp: offset for tp, offset in requested.items() if tp in assigned}
        self._chunker.positions |= wanted
        # A new assignment loses the positions of the old one.
        fresh = set(self._chunker.positions) != consumer.assignment()
        if fresh:
            consumer.assign([TopicPartition(*tp) for tp in self._chunker.positions])
        for tp, offset in (self._chunker.positions if fresh else wanted).items():
            consumer.seek(TopicPartition(*tp), offset)

    def _gather(self, consumer: Any) -> None:
        """Set the longest wait and the sufficient size of the next fetch."""
        fetcher = consumer._fetcher  # noqa: SLF001 — there is no public way to change it from fetch to fetch
        wait_s = self._pace.wait_s
        fetcher._fetch_min_bytes = _ENOUGH_BYTES if wait_s else 1  # noqa: SLF001 — as above
        fetcher._fetch_max_wait_ms = int((wait_s or _QUIET_WAIT_S) * 1000)  # noqa: SLF001 — as above


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class CombinedInput:
    """Combines the inputs of a stage for its owners: busy ones from BulkReader, the others from Faust's consumer."""

    def __init__(self, prompt: Callable[[], InputSource], bulk: BulkReader, topics: frozenset[str]) -> None:
        self._prompt = prompt
        self._bulk = bulk
        self._topics = topics

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """See Input."""
        (self._bulk if topic in self._topics else self._prompt()).read_from(topic, partition, offset)

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """See InputSource; the group has the offsets of both readers."""
        self._prompt().acknowledge(topic, partition, offset)

    def end_of(self, topic: str, partition: int) -> int | None:
        """See Input."""
        return (self._bulk if topic in self._topics else self._prompt()).end_of(topic, partition)
