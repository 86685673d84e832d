"""Which positions of the peers' topics may be committed: those whose messages Kafka has acknowledged. Pure.

The publisher sends in order, so a number of records acknowledged says which.
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
    """How far the publisher has come, in records."""

    def sent(self) -> int:
        """Records that it took since the process began."""
        ...

    def settled(self) -> int:
        """Of these, in their order, those that Kafka has or will never take."""
        ...


class DeliveredByCounts:
    """Delivered, by what a publisher without a spool counts."""

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
    """Positions that wait for what was said before them; the newest of each partition that need not wait any more."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._newest: dict[Place, Position] = {}
        self._ready: dict[Place, Position] = {}
        self._committed: dict[Place, Position] = {}

    def add(self, mark: int, place: Place, position: Position) -> None:
        """Everything before the position was handed over when the publisher had taken `mark` records."""
        if self._newest.get(place) != position:
            self._newest[place] = position
            self._waiting.append(_Waiting(mark, place, position))

    def settle(self, settled: int) -> None:
        """The publisher has come so far."""
        while self._waiting and self._waiting[0].mark <= settled:
            _, place, position = self._waiting.popleft()
            if place in self._newest:
                self._ready[place] = position

    def ready(self) -> dict[Place, Position]:
        """What may be committed and is not."""
        return {place: p for place, p in self._ready.items() if self._committed.get(place) != p}

    def committed(self, positions: dict[Place, Position]) -> None:
        """These are."""
        self._committed |= positions

    def base(self, place: Place) -> Position:
        """What is committed of a partition, or may be."""
        return self._ready.get(place) or self._committed[place]

    def begin(self, place: Place, position: Position) -> None:
        """A partition came, of which this is committed."""
        self.drop(place)
        self._newest[place] = self._committed[place] = position

    def drop(self, place: Place) -> None:
        """A partition went."""
        for kept in (self._newest, self._ready, self._committed):
            kept.pop(place, None)
        self._waiting = deque(waiting for waiting in self._waiting if waiting.place != place)
