"""Snapshots as chunks of their topic: which of all that were written to restore, and how an owner reads and writes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from streams.runtime.bindings import Binding
from streams.runtime.reliable_sender import ReliableSender
from streams.wire import codec, topics
from streams.wire.errors import Reject
from streams.wire.models import Episode, Finding, Progress, Remediation, Snapshot, SnapshotChunk
from streams.wire.standalone_consumer import records, start_and_end_offsets
from streams.wire.topics import PartitionScheme, Record, Topic

log = logging.getLogger(__name__)

SCHEMA = 1
SLOTS = 4
"""Snapshots of an epoch that have keys of their own: sequences 0 and 1 (mod 4) alternate, and 2 and 3, which were read
back before they were written. A snapshot that cannot be restored replaces none of the last two."""
MAX_INCOMPLETE = 16
"""Incomplete snapshots whose chunks are retained. The keys of an epoch have four, and older epochs are removed."""

CHUNK_BYTES = 500 * 1024
"""Below 512 KiB with its envelope: half of Kafka's default limit of a message."""


def split(stage: str, partition: int, sequence: int, snapshot: Snapshot) -> Iterator[SnapshotChunk]:
    """Return the chunks of a snapshot, the `sequence`-th of its epoch."""
    data = codec.to_bytes(snapshot)
    chunks = max(1, -(-len(data) // CHUNK_BYTES))
    for chunk in range(chunks):
        part = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        yield SnapshotChunk(stage, partition, snapshot.epoch, sequence, chunk, chunks, part)


def next_sequence(last: int, last_of_kind: int, *, is_verified: bool) -> int:
    """Return a sequence after `last`, with other keys than the last snapshot of this kind, verified or not; 0: none."""
    slot = last_of_kind % SLOTS if last_of_kind else SLOTS - 1
    slot = (slot + 1) % 2 + (SLOTS // 2 if is_verified else 0)
    return last + 1 + (slot - last - 1) % SLOTS


def is_verified(sequence: int) -> bool:
    """Return whether a snapshot of this sequence was read back before it was written."""
    return sequence % SLOTS >= SLOTS // 2


def fencing_chunk(stage: str, partition: int, epoch: int) -> SnapshotChunk:
    """Return the chunk that takes an epoch before its first output: a part of a set of sequence 0 that is never whole.

    Not the state that was taken over, which may be megabytes: it is there already, and restores as well.
    """
    return SnapshotChunk(stage, partition, epoch, 0, 0, 2, b"")


@dataclass(slots=True)
class SnapshotAssembler:
    """The contents of a partition's snapshot topic, as its records are read one by one."""

    highest_epoch: int = 0
    """Of any chunk that was ever read, of incomplete sets too: an epoch is taken by its first record."""
    best: Snapshot | None = None
    fallback: Snapshot | None = None
    """The newest snapshot that was verified, where `best` was not."""
    unreadable: int = 0
    """Complete snapshots that were passed over: not decodable, or of a newer schema."""
    _best_at: tuple[int, int] = (-1, -1)
    _parts: dict[tuple[int, int], dict[int, SnapshotChunk]] = field(default_factory=dict)
    _keys: dict[str, int] = field(default_factory=dict)

    def add(self, key: str, chunk: SnapshotChunk | None) -> None:
        """Take a record; None is a tombstone of its key."""
        if chunk is None:
            self._keys.pop(key, None)
            return
        self._keys[key] = chunk.epoch
        self.highest_epoch = max(self.highest_epoch, chunk.epoch)
        at = chunk.epoch, chunk.sequence
        if at <= self._best_at:
            return
        parts = self._parts.setdefault(at, {})
        parts[chunk.chunk] = chunk
        if len(self._parts) > MAX_INCOMPLETE:
            del self._parts[min(self._parts)]
        if len(parts) == chunk.chunks:
            self._complete(at, parts.values())

    def _complete(self, at: tuple[int, int], parts: Iterable[SnapshotChunk]) -> None:
        data = b"".join(part.data for part in sorted(parts, key=lambda part: part.chunk))
        # What is older can no longer be chosen; of measure it would be megabytes.
        self._parts = {other: chunks for other, chunks in self._parts.items() if other > at}
        try:
            snapshot = codec.from_bytes(Snapshot, data)
        except Reject as error:
            self._pass_over(at, str(error))
            return
        if snapshot.schema > SCHEMA:
            self._pass_over(at, f"its schema is {snapshot.schema}, this version reads {SCHEMA}; upgrade this process")
            return
        if is_verified(at[1]):
            self.fallback = None
        elif self.best is not None and is_verified(self._best_at[1]):
            self.fallback = self.best
        self.best, self._best_at = snapshot, at

    def _pass_over(self, at: tuple[int, int], reason: str) -> None:
        self.unreadable += 1
        log.error("passing over a snapshot: epoch=%d sequence=%d: %s", *at, reason)

    def keys_before(self, epoch: int) -> list[str]:
        """Return the keys of all older epochs, which the owner of `epoch` takes out of the topic."""
        return [key for key, owner in self._keys.items() if owner < epoch]


TAIL_RECORDS = 5000
"""Records that are read from the end of each topic of outputs. Progress, which is read whole, is retained an hour."""


async def highest_known_epoch(consumer: Any, binding: Binding, partition: int) -> int:
    """Return the highest epoch in the Progress and the revisions of a stage, for when its snapshots are lost; 0: none.

    An owner whose epoch is lower than that of an earlier one is taken for a replaced owner: readers ignore its
    Progress, so that time stands still, and its revisions, which contain the epoch.

    Revisions of other partitions of the stage count too: an epoch that is too high harms nothing.
    """
    highest = 0
    outputs = (*binding.progress_in_band, *binding.history, *((binding.covers,) if binding.covers else ()))
    revisions = (topic for topic in outputs if topic.scheme is PartitionScheme.SINGLE)
    for topic in (binding.progress_topic, *revisions):
        start = 0
        if topic is not binding.progress_topic:
            _, end = await start_and_end_offsets(consumer, [(topic.name, 0)])
            start = max(0, end[topic.name] - TAIL_RECORDS)
        async for record in records(consumer, topic.name, 0, start):
            try:
                message = topics.decode(topic, record.value, record.headers)
            except Reject:
                continue
            highest = max(highest, _epoch_of(message, binding.stage, partition))
    return highest


def _epoch_of(message: object, stage: str, partition: int) -> int:
    match message:
        case Progress(stage=sender, partition=own, epoch=epoch) if (sender, own) == (stage, partition):
            return epoch
        case Finding(revision=revision) | Episode(finding=Finding(revision=revision)) | Remediation(revision=revision):
            return revision >> 32
        case _:
            return 0


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
