"""Which snapshot is restored, of all that were ever written, whole or not."""

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
    found = SnapshotAssembler()
    for chunk in written:
        found.add(key(chunk), chunk)
    return found


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 1])
def test_a_snapshot_of_any_size_comes_back_whole(size: int) -> None:
    """Chunks fit into a message of 512 KiB, and in any order give back what was cut."""
    state = random.Random(size).randbytes(size)
    written = chunks(3, 5, state)
    assert all(len(codec.to_bytes(chunk)) < 512 * 1024 for chunk in written)
    random.Random(1).shuffle(written)
    assert assembled(*written).best == snapshot(3, state)


def test_the_highest_epoch_and_then_sequence_wins_in_whatever_order_they_stand() -> None:
    """An older epoch's later records, as a paused worker writes them when it wakes, restore nothing."""
    written = [*chunks(2, 9, b"old"), *chunks(3, 1, b"first"), *chunks(3, 2, b"second"), *chunks(2, 10, b"woken")]
    for seed in range(10):
        random.Random(seed).shuffle(written)
        best = assembled(*written).best
        assert best is not None and best.state == b"second"


def test_an_incomplete_set_is_ignored_but_its_epoch_is_taken() -> None:
    """A worker that died while writing leaves the last whole snapshot in force; nobody takes its epoch again."""
    big = chunks(4, 1, b"x" * (CHUNK_BYTES + 1))
    found = assembled(*chunks(3, 1, b"whole"), big[0])
    assert found.best is not None and found.best.state == b"whole"
    assert found.highest_epoch == 4


def test_parts_of_two_snapshots_are_never_mixed() -> None:
    """Two halves of two sets are no whole: each set needs all of its own chunks."""
    one, other = (chunks(3, sequence, bytes([sequence]) * (CHUNK_BYTES + 1)) for sequence in (1, 3))
    assert assembled(one[0], other[1]).best is None


def test_an_unreadable_or_later_snapshot_is_passed_over() -> None:
    """What a later version wrote, or what is no Snapshot, leaves the one before in force."""
    broken = SnapshotChunk("measure", 0, 5, 1, 0, 1, b"\xff\xff")
    found = assembled(*chunks(3, 1, b"fine"), *chunks(4, 1, b"later", schema=SCHEMA + 1), broken)
    assert found.best is not None and found.best.state == b"fine"
    assert found.highest_epoch == 5


def test_the_keys_of_older_epochs_are_those_to_be_taken_out() -> None:
    """Tombstones are for what older epochs left and nobody took out yet."""
    found = assembled(*chunks(2, 1), *chunks(2, 2), *chunks(3, 1))
    found.add(key(chunks(2, 1)[0]), None)
    assert found.keys_before(3) == [key(chunks(2, 2)[0])]
    assert found.keys_before(2) == []


def test_two_generations_of_a_snapshot_have_keys_of_their_own() -> None:
    """A half-written snapshot overwrites nothing of the whole one before it, once Kafka compacts."""
    assert {key(c) for c in chunks(3, 1)} & {key(c) for c in chunks(3, 2)} == set()


def test_a_claim_takes_an_epoch_and_restores_nothing() -> None:
    """Who took over and died before its first snapshot leaves the last state in force, and its epoch used."""
    found = assembled(*chunks(3, 7, b"whole"), fencing_chunk("measure", 0, 4))
    assert found.best is not None and found.best.state == b"whole"
    assert found.highest_epoch == 4
    assert assembled(fencing_chunk("measure", 0, 1)).best is None


def test_the_first_snapshot_of_an_epoch_is_not_mixed_with_its_claim() -> None:
    """A claim is part of no set that is written later."""
    big = chunks(4, 1, b"x" * (CHUNK_BYTES + 1))
    best = assembled(fencing_chunk("measure", 0, 4), *big).best
    assert best is not None and len(best.state) == CHUNK_BYTES + 1
