"""Snapshots as chunks of their topic, and which of all that were ever written to restore.

Pure; reading and writing the topic is snapshot_topic.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Snapshot, SnapshotChunk

SCHEMA = 1
CHUNK_BYTES = 500 * 1024
"""Below 512 KiB with its envelope: half of Kafka's default limit of a message."""


def split(stage: str, partition: int, sequence: int, snapshot: Snapshot) -> Iterator[SnapshotChunk]:
    """Return the chunks of a snapshot, the `sequence`-th of its epoch."""
    data = codec.to_bytes(snapshot)
    chunks = max(1, -(-len(data) // CHUNK_BYTES))
    for chunk in range(chunks):
        part = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        yield SnapshotChunk(stage, partition, snapshot.epoch, sequence, chunk, chunks, part)


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
        if len(parts) == chunk.chunks:
            self._complete(at, parts.values())

    def _complete(self, at: tuple[int, int], parts: Iterable[SnapshotChunk]) -> None:
        data = b"".join(part.data for part in sorted(parts, key=lambda part: part.chunk))
        # What is older can no longer be chosen; of measure it would be megabytes.
        self._parts = {other: chunks for other, chunks in self._parts.items() if other > at}
        try:
            snapshot = codec.from_bytes(Snapshot, data)
        except Reject:
            return  # A complete set that cannot be read cannot be restored either.
        if snapshot.schema <= SCHEMA:
            self.best, self._best_at = snapshot, at

    def keys_before(self, epoch: int) -> list[str]:
        """Return the keys of all older epochs, which the owner of `epoch` takes out of the topic."""
        return [key for key, owner in self._keys.items() if owner < epoch]
