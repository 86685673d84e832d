"""A buffer that goes on to disk while Kafka stays away: memory, then a spool, both bounded, in one order.

What waits is one queue: its older part in the spool, its newer part in memory. As long as Kafka answers in time the
spool stays empty and nothing is written. When the oldest in memory has waited for `after_s`, or memory is half full,
all that memory holds is written behind what the spool has, with one fsync; from there it is acknowledged. Past both
bounds the newest is refused. A disk that fails leaves memory as the bound: it is reported, and tried again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import structlog

from collectors.core.buffer import Buffer, BufferedRecord, MemoryBuffer
from collectors.core.buffer_limits import PublisherParams
from collectors.core.metrics import CollectorMetrics
from collectors.core.spool import Damaged, Spool

_log = structlog.get_logger("railsight.spool")

_LOOK_S = 0.1
"""How often it is asked whether Kafka is in time; nothing is written by that."""
_AGAIN_S = 5.0
"""After a disk that failed: once so often it is tried, and told."""


Result = TypeVar("Result")


def buffer_of(params: PublisherParams, collector: str, counts: CollectorMetrics) -> Buffer:
    """The buffer that these settings ask for; a spool is the collector's own file in the folder that they name."""
    if params.spool is None:
        return MemoryBuffer(params.memory_bytes, counts)
    spool = Spool(params.spool / f"{quote(collector, safe='@')}.spool", params.spool_bytes)
    return SpooledBuffer(spool, params.memory_bytes, params.spool_after_s, counts)


class SpooledBuffer:
    """A Buffer over memory and a Spool, in the event loop of the publisher."""

    def __init__(self, spool: Spool, limit_bytes: int, after_s: float, counts: CollectorMetrics) -> None:
        self._spool = spool
        self._memory = MemoryBuffer(limit_bytes, counts)
        self._limit = limit_bytes
        self._after_s = after_s
        self._counts = counts
        self._using = asyncio.Lock()  # the order of the two parts changes only under it
        self._asked = 0  # how many of what `first` answered are still where `release` looks for them
        self._front = 0  # how many have left memory, by whichever end
        self._seen = (0, 0.0)  # what the front was, and since when
        self.promised = 0
        """How many of what was taken here Kafka or the disk has: always the oldest."""

    async def open(self) -> None:
        try:
            await self._disk(self._spool.open)
        except Damaged as error:
            await self._on_damaged(error)

    def offer(self, held: BufferedRecord) -> bool:
        return self._memory.offer(held)

    async def first(self, limit: int) -> Sequence[BufferedRecord]:
        async with self._using:
            found = await self._from_spool(limit) if self._spool.count else self._memory.oldest(limit)
            if found is not None:
                self._asked = len(found)
                return found
        await asyncio.sleep(_AGAIN_S)
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
        """Kafka has the oldest: they may have gone from memory to the spool since they were asked for."""
        async with self._using:
            count = min(count, self._asked)
            on_disk = min(count, self._spool.count)
            if on_disk:
                try:
                    await self._disk(lambda: self._spool.drop(on_disk))
                except Damaged as error:
                    await self._on_damaged(error)
                except OSError as error:
                    self._on_disk_error("emptying", error)
                    return
            self._stop_spilling(count - on_disk)

    async def run(self) -> None:
        """Write to the spool what has waited for too long."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._is_due(loop.time()) and not await self._spill():
                await asyncio.sleep(_AGAIN_S)

    def _is_due(self, now_s: float) -> bool:
        if not len(self._memory) or self._seen[0] != self._front:
            self._seen = (self._front, now_s)
        return now_s - self._seen[1] >= self._after_s or self._memory.size_bytes * 2 > self._limit

    async def _spill(self) -> bool:
        """Move all of memory behind the spool, as far as it has room; False where there is none, or it fails."""
        async with self._using:
            waiting = self._memory.oldest()
            try:
                written = await self._disk(lambda: self._spool.append(waiting))
            except Damaged as error:
                await self._on_damaged(error)
                return False
            except OSError as error:
                self._on_disk_error("writing", error)
                return False
            for held in waiting[:written]:
                self._counts.add("spooled", held.record.topic.name)
            self._stop_spilling(written)
            if written < len(waiting):
                self._counts.add("spool_full")
                _log.error("the spool is full", bytes=self._spool.size_bytes, records=self._spool.count)
            return written == len(waiting)

    def _stop_spilling(self, count: int) -> None:
        self._memory.drop(count)
        self._front += count
        self.promised += count

    async def close(self) -> None:
        if len(self._memory):
            await self._spill()
        await self._disk(self._spool.close)

    async def _disk(self, act: Callable[[], Result]) -> Result:
        """Do it in a thread, and wait until it is through, also when cancelled: the file is one thread's at a time."""
        work = asyncio.ensure_future(asyncio.to_thread(act))
        try:
            return await asyncio.shield(work)
        finally:
            await asyncio.wait({work})

    def _on_disk_error(self, doing: str, error: OSError) -> None:
        self._counts.add("spool_failed")
        _log.error("the spool fails", doing=doing, why=str(error), waiting=len(self))

    async def _on_damaged(self, error: OSError) -> None:
        """The disk did not keep what it said it had: say how much, and begin anew."""
        self._asked = 0
        self._counts.add("spool_damaged")
        self._counts.add("spool_lost", count=self._spool.count)
        _log.error("the spool is damaged", why=str(error), records=self._spool.count)
        try:
            aside = await self._disk(self._spool.set_aside)
        except OSError as failure:
            self._on_disk_error("making anew", failure)
        else:
            _log.error("a new spool was begun", old=str(aside))

    @property
    def stored(self) -> int:
        return self._spool.count

    def __len__(self) -> int:
        return self._spool.count + len(self._memory)
