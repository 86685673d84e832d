"""An owner's side of its snapshot topic: find the last state, take an epoch, write snapshots, clear what is older.

Which record counts is decided in snapshots.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from streams.runtime.reliable_sender import ReliableSender
from streams.runtime.snapshots import SnapshotAssembler, fencing_chunk, next_sequence, split
from streams.runtime.standalone_consumer import records
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Snapshot, SnapshotChunk
from streams.wire.topics import Record, Topic

log = logging.getLogger(__name__)


class SnapshotTopic:
    """One partition of a stage's snapshot topic, as its present owner uses it."""

    def __init__(self, stage: str, topic: Topic, partition: int, sender: ReliableSender) -> None:
        self._stage = stage
        self._topic = topic
        self._partition = partition
        self._sender = sender
        self._sequence = 0
        self._last_of_kind = {True: 0, False: 0}
        """The sequence of the last verified snapshot of this epoch, and of the last other one."""
        self.assembler = SnapshotAssembler()
        self.unreadable = 0
        """Snapshots and records that the take-over passed over."""
        self._read_to = 0

    async def take_over(
        self, consumer: Any, highest_known_epoch: Callable[[], Awaitable[int]] | None = None
    ) -> tuple[int, list[Snapshot]]:
        """Return the new epoch of this owner, and the states to restore: the newest, then the newest verified one.

        `highest_known_epoch` is used where the topic has no record of an epoch: it was lost, or there was never one.
        The epoch is written when this returns; older ones stay in the topic until its first snapshot is written.
        Raises what aiokafka raises while the brokers are away, and Lost; then it may be called again.
        """
        self.assembler, self._sequence, self._read_to = SnapshotAssembler(), 0, 0
        self._last_of_kind = {True: 0, False: 0}
        async for record in records(consumer, self._topic.name, self._partition):
            self._read_to = record.offset + 1
            self._shelve(record)
        self.unreadable = self.assembler.unreadable
        if self.assembler.highest_epoch == 0 and highest_known_epoch is not None:
            self.assembler.highest_epoch = seed = await highest_known_epoch()
            if seed:
                log.error(
                    "snapshots are lost: topic=%s partition=%d; continuing after epoch %d without state",
                    self._topic.name,
                    self._partition,
                    seed,
                )
        while True:
            epoch = self.assembler.highest_epoch + 1
            if await self._claim(consumer, epoch):
                # The states may be megabytes: only the caller keeps them.
                states = [state for state in (self.assembler.best, self.assembler.fallback) if state is not None]
                self.assembler.best = self.assembler.fallback = None
                return epoch, states

    def _shelve(self, record: Any) -> SnapshotChunk | None:
        try:
            message = None if record.value is None else topics.decode(self._topic, record.value, record.headers)
        except Reject as error:
            # Only owners write here; what none of them wrote is not a snapshot.
            self.assembler.unreadable += 1
            log.warning(
                "passing over a record: topic=%s partition=%d offset=%d: %s",
                self._topic.name,
                self._partition,
                record.offset,
                error,
            )
            return None
        chunk = message if isinstance(message, SnapshotChunk) else None
        self.assembler.add((record.key or b"").decode(errors="replace"), chunk)
        return chunk

    async def write(self, snapshot: Snapshot, *, is_verified: bool = True) -> int:
        """Write a snapshot; return its bytes once it is acknowledged. An epoch's first ends all that are older."""
        is_first = self._sequence == 0
        self._sequence = next_sequence(self._sequence, self._last_of_kind[is_verified], is_verified=is_verified)
        self._last_of_kind[is_verified] = self._sequence
        records = await asyncio.to_thread(self._records, snapshot)
        await self._sender.send(records, [self._partition] * len(records))
        if is_first:
            await self._clear(snapshot.epoch)
        return sum(len(record.value or b"") for record in records)

    def _records(self, snapshot: Snapshot) -> list[Record]:
        chunks = split(self._stage, self._partition, self._sequence, snapshot)
        return [topics.encode(self._topic, chunk) for chunk in chunks]

    async def _claim(self, consumer: Any, epoch: int) -> bool:
        """Write that an epoch is taken; False where another owner took the same epoch at that moment.

        A worker that was paused between reading and writing wakes and writes an epoch that is long in use; an
        owner that finds another's record of its own epoch behind what it had read takes a higher one.
        """
        since = self._read_to
        own = await self._sender.send(
            [topics.encode(self._topic, fencing_chunk(self._stage, self._partition, epoch))], [self._partition]
        )
        alone = True
        async for record in records(consumer, self._topic.name, self._partition, since):
            self._read_to = record.offset + 1
            if record.offset in own:
                continue
            # One of our own that was sent twice looks the same; taking it for a stranger's costs nothing but a number.
            chunk = self._shelve(record)
            alone = alone and (chunk is None or chunk.epoch < epoch)
        return alone

    async def _clear(self, epoch: int) -> None:
        """Take the older epochs out of the topic."""
        tombstones = [topics.tombstone(self._topic, key) for key in self.assembler.keys_before(epoch)]
        await self._sender.send(tombstones, [self._partition] * len(tombstones))
        self.assembler = SnapshotAssembler()
