"""Queues what was read and is not committed: changes of tickets and unreadable records, in the order of the topic."""

from collections import deque
from dataclasses import dataclass, field

from streams.notify.tickets.book import Change
from streams.wire.models import Rejected


@dataclass(slots=True)
class Delivery:
    """One delivery; without a change and a rejected record there is only the offset to commit."""

    next_offset: int
    """The offset to commit after it."""
    change: Change | None = None
    rejected: Rejected | None = None
    is_done: bool = False
    """It was delivered, and its offset is not committed yet."""


@dataclass(slots=True)
class Deliveries:
    """The queue."""

    _queue: deque[Delivery] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def head(self) -> Delivery | None:
        """The next delivery."""
        return self._queue[0] if self._queue else None

    def add(self, next_offset: int, change: Change | None = None, rejected: Rejected | None = None) -> None:
        """Add a record; successive ones without an effect are one delivery."""
        last = self._queue[-1] if self._queue else None
        if change is None and rejected is None and last is not None:
            last.next_offset = next_offset
        else:
            self._queue.append(Delivery(next_offset, change, rejected))

    def pop(self) -> None:
        """Remove the head."""
        self._queue.popleft()
