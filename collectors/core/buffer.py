"""What was offered and is not acknowledged: in order, within a bound of bytes, the newest refused past it.

Pure. A spool on disk is a second implementer of `Buffer`: what it takes past the bound of memory it has fsynced.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.wire.topics import Record

_RECORD_OVERHEAD = 200
"""Python's own bytes for a Record in a deque, measured with sys.getsizeof on its parts."""


@dataclass(frozen=True, slots=True)
class Held:
    """One record that waits; `rows` is how many rows of samples it carries."""

    record: Record
    rows: int = 0

    @property
    def size(self) -> int:
        """What it costs to hold, in bytes."""
        return len(self.record.value or b"") + len(self.record.key) + _RECORD_OVERHEAD


class Buffer(Protocol):
    """Who calls: the collectors `offer`, the publisher's one sender `first` and then `release`. Nothing blocks."""

    def offer(self, held: Held) -> bool:
        """Take it and answer True, or refuse it and answer False: then nobody has it."""
        ...

    def first(self, limit: int) -> Sequence[Held]:
        """The oldest, at most `limit`; they stay until released."""
        ...

    def release(self, count: int) -> None:
        """Let the oldest `count` go: Kafka has them."""
        ...

    def __len__(self) -> int:
        """How many wait."""
        ...


class MemoryBuffer:
    """A Buffer in memory: what it holds ends with the process, and was never acknowledged."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: deque[Held] = deque()
        self.size_bytes = 0

    def offer(self, held: Held) -> bool:
        if self.size_bytes + held.size > self._limit:
            return False
        self._held.append(held)
        self.size_bytes += held.size
        return True

    def first(self, limit: int) -> Sequence[Held]:
        return [self._held[i] for i in range(min(limit, len(self._held)))]

    def release(self, count: int) -> None:
        for _ in range(count):
            self.size_bytes -= self._held.popleft().size

    def __len__(self) -> int:
        return len(self._held)
