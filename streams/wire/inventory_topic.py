"""One version of the inventory as records of its topic, and back.

A version goes out in chunks under the key digest/chunk; whoever reads the topic puts a version together when all its
chunks are there and its digest is that of its data.
"""

import hashlib
from collections.abc import Iterator

import cramjam

from streams.fabric.inventory import Inventory, pack, unpack
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import InventoryChunk

CHUNK_BYTES = 512 * 1024
"""Half of Kafka's default limit of a message."""


def to_chunks(inventory: Inventory, effective_ns: int) -> Iterator[InventoryChunk]:
    """The records of a version that takes effect when event time passes `effective_ns`."""
    digest, data = pack(inventory)
    chunks = -(-len(data) // CHUNK_BYTES)
    for chunk in range(chunks):
        part = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        yield InventoryChunk(digest, effective_ns, chunk, chunks, part)


class Assembler:
    """Puts versions together from chunks in any order; keeps those that are not whole yet."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[int, InventoryChunk]] = {}

    def add(self, chunk: InventoryChunk) -> tuple[int, Topology] | None:
        """Take a chunk; answer (effective_ns, topology) when it completes a version.

        Raises Reject where the version's data are not what its digest names.
        """
        data = self.add_chunk(chunk)
        return None if data is None else (chunk.effective_ns, topology_of(chunk.digest, data))

    def add_chunk(self, chunk: InventoryChunk) -> bytes | None:
        """Take a chunk; answer the data of the version that it completes, for `topology_of`."""
        parts = self._parts.setdefault(chunk.digest, {})
        parts[chunk.chunk] = chunk
        if len(parts) < chunk.chunks:
            return None
        del self._parts[chunk.digest]
        return b"".join(parts[i].data for i in sorted(parts))


def topology_of(digest: str, data: bytes) -> Topology:
    """The version that these data are; raises Reject where they are not what its digest names."""
    return Topology(inventory_of(digest, data), digest)


def inventory_of(digest: str, data: bytes) -> Inventory:
    """The same as its tables only."""
    try:
        found = hashlib.sha256(bytes(cramjam.zstd.decompress(data))).hexdigest()
        if found == digest:
            return unpack(data)
    except (cramjam.DecompressionError, ValueError) as error:
        raise Reject(f"inventory {digest[:12]}: {error}") from error
    raise Reject(f"inventory {digest[:12]}: its data have the digest {found[:12]}")
