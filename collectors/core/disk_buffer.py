"""Buffers records in memory and, while Kafka is unreachable, in a spool on disk; both bounded, in one order.

The waiting records form one queue: its older part in the spool, its newer part in memory. While Kafka answers in time
the spool stays empty and nothing is written. When the oldest record in memory has waited for `after_s`, or memory is
half full, all records in memory are appended to the spool with one fsync, and are then guaranteed. Past both bounds
the newest is refused. If the disk fails, memory alone is the bound: the error is logged, and the write retried.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import structlog

from collectors.core.buffer import Buffer, BufferedRecord, MemoryBuffer
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import PublisherParams
from collectors.core.spool import Damaged, Spool

_log = structlog.get_logger("railsight.spool")

_CHECK_S = 0.1
"""The interval of checks whether Kafka answers in time; a check writes nothing."""
_RETRY_S = 5.0
"""The interval of retries and log lines after a disk error."""


Result = TypeVar("Result")


def buffer_of(params: PublisherParams, collector: str, metrics: CollectorMetrics) -> Buffer:
    """Return the buffer for these settings; a spool is the collector's own file in the configured folder."""
    if params.spool is None:
        return MemoryBuffer(params.memory_bytes, metrics)
    spool = Spool(params.spool / f"{quote(collector, safe='@')}.spool", params.spool_bytes)
    return SpooledBuffer(spool, params.memory_bytes, params.spool_after_s, metrics)


class SpooledBuffer:
    """A Buffer over memory and a Spool, in the event loop of the publisher."""

    def __init__(self, spool: Spool, limit_bytes: int, after_s: float, metrics: CollectorMetrics) -> None:
        self._spool = spool
        self._memory = MemoryBuffer(limit_bytes, metrics)
        self._limit = limit_bytes
        self._after_s = after_s
        self._metrics = metrics
        self._lock = asyncio.Lock()  # the order of the two parts changes only under it
        self._requested = 0  # how many records of the last `first` can still be released
        self._front = 0  # how many records have left memory, in either direction
        self._front_since = (0, 0.0)  # the last front, and the time since when
        self.promised = 0
        """The number of accepted records that Kafka or the disk has: always the oldest."""

    async def open(self) -> None:
        try:
            await self._disk(self._spool.open)
        except Damaged as error:
            await self._on_damaged(error)

    def offer(self, buffered: BufferedRecord) -> bool:
        return self._memory.offer(buffered)

    async def first(self, limit: int) -> Sequence[BufferedRecord]:
        async with self._lock:
            found = await self._from_spool(limit) if self._spool.count else self._memory.oldest(limit)
            if found is not None:
                self._requested = len(found)
                return found
        await asyncio.sleep(_RETRY_S)
        return await self.first(limit)

    async def _from_spool(self, limit: int) -> list[BufferedRecord] | None:
        try:
            return await self._disk(lambda: self._spool.oldest(limit))
        except Damaged as error:
            await self._on_damaged(error)
        except OSError as error:
            self._on_disk_error("reading", error)
        return None

    async def release(self, count: int) -> None:
        """Remove the oldest records; they may have moved from memory to the spool since the last `first`."""
        async with self._lock:
            count = min(count, self._requested)
            on_disk = min(count, self._spool.count)
            if on_disk:
                try:
                    await self._disk(lambda: self._spool.drop(on_disk))
                except Damaged as error:
                    await self._on_damaged(error)
                except OSError as error:
                    self._on_disk_error("emptying", error)
                    return
            self._remove_from_memory(count - on_disk)

    async def run(self) -> None:
        """Write records that have waited too long to the spool."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_S)
            if self._is_spill_due(loop.time()) and not await self._spill():
                await asyncio.sleep(_RETRY_S)

    def _is_spill_due(self, now_s: float) -> bool:
        if not len(self._memory) or self._front_since[0] != self._front:
            self._front_since = (self._front, now_s)
        return now_s - self._front_since[1] >= self._after_s or self._memory.size_bytes * 2 > self._limit

    async def _spill(self) -> bool:
        """Append the records in memory to the spool as far as it has room; return False if some are left."""
        async with self._lock:
            waiting = self._memory.oldest()
            try:
                written = await self._disk(lambda: self._spool.append(waiting))
            except Damaged as error:
                await self._on_damaged(error)
                return False
            except OSError as error:
                self._on_disk_error("writing", error)
                return False
            for buffered in waiting[:written]:
                self._metrics.add("spooled", buffered.record.topic.name)
            self._remove_from_memory(written)
            if written < len(waiting):
                self._metrics.add("spool_full")
                _log.error("spool full", bytes=self._spool.size_bytes, records=self._spool.count)
            return written == len(waiting)

    def _remove_from_memory(self, count: int) -> None:
        self._memory.drop(count)
        self._front += count
        self.promised += count

    async def close(self) -> None:
        if len(self._memory):
            await self._spill()
        await self._disk(self._spool.close)

    async def _disk(self, action: Callable[[], Result]) -> Result:
        """Run an action in a thread, and wait for its end even if cancelled: one thread uses the file at a time."""
        work = asyncio.ensure_future(asyncio.to_thread(action))
        try:
            return await asyncio.shield(work)
        finally:
            await asyncio.wait({work})

    def _on_disk_error(self, action: str, error: OSError) -> None:
        self._metrics.add("spool_failed")
        _log.error("spool failed", action=action, why=str(error), waiting=len(self))

    async def _on_damaged(self, error: OSError) -> None:
        """Count and log the records that the disk lost, and create a new spool."""
        self._requested = 0
        self._metrics.add("spool_damaged")
        self._metrics.add("spool_lost", count=self._spool.count)
        _log.error("spool damaged", why=str(error), records=self._spool.count)
        try:
            aside = await self._disk(self._spool.set_aside)
        except OSError as failure:
            self._on_disk_error("creating", failure)
        else:
            _log.error("new spool created", old=str(aside))

    @property
    def stored(self) -> int:
        return self._spool.count

    def __len__(self) -> int:
        return self._spool.count + len(self._memory)
