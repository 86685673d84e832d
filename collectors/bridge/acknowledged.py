"""Tracks which positions in the source topics may be committed: those whose messages Kafka has acknowledged. Pure.

The publisher sends in order, so the number of acknowledged records is enough.
"""

from collections import deque
from typing import NamedTuple, Protocol

from collectors.bridge.fold import Position
from collectors.core.metrics import CollectorMetrics
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, REJECTED, SAMPLES

Place = tuple[str, int]
"""A topic and its partition."""

_TOPICS = (SAMPLES.name, EVENTS.name, COLLECTOR_STATUS.name, REJECTED.name)


class Delivered(Protocol):
    """The progress of the publisher, in records."""

    def sent(self) -> int:
        """Return the records accepted since the process began."""
        ...

    def settled(self) -> int:
        """Return how many of these, in order, Kafka has or can never accept."""
        ...


class DeliveredByCounts:
    """Delivered, by the metrics of a publisher without a spool."""

    def __init__(self, metrics: CollectorMetrics) -> None:
        self._metrics = metrics

    def sent(self) -> int:
        return sum(self._metrics.value("offered", name) - self._metrics.value("refused", name) for name in _TOPICS)

    def settled(self) -> int:
        return sum(
            self._metrics.value("acknowledged", name) + self._metrics.value("rejected", name) for name in _TOPICS
        )


class _Waiting(NamedTuple):
    mark: int
    place: Place
    position: Position


class Ledger:
    """Positions that wait for the messages before them, and the newest of each partition that may be committed."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._newest: dict[Place, Position] = {}
        self._ready: dict[Place, Position] = {}
        self._committed: dict[Place, Position] = {}

    def add(self, mark: int, place: Place, position: Position) -> None:
        """Add a position; everything before it was published when the publisher had accepted `mark` records."""
        if self._newest.get(place) != position:
            self._newest[place] = position
            self._waiting.append(_Waiting(mark, place, position))

    def settle(self, settled: int) -> None:
        """Record the number of settled records."""
        while self._waiting and self._waiting[0].mark <= settled:
            _, place, position = self._waiting.popleft()
            if place in self._newest:
                self._ready[place] = position

    def ready(self) -> dict[Place, Position]:
        """Return the positions that may be committed and are not yet."""
        return {place: p for place, p in self._ready.items() if self._committed.get(place) != p}

    def committed(self, positions: dict[Place, Position]) -> None:
        """Record committed positions."""
        self._committed |= positions

    def base(self, place: Place) -> Position:
        """Return the position of a partition that is committed, or may be."""
        return self._ready.get(place) or self._committed[place]

    def begin(self, place: Place, position: Position) -> None:
        """Add an assigned partition with its committed position."""
        self.drop(place)
        self._newest[place] = self._committed[place] = position

    def drop(self, place: Place) -> None:
        """Remove a revoked partition."""
        for positions in (self._newest, self._ready, self._committed):
            positions.pop(place, None)
        self._waiting = deque(waiting for waiting in self._waiting if waiting.place != place)
