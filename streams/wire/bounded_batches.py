"""Limits the decompressed size of the record batches that aiokafka reads, and skips unreadable batches.

aiokafka decompresses a batch without a limit: a batch below the brokers' 4 MiB decompressed to 300 MiB. A batch that
exceeds the limit, cannot be decompressed, or has a header whose name is not UTF-8, becomes one record without content.
Every reader rejects that record and advances past it. This replaces private names of aiokafka 0.14.0;
tests/contract/runtime/test_private_names.py checks them.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiokafka.consumer.fetcher as fetcher
import aiokafka.record._crecords.default_records as batches
import aiokafka.record._crecords.legacy_records as legacy_batches
from aiokafka.errors import UnsupportedCodecError
from aiokafka.record.memory_records import MemoryRecords

from streams.fabric import decompression
from streams.fabric.decompression import DecompressionLimit

log = logging.getLogger(__name__)

MAX_BATCH_BYTES = 32 << 20
"""Brokers accept 4 MiB compressed on our topics, and clients fill batches to 1 MB before they compress them."""

UNREADABLE = b"unreadable-batch"
"""The header `type` of the record that replaces a batch."""

_CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """The record that replaces a batch; no topic has messages of its type."""

    offset: int
    timestamp: int
    timestamp_type: int | None
    key: bytes | None = None
    value: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = (("type", UNREADABLE),)
    checksum: int | None = None


class BoundedBatch:
    """A batch of aiokafka that decompresses to at most MAX_BATCH_BYTES."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        batch = self._batch
        try:
            # Read all records now: an error at a single record would end the reader after each restart.
            return iter(list(batch))
        except (DecompressionLimit, UnsupportedCodecError, UnicodeDecodeError) as error:
            # Use the last offset, because a fetch may begin in the middle of a batch.
            last = batch.next_offset - 1
            log.warning("a batch is not readable: last_offset=%d: %s", last, error)
            at_ms, kind = getattr(batch, "max_timestamp", -1), getattr(batch, "timestamp_type", None)
            return iter((UnreadableBatch(last, at_ms, kind),))

    def __next__(self) -> Any:
        return next(self._batch)


class BoundedRecords:
    """The batches of one fetch."""

    __slots__ = ("_records", "has_next", "size_in_bytes")

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self.has_next, self.size_in_bytes = self._records.has_next, self._records.size_in_bytes

    def next_batch(self) -> BoundedBatch | None:
        """Return the next batch."""
        batch = self._records.next_batch()
        return None if batch is None else BoundedBatch(batch)


def bound_batches() -> None:
    """Bound all consumers of this process; a second call has no effect."""
    fetcher.MemoryRecords = BoundedRecords
    for name in _CODECS:
        decode = _bounded(getattr(decompression, name))
        setattr(batches, f"{name}_decode", decode)
        if hasattr(legacy_batches, f"{name}_decode"):
            setattr(legacy_batches, f"{name}_decode", decode)


def _bounded(decode: Any) -> Any:
    def bounded(data: Any) -> bytes:
        return bytes(decode(data, MAX_BATCH_BYTES))

    return bounded
