"""An owner's side of its snapshot topic: find the last state, take an epoch, write snapshots, clear what is older.

Which record counts is decided in snapshots.py.
"""

import asyncio
from typing import Any

from streams.runtime.reliable_sender import ReliableSender
from streams.runtime.snapshots import SnapshotAssembler, fencing_chunk, split
from streams.runtime.standalone_consumer import records
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Snapshot, SnapshotChunk
from streams.wire.topics import Record, Topic


class SnapshotTopic:
    """One partition of a stage's snapshot topic, as its present owner uses it."""

    def __init__(self, stage: str, topic: Topic, partition: int, sender: ReliableSender) -> None:
        self._stage = stage
        self._topic = topic
        self._partition = partition
        self._sender = sender
        self._sequence = 0
        self.assembler = SnapshotAssembler()
        self._read_to = 0

    async def take_over(self, consumer: Any) -> tuple[int, Snapshot | None]:
        """Return the new epoch of this owner and the last state, None where there is none.

        The epoch is written when this returns; older ones stay in the topic until its first snapshot is written.
        Raises what aiokafka raises while the brokers are away, and Lost; then it may be called again.
        """
        self.assembler, self._sequence, self._read_to = SnapshotAssembler(), 0, 0
        async for record in records(consumer, self._topic.name, self._partition):
            self._read_to = record.offset + 1
            self._shelve(record)
        while True:
            epoch = self.assembler.highest_epoch + 1
            if await self._claim(consumer, epoch):
                # The state may be megabytes: only the caller keeps it.
                state, self.assembler.best = self.assembler.best, None
                return epoch, state

    def _shelve(self, record: Any) -> SnapshotChunk | None:
        try:
            message = None if record.value is None else topics.decode(self._topic, record.value, record.headers)
        except Reject:
            return None  # Only owners write here; what none of them wrote is not a snapshot.
        chunk = message if isinstance(message, SnapshotChunk) else None
        self.assembler.add((record.key or b"").decode(errors="replace"), chunk)
        return chunk

    async def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot; return its bytes once it is acknowledged. An epoch's first ends all that are older."""
        self._sequence += 1
        records = await asyncio.to_thread(self._records, snapshot)
        await self._sender.send(records, [self._partition] * len(records))
        if self._sequence == 1:
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
