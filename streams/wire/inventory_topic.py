"""Converts one version of the inventory to records of its topic, and back.

A version is published in chunks with the key digest/chunk. A reader assembles a version when it has all chunks, and
compares the digest with the data.
"""

import hashlib
import logging
from collections.abc import Iterator

from streams.fabric.inventory import Inventory, decompressed, pack, unpack
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import InventoryChunk

log = logging.getLogger(__name__)

CHUNK_BYTES = 512 * 1024
"""Half of Kafka's default maximum message size."""


def to_chunks(inventory: Inventory, effective_ns: int) -> Iterator[InventoryChunk]:
    """Yield the records of a version that takes effect when event time passes `effective_ns`."""
    digest, data = pack(inventory)
    chunks = -(-len(data) // CHUNK_BYTES)
    for chunk in range(chunks):
        part = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        yield InventoryChunk(digest, effective_ns, chunk, chunks, part)


MAX_INCOMPLETE_BYTES = 64 << 20
"""The limit for retained chunks of incomplete versions; beyond it, the version that began first is dropped."""


class Assembler:
    """Assembles versions from chunks in any order; retains the chunks of incomplete versions, up to a limit."""

    def __init__(self, max_bytes: int = MAX_INCOMPLETE_BYTES) -> None:
        self._parts: dict[str, dict[int, InventoryChunk]] = {}
        self._max_bytes = max_bytes
        self.dropped = 0
        """Counts incomplete versions that were dropped."""

    def add(self, chunk: InventoryChunk) -> tuple[int, Topology] | None:
        """Add a chunk; return (effective_ns, topology) when it completes a version.

        Raises Reject if the digest does not match the data.
        """
        data = self.add_chunk(chunk)
        return None if data is None else (chunk.effective_ns, topology_of(chunk.digest, data))

    def add_chunk(self, chunk: InventoryChunk) -> bytes | None:
        """Add a chunk; return the data of the version that it completes, for `topology_of`, else None."""
        parts = self._parts.setdefault(chunk.digest, {})
        parts[chunk.chunk] = chunk
        if len(parts) < chunk.chunks:
            self._drop_oldest(chunk.digest)
            return None
        del self._parts[chunk.digest]
        return b"".join(parts[i].data for i in sorted(parts))

    def _drop_oldest(self, current: str) -> None:
        sizes = {digest: sum(len(part.data) for part in parts.values()) for digest, parts in self._parts.items()}
        for digest in list(self._parts):
            if sum(sizes.values()) <= self._max_bytes or digest == current:
                return
            del self._parts[digest], sizes[digest]
            self.dropped += 1
            log.warning("dropped an incomplete version of the inventory: digest=%s", digest[:12])


def topology_of(digest: str, data: bytes) -> Topology:
    """Return the topology of these data; raises Reject if the digest does not match, or a link's device is unknown."""
    inventory = inventory_of(digest, data)
    try:
        return Topology(inventory, digest)
    except (LookupError, ValueError) as error:
        # `inventory apply` refuses such tables; a stage would end at each restart, because the topic is compacted.
        raise Reject(f"inventory {digest[:12]}: its tables contradict each other: {error!r}") from error


def inventory_of(digest: str, data: bytes) -> Inventory:
    """Return the inventory of these data; raises Reject if the digest does not match."""
    try:
        actual = hashlib.sha256(decompressed(data)).hexdigest()
        if actual == digest:
            return unpack(data)
    except ValueError as error:
        raise Reject(f"inventory {digest[:12]}: {error}") from error
    raise Reject(f"inventory {digest[:12]}: the digest of its data is {actual[:12]}")
