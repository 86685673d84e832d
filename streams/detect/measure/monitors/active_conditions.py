"""Ports at which something goes on: since when, when it was last so, and whether it was told that it began.

None, on a healthy fabric. What goes on is for crowds.py, pauses.py, slowed.py and stifled.py to say.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.detect.measure.storage.reading_store import MessageBatch
from streams.wire.models import Samples, Source


@dataclass(slots=True)
class ActiveCondition:
    """One port, and one of the ways in which it may be held."""

    since_ns: int
    last_ns: int
    is_reported: bool = False
    before_bps: float = 0.0
    """What it sent before, where that is what it is compared with."""

    def has_lasted(self, after_ns: int) -> bool:
        """Whether it is to be told now that it began: once, when it has lasted so long."""
        lasts = not self.is_reported and self.last_ns - self.since_ns >= after_ns
        self.is_reported = self.is_reported or lasts
        return lasts


class ActiveConditions:
    """By device and source, then by row and way; the way is 0 where there is one only."""

    def __init__(self) -> None:
        self.by_source: dict[tuple[str, Source], dict[tuple[str, int], ActiveCondition]] = {}
        """Empty, of a healthy fabric: who asks that first makes no call."""

    def get(self, samples: Samples, row: str, way: int = 0) -> ActiveCondition | None:
        """What is known of a port as one source reads it."""
        return self.by_source.get((samples.device, samples.source), {}).get((row, way))

    def extend(self, samples: Samples, row: str, since_ns: int, at_ns: int, way: int = 0) -> ActiveCondition:
        """It is so at `at_ns`; if it was not before, since `since_ns`."""
        own = self.by_source.setdefault((samples.device, samples.source), {})
        held = own.get((row, way)) or own.setdefault((row, way), ActiveCondition(since_ns, at_ns))
        held.last_ns = at_ns
        return held

    def end(self, samples: Samples, row: str, way: int = 0) -> ActiveCondition | None:
        """It is so no more; answers what it was where it had been told that it began."""
        key = samples.device, samples.source
        held = self.by_source.get(key, {}).pop((row, way), None)
        if not self.by_source.get(key, True):
            del self.by_source[key]
        return held if held is not None and held.is_reported else None

    def put(self, key: tuple[str, Source], ports: dict[tuple[str, int], ActiveCondition]) -> None:
        """This is what is known of a device as one source reads it."""
        self.by_source.pop(key, None)
        if ports:
            self.by_source[key] = ports

    def active_cells(self, wave: MessageBatch) -> Iterator[tuple[int, int, int]]:
        """Message, row and way of those that a wave has something of."""
        for message, taken in enumerate(wave.messages):
            for row, way in self.by_source.get((taken.samples.device, taken.samples.source), ()):
                if row in taken.samples.row:
                    yield message, taken.samples.row.index(row), way

    def dump(self) -> list[list[Any]]:
        """For a snapshot."""
        return [
            [device, int(source), row, way, held.since_ns, held.last_ns, held.is_reported, held.before_bps]
            for (device, source), own in self.by_source.items()
            for (row, way), held in own.items()
        ]

    def load(self, kept: Iterable[Iterable[Any]]) -> None:
        """The inverse."""
        for device, source, row, way, *held in kept:
            self.by_source.setdefault((device, Source(source)), {})[row, way] = ActiveCondition(*held)
