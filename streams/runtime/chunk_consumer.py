"""How records reach a stage: one Faust event a chunk of one partition, instead of one a record.

Faust's own delivery makes several tasks a record and takes 60 to 90 µs for each; a chunk of a thousand costs as much
as one record does there. This relies on names of faust-streaming 0.15.3 and aiokafka 0.14.0 that are not public;
tests/contract/runtime/test_private_names.py holds them.

Seeking and fetching are done by one task in turn, so that what a fetch brought always follows the seek before it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from streams.runtime.chunk import Chunk

CHUNK_RECORDS = 1000
"""Bounds how long one chunk keeps a stage from the rest; larger ones were not faster."""
FETCH_WAIT_S = 0.2
"""How long a fetch may wait for records, and so a seek for the fetch."""


class ChunkConsumer(driver.Consumer):
    """Delivers chunks, seeks where a stage's owner asks, commits what owners say is covered by a snapshot."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._positions: dict[TP, int] = {}
        self._seeks: dict[TP, int] = {}
        self._covered: dict[TP, int] = {}
        super().__init__(*args, **kwargs)

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that are already under way still come."""
        self._seeks[TP(topic, partition)] = offset

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """All before this offset is covered: commit it with the next commit."""
        self._covered[TP(topic, partition)] = offset

    def end_of(self, topic: str, partition: int) -> int | None:
        """The offset behind the last record, as of the last fetch; None before the first."""
        tp = TP(topic, partition)
        return self.highwater(tp) if tp in self.assignment() else None

    # What Faust calls to learn what to commit: it would gather an offset a message; here one number a partition is it.
    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return iter([tp for tp in self._covered if topics is None or tp in topics or tp.topic in topics])

    def _new_offset(self, tp: TP) -> int | None:
        return self._covered.get(tp)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Forget all: whoever owns a partition next starts from its snapshot."""
        for kept in (self._positions, self._seeks, self._covered):
            kept.clear()
        await super().on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Go to what was committed; where that is, the next fetch tells."""
        self._positions.clear()
        await super().perform_seek()

    async def _drain_messages(self, fetcher: Any) -> None:
        """Faust's delivery loop without its filter by offset: owners know what they have read."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                await asyncio.sleep(0)
                async for _, message in self.getmany(timeout=FETCH_WAIT_S):
                    await self.wait_first(self.callback(message), self.suspend_flow.wait())
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.transport.app.should_stop:
                raise

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Fetch once and hand on what came, in chunks."""
        generation = self.app.consumer_generation_id
        if not self.flow_active:
            await self.wait(self.can_resume_flow.wait())
        # Not before: as a rebalance ends, Faust seeks to what was committed.
        await self._seek_where_asked()
        fetched, active = await self._wait_next_records(timeout)
        if fetched is None or self.should_stop:
            return
        if not self.flow_active:
            # A rebalance is under way; every owner that begins after it asks to read from its own position.
            self._positions.clear()
            return
        for key, records in fetched.items():
            tp = TP(*key)
            if not records or not (active is None or tp in active or tp in self._buffered_partitions):
                continue
            for i in range(0, len(records), CHUNK_RECORDS):
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    self._positions.clear()
                    return
                yield tp, self._chunk(tp, records[i : i + CHUNK_RECORDS], generation)

    async def _seek_where_asked(self) -> None:
        seeks, self._seeks = self._seeks, {}
        assigned = self.assignment()
        wanted = {tp: offset for tp, offset in seeks.items() if tp in assigned}
        if wanted:
            await self.seek_wait(wanted)
            self._positions.update(wanted)

    def _chunk(self, tp: TP, records: list[Any], generation: int) -> ConsumerMessage:
        first, last = records[0].offset, records[-1].offset
        start = min(first, self._positions.get(tp, first))
        self._positions[tp] = last + 1
        chunk = Chunk(tp.topic, tp.partition, start, last + 1, records, self.highwater(tp) or last + 1)
        value = cast(Any, chunk)  # Faust says bytes; ChunkSchema is all that looks at it
        return ConsumerMessage(
            tp.topic, tp.partition, last, 0.0, 0, None, None, value, None, 0, 0, tp, generation_id=generation
        )


class ChunkSchema(faust.Schema[Any, Any]):
    """Reads nothing: the value of an event is its chunk."""

    def loads_key(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> None:
        """There is no key of a chunk."""

    def loads_value(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> Chunk:
        """The chunk, as the consumer made it."""
        return cast(Chunk, message.value)


class _Transport(driver.Transport):
    Consumer = ChunkConsumer


class ChunkApp(faust.App):
    """An app whose agents are handed chunks."""

    def _new_transport(self) -> Any:
        return _Transport(self.conf.broker_consumer, self)
