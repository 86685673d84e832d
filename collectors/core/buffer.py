"""What was offered and is not acknowledged: in order, within a bound of bytes, the newest refused past it.

In memory alone here; spooled.py goes on to disk where Kafka stays away.
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
    """One record that waits; `rows` is how many rows of samples it carries."""

    record: Record
    rows: int = 0

    @property
    def size(self) -> int:
        """What it costs to hold, in bytes."""
        return len(self.record.value or b"") + len(self.record.key) + _RECORD_OVERHEAD


class Buffer(Protocol):
    """Who calls: the collectors `offer`, which never blocks; the publisher's one sender all else."""

    def offer(self, held: BufferedRecord) -> bool:
        """Take it and answer True, or refuse it and answer False: then nobody has it."""
        ...

    async def open(self) -> None:
        """Take up what an earlier run left; raises Misconfigured."""
        ...

    async def first(self, limit: int) -> Sequence[BufferedRecord]:
        """The oldest, at most `limit`; they stay until released."""
        ...

    async def release(self, count: int) -> None:
        """Let the oldest `count` of what `first` answered last go: Kafka has them."""
        ...

    async def run(self) -> None:
        """What it does beside, until cancelled."""
        ...

    async def close(self) -> None:
        """Keep what can be kept of what waits, and take nothing more."""
        ...

    @property
    def stored(self) -> int:
        """How many of those that wait outlive the process."""
        ...

    def __len__(self) -> int:
        """How many wait."""
        ...


class MemoryBuffer:
    """A Buffer in memory: what it holds ends with the process, and was never acknowledged."""

    def __init__(self, limit_bytes: int, counts: CollectorMetrics | None = None) -> None:
        self._limit = limit_bytes
        self._counts = counts if counts is not None else CollectorMetrics()
        self._held: deque[BufferedRecord] = deque()
        self.size_bytes = 0

    def offer(self, held: BufferedRecord) -> bool:
        if self.size_bytes + held.size > self._limit:
            return False
        self._held.append(held)
        self.size_bytes += held.size
        return True

    def oldest(self, limit: int | None = None) -> list[BufferedRecord]:
        """The oldest, at most `limit`."""
        return list(islice(self._held, limit))

    def drop(self, count: int) -> None:
        """Let the oldest go: they are kept elsewhere, or will be nowhere."""
        for _ in range(count):
            gone = self._held.popleft()
            self.size_bytes -= gone.size
            self._counts.add("settled", gone.record.topic.name)

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
        return len(self._held)
