"""The assembler selects the snapshot to restore from all chunks, of complete and incomplete snapshots."""

import random

import pytest

from streams.runtime.snapshots import CHUNK_BYTES, SCHEMA, SnapshotAssembler, fencing_chunk, split
from streams.wire import codec, topics
from streams.wire.models import Snapshot, SnapshotChunk


def snapshot(epoch: int, state: bytes, schema: int = SCHEMA) -> Snapshot:
    return Snapshot(schema, epoch, {"t/0": 7}, {"t/up/0/1": 5}, 5, "digest", state)


def chunks(epoch: int, sequence: int, state: bytes = b"s", schema: int = SCHEMA) -> list[SnapshotChunk]:
    return list(split("measure", 0, sequence, snapshot(epoch, state, schema)))


def key(chunk: SnapshotChunk) -> str:
    return topics.encode(topics.SNAPSHOTS["measure"], chunk).key.decode()


def assembled(*written: SnapshotChunk) -> SnapshotAssembler:
    assembler = SnapshotAssembler()
    for chunk in written:
        assembler.add(key(chunk), chunk)
    return assembler


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 1])
def test_a_snapshot_of_any_size_is_restored_complete(size: int) -> None:
    """Each chunk fits into a message of 512 KiB, and the chunks in any order give the same snapshot."""
    state = random.Random(size).randbytes(size)
    written = chunks(3, 5, state)
    assert all(len(codec.to_bytes(chunk)) < 512 * 1024 for chunk in written)
    random.Random(1).shuffle(written)
    assert assembled(*written).best == snapshot(3, state)


def test_the_highest_epoch_and_then_sequence_wins_in_any_order() -> None:
    """Later records of an older epoch, which a paused worker writes after it resumes, are not restored."""
    written = [*chunks(2, 9, b"old"), *chunks(3, 1, b"first"), *chunks(3, 2, b"second"), *chunks(2, 10, b"resumed")]
    for seed in range(10):
        random.Random(seed).shuffle(written)
        best = assembled(*written).best
        assert best is not None and best.state == b"second"


def test_an_incomplete_snapshot_is_ignored_but_its_epoch_is_used() -> None:
    """After a kill during a write the last complete snapshot is restored; the epoch is not used again."""
    large = chunks(4, 1, b"x" * (CHUNK_BYTES + 1))
    assembler = assembled(*chunks(3, 1, b"complete"), large[0])
    assert assembler.best is not None and assembler.best.state == b"complete"
    assert assembler.highest_epoch == 4


def test_chunks_of_two_snapshots_are_never_mixed() -> None:
    """Half of the chunks of each of two snapshots make no snapshot: each needs all of its own chunks."""
    first, second = (chunks(3, sequence, bytes([sequence]) * (CHUNK_BYTES + 1)) for sequence in (1, 3))
    assert assembled(first[0], second[1]).best is None


def test_an_unreadable_or_newer_snapshot_is_skipped() -> None:
    """If a newer version wrote it, or it is no Snapshot, the previous one is restored."""
    invalid = SnapshotChunk("measure", 0, 5, 1, 0, 1, b"\xff\xff")
    assembler = assembled(*chunks(3, 1, b"valid"), *chunks(4, 1, b"newer", schema=SCHEMA + 1), invalid)
    assert assembler.best is not None and assembler.best.state == b"valid"
    assert assembler.highest_epoch == 5


def test_the_keys_to_remove_are_those_of_older_epochs() -> None:
    """Keys of older epochs that have a tombstone already are not among them."""
    assembler = assembled(*chunks(2, 1), *chunks(2, 2), *chunks(3, 1))
    assembler.add(key(chunks(2, 1)[0]), None)
    assert assembler.keys_before(3) == [key(chunks(2, 2)[0])]
    assert assembler.keys_before(2) == []


def test_a_fencing_chunk_uses_an_epoch_and_restores_nothing() -> None:
    """If an owner ends before its first snapshot, the last state is restored, and its epoch counts as used."""
    assembler = assembled(*chunks(3, 7, b"complete"), fencing_chunk("measure", 0, 4))
    assert assembler.best is not None and assembler.best.state == b"complete"
    assert assembler.highest_epoch == 4
    assert assembled(fencing_chunk("measure", 0, 1)).best is None


def test_the_first_snapshot_of_an_epoch_is_not_mixed_with_its_fencing_chunk() -> None:
    """A fencing chunk belongs to no snapshot that is written later."""
    large = chunks(4, 1, b"x" * (CHUNK_BYTES + 1))
    best = assembled(fencing_chunk("measure", 0, 4), *large).best
    assert best is not None and len(best.state) == CHUNK_BYTES + 1
