"""Snapshots as chunks of their topic, and which of all that were ever written to restore.

Pure; reading and writing the topic is snapshot_topic.py.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Snapshot, SnapshotChunk

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
