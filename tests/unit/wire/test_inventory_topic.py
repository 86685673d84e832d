"""Tests one version of the inventory in chunks through its topic and back."""

from collections.abc import Sequence
from dataclasses import replace

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.inventory import MAX_PACKED_BYTES, Device, Inventory, digest
from streams.wire.errors import Reject
from streams.wire.inventory_topic import CHUNK_BYTES, Assembler, to_chunks
from streams.wire.models import InventoryChunk
from tests.worlds.small_fabric import inventory


def _divided(own: Inventory, parts: int) -> list[InventoryChunk]:
    """Split a version into more chunks than its size requires."""
    (whole,) = to_chunks(own, 5)
    size = -(-len(whole.data) // parts)
    return [replace(whole, chunk=i, chunks=parts, data=whole.data[i * size : (i + 1) * size]) for i in range(parts)]


@given(st.permutations(range(4)), st.lists(st.integers(0, 3), max_size=4))
def test_chunks_in_any_order_complete_the_version(order: Sequence[int], duplicates: Sequence[int]) -> None:
    """For any order and any duplicates, the version is complete with its last missing chunk."""
    own = inventory()
    chunks = _divided(own, 4)
    assembler = Assembler()
    seen = [assembler.add(chunks[i]) for i in (*order[:3], *(i for i in duplicates if i != order[3]))]
    assert set(seen) == {None}
    made = assembler.add(chunks[order[3]])
    assert made is not None
    assert (made[0], made[1].digest) == (5, digest(own))
    assert sorted(made[1].devices) == sorted(d.name for d in own.devices)


def test_interleaved_versions_do_not_mix() -> None:
    """Chunks of another version in between change nothing."""
    one, other = inventory(), Inventory(devices=(Device(name="a", kind="host", tier="host"),))
    first, second = _divided(one, 2), _divided(other, 2)
    assembler = Assembler()
    assert [assembler.add(first[0]), assembler.add(second[1])] == [None, None]
    made = [assembler.add(second[0]), assembler.add(first[1])]
    assert [m[1].digest for m in made if m] == [digest(other), digest(one)]


def test_a_large_version_takes_several_chunks() -> None:
    """No chunk is larger than half of Kafka's default limit."""
    import random

    chance = random.Random(1)
    names = (chance.randbytes(24).hex() for _ in range(40_000))
    own = Inventory(devices=tuple(Device(name=n, kind="host", tier="host") for n in names))
    chunks = list(to_chunks(own, 1))
    assert len(chunks) > 1
    assert max(len(c.data) for c in chunks) <= CHUNK_BYTES
    assert [c.chunk for c in chunks] == list(range(chunks[0].chunks))


@pytest.mark.parametrize("data", [b"", b"junk", bytes(cramjam.zstd.compress(b"{}"))])
def test_a_version_with_a_wrong_digest_is_refused(data: bytes) -> None:
    """Corrupt or foreign data never take effect; the error names the version."""
    (whole,) = to_chunks(inventory(), 5)
    assembler = Assembler()
    with pytest.raises(Reject, match=whole.digest[:12]):
        assembler.add(replace(whole, data=data))
    assert assembler.add(whole) is not None, "the right data are taken afterwards"


def test_a_bomb_is_rejected_as_a_version() -> None:
    """A few kilobytes that decompress beyond the limit are refused, and no memory is taken for them."""
    data = bytes(cramjam.zstd.compress(bytes(MAX_PACKED_BYTES + 1)))
    assert len(data) < 100_000
    with pytest.raises(Reject, match="decompressed"):
        Assembler().add(InventoryChunk("0" * 64, 5, 0, 1, data))


def test_incomplete_versions_are_bounded() -> None:
    """Of a flood of versions that never become complete the newest are retained, and a good one is still read."""
    assembler = Assembler(max_bytes=10_000)
    for number in range(1000):
        assert assembler.add(InventoryChunk(f"{number:064}", 5, 0, 2, bytes(1000))) is None
    assert assembler.dropped == 990
    made = [assembler.add(chunk) for chunk in _divided(inventory(), 2)]
    assert made[-1] is not None
