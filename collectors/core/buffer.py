"""The publisher's queue: waiting records in memory and, while Kafka is unreachable, in a spool on disk.

The waiting records form one queue, bounded in bytes: the older part is in the spool, the newer part in memory. Past
both bounds the newest record is refused. While Kafka answers in time the spool stays empty and nothing is written. When
the oldest record in memory has waited for `spool_after_s`, or memory is half full, all records in memory are appended
to the spool with one fsync, and are then guaranteed. If the disk fails, memory alone is the bound: the error is logged,
and the write is retried. Without a spool, the records are lost when the process ends; they were never acknowledged.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar
from urllib.parse import quote

import structlog

from collectors.core.metrics import CollectorMetrics
from collectors.core.params import PublisherParams
from collectors.core.spool import BufferedRecord, Damaged, Spool

_log = structlog.get_logger("railsight.spool")

_CHECK_S = 0.1
"""The interval of checks that Kafka answers in time; a check writes nothing."""
_RETRY_S = 5.0
"""The interval of retries and log lines after a disk error."""

Result = TypeVar("Result")


def buffer_of(params: PublisherParams, collector: str, metrics: CollectorMetrics) -> "Buffer":
    """Return the buffer for these settings; each collector has its own spool file in the configured folder."""
    path = None if params.spool is None else params.spool / f"{quote(collector, safe='@')}.spool"
    spool = None if path is None else Spool(path, params.spool_bytes)
    return Buffer(spool, params.memory_bytes, params.spool_after_s, metrics)


class MemoryQueue:
    """The waiting records in memory, in order, bounded in bytes; they are lost when the process ends."""

    def __init__(self, limit_bytes: int, metrics: CollectorMetrics) -> None:
        self._limit = limit_bytes
        self._metrics = metrics
        self._records: deque[BufferedRecord] = deque()
        self.size_bytes = 0

    def offer(self, buffered: BufferedRecord) -> bool:
        """Add a record and return True; return False if there is no room."""
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

    def __len__(self) -> int:
        return len(self._records)


class Buffer:
    """Queues records in the publisher's event loop.

    Collectors call `offer`, which never blocks; the publisher's sender calls the other methods.
    """

    def __init__(self, spool: Spool | None, limit_bytes: int, after_s: float, metrics: CollectorMetrics) -> None:
        self._spool = spool
        self._memory = MemoryQueue(limit_bytes, metrics)
        self._limit = limit_bytes
        self._after_s = after_s
        self._metrics = metrics
        self._lock = asyncio.Lock()  # the order of the two parts changes only under it
        self._requested = 0  # how many records of the last `first` can still be released
        self._front = 0  # how many records have left memory, to Kafka or to the spool
        self._front_since = (0, 0.0)  # the last value of `_front`, and the time since when it is unchanged

    async def open(self) -> None:
        """Load the records that an earlier run left; raises Misconfigured."""
        if self._spool is None:
            return
        try:
            await self._on_disk(Spool.open)
        except Damaged as error:
            await self._on_damaged(error)

    def offer(self, buffered: BufferedRecord) -> bool:
        """Add a record and return True; return False if there is no room, and the record is lost."""
        return self._memory.offer(buffered)

    async def first(self, limit: int) -> Sequence[BufferedRecord]:
        """Return the oldest records, at most `limit`; they stay until released."""
        while True:
            async with self._lock:
                found: list[BufferedRecord] | None = None
                if not self.stored:
                    found = self._memory.oldest(limit)
                else:
                    found = await self._try("reading", lambda spool: spool.oldest(limit))
                if found is not None:
                    self._requested = len(found)
                    return found
            await asyncio.sleep(_RETRY_S)

    async def release(self, count: int) -> None:
        """Remove the oldest records; they may have moved from memory to the spool since the last `first`."""
        async with self._lock:
            count = min(count, self._requested)
            on_disk = min(count, self.stored)
            if on_disk:
                try:
                    await self._on_disk(lambda spool: spool.drop(on_disk))
                except Damaged as error:
                    await self._on_damaged(error)
                except OSError as error:
                    self._on_disk_error("emptying", error)
                    return
            self._remove_from_memory(count - on_disk)

    async def run(self) -> None:
        """Write records that have waited too long to the spool, until cancelled."""
        if self._spool is None:
            return
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_S)
            if self._is_spill_due(loop.time()) and not await self.store():
                await asyncio.sleep(_RETRY_S)

    def _is_spill_due(self, now_s: float) -> bool:
        if not len(self._memory) or self._front_since[0] != self._front:
            self._front_since = (self._front, now_s)
        return now_s - self._front_since[1] >= self._after_s or self._memory.size_bytes * 2 > self._limit

    async def store(self) -> bool:
        """Append the records in memory to the spool as far as it has room; return False if some are left."""
        async with self._lock:
            waiting = self._memory.oldest()
            written = await self._try("writing", lambda spool: spool.append(waiting))
            if written is None:
                return False
            for buffered in waiting[:written]:
                self._metrics.add("spooled", buffered.record.topic.name)
            self._remove_from_memory(written)
            if written < len(waiting):
                self._metrics.add("spool_full")
                _log.error("spool full", bytes=self._spooled().size_bytes, records=self.stored)
            return written == len(waiting)

    def _remove_from_memory(self, count: int) -> None:
        self._memory.drop(count)
        self._front += count

    async def close(self) -> None:
        """Store the remaining records if there is a spool, and accept no more."""
        if self._spool is None:
            return
        if len(self._memory):
            await self.store()
        await self._on_disk(Spool.close)

    def _spooled(self) -> Spool:
        assert self._spool is not None, "without a spool nothing is on disk"
        return self._spool

    async def _on_disk(self, action: Callable[[Spool], Result]) -> Result:
        """Run an action in a thread, and wait for its end even if cancelled: one thread uses the file at a time."""
        work = asyncio.ensure_future(asyncio.to_thread(action, self._spooled()))
        try:
            return await asyncio.shield(work)
        finally:
            await asyncio.wait({work})

    async def _try(self, name: str, action: Callable[[Spool], Result]) -> Result | None:
        """Return the result of an action on disk; None if it failed, which is counted and logged."""
        try:
            return await self._on_disk(action)
        except Damaged as error:
            await self._on_damaged(error)
        except OSError as error:
            self._on_disk_error(name, error)
        return None

    def _on_disk_error(self, action: str, error: OSError) -> None:
        self._metrics.add("spool_failed")
        _log.error("spool failed", action=action, why=str(error), waiting=len(self))

    async def _on_damaged(self, error: OSError) -> None:
        """Count and log the records that the disk lost, and create a new spool."""
        self._requested = 0
        self._metrics.add("spool_damaged")
        self._metrics.add("spool_lost", count=self.stored)
        _log.error("spool damaged", why=str(error), records=self.stored)
        try:
            aside = await self._on_disk(Spool.set_aside)
        except OSError as failure:
            self._on_disk_error("creating", failure)
        else:
            _log.error("new spool created", old=str(aside))

    @property
    def stored(self) -> int:
        """The number of waiting records that outlive the process."""
        return 0 if self._spool is None else self._spool.count

    @property
    def settled(self) -> int:
        """The number of records of this process that have left memory, in order, to Kafka or to the spool."""
        return self._front

    @property
    def accepted(self) -> int:
        """The number of records of this process that had room."""
        return self._front + len(self._memory)

    def __len__(self) -> int:
        return self.stored + len(self._memory)
