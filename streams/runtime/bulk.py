"""Reads the busy inputs of a stage in few large fetches, while another consumer delivers the other inputs at once.

Brokers answer the requests of a connection in order, so a fetch that waits for a batch would delay urgent messages. So
these topics have a separate consumer outside of the group: brokers answer its fetches after `bulk_s`, or earlier with
enough data, so that a backlog is read at full speed. Owners decide which partitions it reads, and from which offset;
the group decides the ownership.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from streams.config.kafka import KafkaSettings
from streams.runtime.ordered_input import Chunk, Chunker, InputSource
from streams.wire.batch_fetch import drain_fetched, wait_for_fetch
from streams.wire.standalone_consumer import AWAY, open_consumer

log = logging.getLogger(__name__)

_ENOUGH_BYTES = 4 << 20
"""A fetch with this much data is answered at once: more than the largest fabric sends in 0.5 s (5 MB/s, compressed).
All others wait for `bulk_s`: a fetch costs as much as about fifty of its messages, and ten times that with the
resulting turns of all owners and their Progress. A tenth of the largest fabric, fetched eighteen times a second, took
as much CPU as half of it."""
_PARTITION_BYTES = 1 << 20
"""Unpacking the records of one partition takes some milliseconds, during which the process does nothing else."""
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
        topics: frozenset[str],
        group: Group,
        take: Callable[[Chunk, int], Awaitable[None]],
    ) -> None:
        self._kafka = kafka
        self.topics = topics
        self._wait_ms = round(bulk_s * 1000)
        self._group = group
        self._take = take
        self._requested: dict[TopicPartition, int] = {}
        self._news = asyncio.Event()
        self._generation: int | None = None
        self._chunker = Chunker()
        self._ends: dict[tuple[str, int], int] = {}
        self._fetches = 0

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that were fetched before are still delivered."""
        self._requested[TopicPartition(topic, partition)] = offset
        self._news.set()

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the offset after the last record at the last fetch; None before the first fetch."""
        return self._ends.get((topic, partition))

    def fetches_of(self, topic: str) -> int:
        """See InputSource."""
        return self._fetches

    async def run(self) -> None:
        """Read until cancelled; after an outage of the brokers, continue at the last positions."""
        while True:
            sizes = {"max_partition_fetch_bytes": _PARTITION_BYTES, "fetch_min_bytes": _ENOUGH_BYTES}
            try:
                async with open_consumer(self._kafka.client_options() | sizes, self._wait_ms) as consumer:
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
        ends = {(tp.topic, tp.partition): consumer.highwater(tp) for tp in fetched}
        partition_of = attrgetter("partition")
        for _, inputs in groupby(sorted(fetched, key=partition_of), partition_of):
            # Delivers all inputs of a partition and then of the next one: an owner that knows the ends waits for its
            # own, and processes them as one batch, but events must not wait until other partitions are processed.
            own = list(inputs)
            self._ends |= {(tp.topic, tp.partition): ends[tp.topic, tp.partition] for tp in own}
            for tp in own:
                for chunk in self._chunker.chunks(tp.topic, tp.partition, fetched[tp], ends[tp.topic, tp.partition]):
                    await self._take(chunk, generation)
                    # The owner processes the chunk now, and urgent events are processed between the chunks.
                    await asyncio.sleep(0)
        self._fetches += 1

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


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class CombinedInput:
    """Combines the inputs of a stage for its owners: busy ones from BulkReader, the others from Faust's consumer."""

    def __init__(self, prompt: Callable[[], InputSource], bulk: BulkReader) -> None:
        self._prompt = prompt
        self._bulk = bulk

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """See Input."""
        (self._bulk if topic in self._bulk.topics else self._prompt()).read_from(topic, partition, offset)

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """See InputSource; the group has the offsets of both readers."""
        self._prompt().acknowledge(topic, partition, offset)

    def end_of(self, topic: str, partition: int) -> int | None:
        """See Input."""
        return (self._bulk if topic in self._bulk.topics else self._prompt()).end_of(topic, partition)

    def fetches_of(self, topic: str) -> int:
        """See InputSource."""
        return (self._bulk if topic in self._bulk.topics else self._prompt()).fetches_of(topic)
