"""Reads and writes snapshots as chunks of their topic, and selects the snapshot to restore."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.runtime.bindings import Binding
from streams.runtime.reliable_sender import ReliableSender
from streams.runtime.transactions import TransactionalSender
from streams.wire import codec, topics
from streams.wire.errors import Reject
from streams.wire.models import Episode, Finding, Progress, Remediation, Snapshot, SnapshotChunk
from streams.wire.standalone_consumer import records, start_and_end_offsets
from streams.wire.topics import PartitionScheme, Record, Topic

log = logging.getLogger(__name__)

SCHEMA = 1
SLOTS = 4
"""Snapshots of an epoch with separate keys: unverified ones alternate between sequences 0 and 1 (mod 4), verified ones
between 2 and 3. So a snapshot that cannot be restored does not replace the last two verified ones."""
MAX_INCOMPLETE = 16
"""The limit of retained incomplete snapshots; an epoch's keys have four, and older epochs are removed."""

CHUNK_BYTES = 500 * 1024
"""The size of a chunk: with its envelope below 512 KiB, half of Kafka's default limit of a message."""


def split(stage: str, partition: int, sequence: int, snapshot: Snapshot) -> Iterator[SnapshotChunk]:
    """Yield the chunks of a snapshot with the number `sequence` in its epoch."""
    data = codec.to_bytes(snapshot)
    chunks = max(1, -(-len(data) // CHUNK_BYTES))
    for chunk in range(chunks):
        part = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        yield SnapshotChunk(stage, partition, snapshot.epoch, sequence, chunk, chunks, part)


def next_sequence(last: int, last_of_kind: int, *, is_verified: bool) -> int:
    """Return a sequence after `last` with other keys than the last snapshot of its kind (verified or not; 0: none)."""
    slot = last_of_kind % SLOTS if last_of_kind else SLOTS - 1
    slot = (slot + 1) % 2 + (SLOTS // 2 if is_verified else 0)
    return last + 1 + (slot - last - 1) % SLOTS


def is_verified(sequence: int) -> bool:
    """Return whether a snapshot of this sequence was verified before it was written."""
    return sequence % SLOTS >= SLOTS // 2


def fencing_chunk(stage: str, partition: int, epoch: int) -> SnapshotChunk:
    """Return the chunk that claims an epoch before its first output: a part of a never complete set of sequence 0.

    The restored state, which may be megabytes, is not written again, because its old snapshot is still in the topic.
    """
    return SnapshotChunk(stage, partition, epoch, 0, 0, 2, b"")


@dataclass(slots=True)
class SnapshotAssembler:
    """Assembles the snapshots of a partition from the records of its topic."""

    highest_epoch: int = 0
    """The highest epoch of all chunks, even of incomplete sets, because the first record claims an epoch."""
    best: Snapshot | None = None
    fallback: Snapshot | None = None
    """The newest verified snapshot, if `best` is not verified."""
    unreadable: int = 0
    """Skipped complete snapshots, which cannot be decoded or have a newer schema."""
    is_outdated: bool = False
    """True if a newer complete snapshot than `best` cannot be read."""
    _best_at: tuple[int, int] = (-1, -1)
    _parts: dict[tuple[int, int], dict[int, SnapshotChunk]] = field(default_factory=dict)
    _keys: dict[str, int] = field(default_factory=dict)

    def add(self, key: str, chunk: SnapshotChunk | None) -> None:
        """Add a record; None is a tombstone of its key."""
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
        # Older chunks cannot be selected any more; those of measure would have megabytes.
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
        self.best, self._best_at, self.is_outdated = snapshot, at, False

    def _pass_over(self, at: tuple[int, int], reason: str) -> None:
        self.unreadable += 1
        self.is_outdated = True
        log.error("passing over a snapshot: epoch=%d sequence=%d: %s", *at, reason)

    def keys_before(self, epoch: int) -> list[str]:
        """Return the keys of all older epochs, which the owner of `epoch` removes from the topic."""
        return [key for key, owner in self._keys.items() if owner < epoch]


TAIL_RECORDS = 5000
"""The records read from the end of each topic of outputs; Progress is read completely, with a retention of an hour."""


async def highest_known_epoch(consumer: Any, binding: Binding, partition: int) -> int:
    """Return the highest epoch in a stage's Progress and revisions (0: none), for use if its snapshots are lost.

    Readers treat an owner with a lower epoch than an earlier owner as replaced: they ignore its Progress, so that time
    does not advance, and its revisions, which contain the epoch.

    Revisions of other partitions of the stage count too, because an epoch that is too high has no effect.
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
    """One partition of a stage's snapshot topic, used by its present owner."""

    def __init__(
        self, stage: str, topic: Topic, partition: int, sender: ReliableSender | TransactionalSender
    ) -> None:  # fmt: skip
        self._stage = stage
        self._topic = topic
        self._partition = partition
        self._sender = sender
        self._sequence = 0
        self._last_of_kind = {True: 0, False: 0}
        """The sequences of the last verified (True) and unverified (False) snapshots of this epoch."""
        self.assembler = SnapshotAssembler()
        self.unreadable = 0
        """The snapshots and records that the takeover skipped."""
        self._read_to = 0

    async def take_over(
        self, consumer: Any, highest_known_epoch: Callable[[], Awaitable[int]] | None = None
    ) -> tuple[int, list[Snapshot]]:
        """Return the new epoch of this owner, and the states to restore: the newest, then the newest verified one.

        `highest_known_epoch` is used if the topic has no record of an epoch, because it was lost or there was none.
        The epoch is written when this returns; older ones stay in the topic until its first snapshot is written. An
        owner with transactions is fenced by its transactional id and writes its epoch with its first snapshot.
        Raises aiokafka's errors while the brokers are unavailable, and PartitionLost; then it may be called again.
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
            if isinstance(self._sender, TransactionalSender) or await self._claim(consumer, epoch):
                # The states may have megabytes, so only the caller retains them.
                states = self._states()
                self.assembler.best = self.assembler.fallback = None
                return epoch, states

    def _states(self) -> list[Snapshot]:
        """Return the states to restore; with transactions only the newest, because an older one would repeat input
        whose outputs were published.
        """
        assembler = self.assembler
        if not isinstance(self._sender, TransactionalSender):
            return [state for state in (assembler.best, assembler.fallback) if state is not None]
        return [assembler.best] if assembler.best is not None and not assembler.is_outdated else []

    def _shelve(self, record: Any) -> SnapshotChunk | None:
        try:
            message = None if record.value is None else topics.decode(self._topic, record.value, record.headers)
        except Reject as error:
            # Only owners write snapshots here, so a record that cannot be decoded is none.
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

    async def write(
        self, snapshot: Snapshot, *, is_verified: bool = True, outputs: Sequence[Record] = (), at: Sequence[int] = ()
    ) -> int:
        """Write a snapshot and return its bytes after the acknowledgement; an epoch's first removes older epochs.

        `outputs` for the partitions `at` are sent first, with transactions in the same one.
        """
        is_first = self._sequence == 0
        self._sequence = next_sequence(self._sequence, self._last_of_kind[is_verified], is_verified=is_verified)
        self._last_of_kind[is_verified] = self._sequence
        records = await asyncio.to_thread(self._records, snapshot)
        await self._sender.send([*outputs, *records], [*at, *[self._partition] * len(records)])
        if is_first:
            await self._clear(snapshot.epoch)
        return sum(len(record.value or b"") for record in records)

    def _records(self, snapshot: Snapshot) -> list[Record]:
        chunks = split(self._stage, self._partition, self._sequence, snapshot)
        return [topics.encode(self._topic, chunk) for chunk in chunks]

    async def _claim(self, consumer: Any, epoch: int) -> bool:
        """Claim an epoch; return False if another owner claimed it at the same time.

        A worker that was paused between reading and writing may claim an epoch that is in use. An owner that finds
        another record of its epoch after the records that it had read claims a higher one.
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
            # An own record that was sent twice looks the same; treating it as foreign only skips one epoch.
            chunk = self._shelve(record)
            alone = alone and (chunk is None or chunk.epoch < epoch)
        return alone

    async def _clear(self, epoch: int) -> None:
        """Remove the older epochs from the topic."""
        tombstones = [topics.tombstone(self._topic, key) for key in self.assembler.keys_before(epoch)]
        await self._sender.send(tombstones, [self._partition] * len(tombstones))
        self.assembler = SnapshotAssembler()
