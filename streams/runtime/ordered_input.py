"""An owner's way in: without a gap, without repeats, all inputs in one order.

Decides what is requested again, and how long the others wait for one input. The order itself is decided in merge.py.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from streams.runtime.bindings import Binding
from streams.runtime.chunk import Chunk
from streams.runtime.merge import Merge

QUEUED = 16
"""Chunks that an owner may be behind, a few MB each: the reader waits for it then. At the full rate it is
three seconds' worth; an owner that writes its state down takes none meanwhile."""
_WAITING_MAX = 64
"""Chunks that may wait for another input; then order gives way to going on."""
_GAP_TIMEOUT_S = 5.0
"""The longest wait of records for those of another input that the brokers report. A fetch takes some milliseconds,
but the first of a backlog of megabytes, by a consumer of its own on a busy machine, has taken more than half a second.
"""
_REQUEST_RETRY_S = 2.0


class InputSource(Protocol):
    """The source of chunks, as an owner uses it; ChunkConsumer is one."""

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that are already under way still come."""
        ...

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """All before this offset is covered: commit it with the next commit."""
        ...

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the offset behind the last record, as of the last fetch; None before the first."""
        ...


class OrderedInput:
    """The chunks of one partition in one generation."""

    def __init__(
        self,
        binding: Binding,
        partition: int,
        source: Callable[[], InputSource],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partition = partition
        self._source = source
        self._now_s = now_s
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue(QUEUED)
        self._merge = Merge([topic.name for topic in binding.inputs])
        # No input waits for a compacted topic: the record at its end may be gone.
        self._timed = {topic.name for topic in binding.inputs if topic.retention_s is not None}
        self._expected: dict[str, int] = {}
        self._requested: dict[str, tuple[int, float]] = {}
        self._since: float | None = None
        self._given_up: set[str] = set()
        self._ends: dict[str, int] = {}
        self.may_be_rewound = False
        """A chunk came from an input that ended before the next expected offset: it is an old chunk, or the topic was
        deleted and created again."""

    def begin(self, positions: dict[str, int], ends: dict[str, int] | None = None) -> None:
        """Read each input from here on; `ends` is how far each is known to go before anything was fetched."""
        self._ends = ends or {}
        for topic, offset in positions.items():
            self._expected[topic] = offset
            self._request(topic, offset)

    async def put(self, chunk: Chunk) -> None:
        """Hand in what was fetched; waits while there is no room."""
        await self._chunks.put(chunk)

    def wake(self) -> None:
        """Let `next` return, if it waits."""
        with suppress(asyncio.QueueFull):
            self._chunks.put_nowait(None)

    async def next(self, within_s: float) -> Chunk | None:
        """Return the chunk whose turn it is; None where there is none within this time."""
        while not self._chunks.empty() and len(self._merge) < _WAITING_MAX:
            self._accept(self._chunks.get_nowait())
        if (ready := self._ready()) is not None:
            return ready
        wait_s = max(0.0, within_s)
        if len(self._merge):
            self._since = self._now_s() if self._since is None else self._since
            wait_s = min(wait_s, _GAP_TIMEOUT_S)
        try:
            async with asyncio.timeout(wait_s):
                self._accept(await self._chunks.get())
        except TimeoutError:
            return None
        return self._ready()

    def _ready(self) -> Chunk | None:
        ready = self._merge.next(self._is_requested)
        if ready is not None:
            self._since = None
        return ready

    def _accept(self, chunk: Chunk | None) -> None:
        """Keep what follows; ask again for what is missing before it; forget what was there."""
        if chunk is None:
            return
        expected = self._expected[chunk.topic]
        self.may_be_rewound = self.may_be_rewound or max(chunk.highwater, chunk.end) < expected
        if chunk.start > expected:
            requested, at = self._requested[chunk.topic]
            # What was under way before the seek still comes; only if nothing else does is it requested again.
            if requested != expected or self._now_s() - at > _REQUEST_RETRY_S:
                self._request(chunk.topic, expected)
        elif chunk.end > expected:
            fresh = [record for record in chunk.records if record.offset >= expected]
            self._expected[chunk.topic] = chunk.end
            self._given_up.discard(chunk.topic)
            self._merge.add(replace(chunk, start=expected, records=fresh))

    def _request(self, topic: str, offset: int) -> None:
        self._requested[topic] = offset, self._now_s()
        self._source().read_from(topic, self._partition, offset)

    def _is_requested(self, topic: str) -> bool:
        """Return whether the brokers hold records of this input that have not come yet and are worth a wait."""
        if topic not in self._timed or topic in self._given_up or len(self._merge) >= _WAITING_MAX:
            return False
        end = self._source().end_of(topic, self._partition) or 0
        if max(end, self._ends.get(topic, 0)) <= self._expected[topic]:
            return False
        if self._since is not None and self._now_s() - self._since > _GAP_TIMEOUT_S:
            self._given_up.add(topic)
            return False
        return True
