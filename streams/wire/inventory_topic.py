"""Converts one version of the inventory to records of its topic, and back.

A version is published in chunks with the key digest/chunk. A reader assembles a version when it has all chunks, and
compares the digest with the data.
"""

import hashlib
from collections.abc import Iterator

import cramjam

from streams.fabric.inventory import Inventory, pack, unpack
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import InventoryChunk

CHUNK_BYTES = 512 * 1024
"""Half of Kafka's default maximum message size."""


def to_chunks(inventory: Inventory, effective_ns: int) -> Iterator[InventoryChunk]:
    """Yield the records of a version that takes effect when event time passes `effective_ns`."""
    digest, data = pack(inventory)
    chunks = -(-len(data) // CHUNK_BYTES)
    for chunk in range(chunks):
        part = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        yield InventoryChunk(digest, effective_ns, chunk, chunks, part)


class Assembler:
    """Assembles versions from chunks in any order; retains the chunks of incomplete versions."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[int, InventoryChunk]] = {}

    def add(self, chunk: InventoryChunk) -> tuple[int, Topology] | None:
        """Add a chunk; return (effective_ns, topology) when it completes a version.

        Raises Reject if the digest does not match the data.
        """
        data = self.add_chunk(chunk)
        return None if data is None else (chunk.effective_ns, topology_of(chunk.digest, data))

    def add_chunk(self, chunk: InventoryChunk) -> bytes | None:
        """Add a chunk; return the data of the version that it completes, for `topology_of`."""
        parts = self._parts.setdefault(chunk.digest, {})
        parts[chunk.chunk] = chunk
        if len(parts) < chunk.chunks:
            return None
        del self._parts[chunk.digest]
        return b"".join(parts[i].data for i in sorted(parts))


def topology_of(digest: str, data: bytes) -> Topology:
    """Return the topology of these data; raises Reject if the digest does not match."""
    return Topology(inventory_of(digest, data), digest)


def inventory_of(digest: str, data: bytes) -> Inventory:
    """Return the inventory of these data; raises Reject if the digest does not match."""
    try:
        actual = hashlib.sha256(bytes(cramjam.zstd.decompress(data))).hexdigest()
        if actual == digest:
            return unpack(data)
    except (cramjam.DecompressionError, ValueError) as error:
        raise Reject(f"inventory {digest[:12]}: {error}") from error
    raise Reject(f"inventory {digest[:12]}: the digest of its data is {actual[:12]}")
