"""An owner's side of its snapshot topic: find the last state, take an epoch, write snapshots, clear what is older.

Which record counts is decided in snapshots.py.
"""

from dataclasses import replace
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.runtime.outbox import Outbox
from streams.runtime.reading import read_whole
from streams.runtime.snapshots import SCHEMA, Shelf, cut
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Snapshot, SnapshotChunk
from streams.wire.topics import Topic

_NOTHING = Snapshot(SCHEMA, 0, {}, {}, 0, "", b"")


class SnapshotTopic:
    """One partition of a stage's snapshot topic, as its present owner uses it."""

    def __init__(self, stage: str, topic: Topic, partition: int, kafka: KafkaSettings, outbox: Outbox) -> None:
        self._stage = stage
        self._topic = topic
        self._partition = partition
        self._kafka = kafka
        self._outbox = outbox
        self._sequence = 0
        self.shelf = Shelf()
        self._read_to = 0

    async def take_over(self) -> tuple[int, Snapshot | None]:
        """The epoch that is ours from now on, and the last state, None where there is none.

        The epoch is written, with that state, when this returns; older epochs are out of the topic.
        Raises what aiokafka raises while the brokers are away, and Lost; then it may be called again.
        """
        self.shelf, self._sequence, self._read_to = Shelf(), 0, 0
        async for record in read_whole(self._kafka, self._topic.name, self._partition):
            self._read_to = record.offset + 1
            self._shelve(record)
        while True:
            epoch = self.shelf.highest_epoch + 1
            state = self.shelf.best
            if await self._claim(replace(state or _NOTHING, epoch=epoch)):
                await self._clear(epoch)
                return epoch, state

    def _shelve(self, record: Any) -> SnapshotChunk | None:
        try:
            message = None if record.value is None else topics.decode(self._topic, record.value, record.headers)
        except Reject:
            return None  # Nobody but owners writes here; what none of them wrote is not a snapshot.
        chunk = message if isinstance(message, SnapshotChunk) else None
        self.shelf.add((record.key or b"").decode(errors="replace"), chunk)
        return chunk

    async def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot; return its bytes once it is acknowledged."""
        size, _ = await self._write(snapshot)
        return size

    async def _write(self, snapshot: Snapshot) -> tuple[int, list[int]]:
        chunks = list(cut(self._stage, self._partition, self._sequence, snapshot))
        records = [topics.encode(self._topic, chunk) for chunk in chunks]
        offsets = await self._outbox.send(records, [self._partition] * len(records))
        self._sequence += 1
        return sum(len(chunk.data) for chunk in chunks), offsets

    async def _claim(self, snapshot: Snapshot) -> bool:
        """Write an epoch's first snapshot; False where another owner took the same epoch at that moment.

        A worker that was paused between reading and writing wakes and writes an epoch that is long in use; whoever
        finds a stranger's record of its own epoch behind what it had read takes a higher one.
        """
        since = self._read_to
        _, own = await self._write(snapshot)
        alone = True
        async for record in read_whole(self._kafka, self._topic.name, self._partition, since):
            self._read_to = record.offset + 1
            if record.offset in own:
                continue
            # One of our own that was sent twice looks the same; taking it for a stranger's costs nothing but a number.
            chunk = self._shelve(record)
            alone = alone and (chunk is None or chunk.epoch < snapshot.epoch)
        return alone

    async def _clear(self, epoch: int) -> None:
        """Take the older epochs out of the topic."""
        tombstones = [topics.tombstone(self._topic, key) for key in self.shelf.keys_before(epoch)]
        await self._outbox.send(tombstones, [self._partition] * len(tombstones))
