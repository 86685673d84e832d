"""Holds the records that are not acknowledged yet: in order, bounded in bytes; past the bound the newest is refused.

This module has the buffer in memory; disk_buffer.py adds a spool on disk for longer outages of Kafka.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from collectors.core.metrics import CollectorMetrics
from streams.wire.topics import Record

_RECORD_OVERHEAD = 200
"""Python's own bytes for a Record in a deque, measured with sys.getsizeof on its parts."""


@dataclass(frozen=True, slots=True)
class BufferedRecord:
    """One record in the buffer; `rows` is the number of rows of samples in it."""

    record: Record
    rows: int = 0

    @property
    def size(self) -> int:
        """Its size in memory, in bytes."""
        return len(self.record.value or b"") + len(self.record.key) + _RECORD_OVERHEAD


class Buffer(Protocol):
    """The publisher's queue. Collectors call `offer`, which never blocks; the publisher's sender calls the rest."""

    def offer(self, buffered: BufferedRecord) -> bool:
        """Add a record and return True; return False if there is no room, and the record is lost."""
        ...

    async def open(self) -> None:
        """Load the records that an earlier run left; raises Misconfigured."""
        ...

    async def first(self, limit: int) -> Sequence[BufferedRecord]:
        """Return the oldest records, at most `limit`; they stay until released."""
        ...

    async def release(self, count: int) -> None:
        """Remove the oldest `count` records of the last result of `first`: Kafka has acknowledged them."""
        ...

    async def run(self) -> None:
        """Do background work until cancelled."""
        ...

    async def close(self) -> None:
        """Store the remaining records where the buffer can, and accept no more."""
        ...

    @property
    def stored(self) -> int:
        """The number of waiting records that outlive the process."""
        ...

    def __len__(self) -> int:
        """Return the number of waiting records."""
        ...


class MemoryBuffer:
    """A Buffer in memory: its records end with the process, and were never acknowledged."""

    def __init__(self, limit_bytes: int, metrics: CollectorMetrics | None = None) -> None:
        self._limit = limit_bytes
        self._metrics = metrics if metrics is not None else CollectorMetrics()
        self._records: deque[BufferedRecord] = deque()
        self.size_bytes = 0

    def offer(self, buffered: BufferedRecord) -> bool:
        if self.size_bytes + buffered.size > self._limit:
            return False
        self._records.append(buffered)
        self.size_bytes += buffered.size
        return True

    def oldest(self, limit: int | None = None) -> list[BufferedRecord]:
        """Return the oldest records, at most `limit`."""
        return list(islice(self._records, limit))

    def drop(self, count: int) -> None:
        """Remove the oldest records: they are stored elsewhere, or can never be sent."""
        for _ in range(count):
            dropped = self._records.popleft()
            self.size_bytes -= dropped.size
            self._metrics.add("settled", dropped.record.topic.name)

    async def open(self) -> None:
        return

    async def first(self, limit: int) -> Sequence[BufferedRecord]:
        return self.oldest(limit)

    async def release(self, count: int) -> None:
        self.drop(count)

    async def run(self) -> None:
        return

    async def close(self) -> None:
        return

    @property
    def stored(self) -> int:
        return 0

    def __len__(self) -> int:
        return len(self._records)
