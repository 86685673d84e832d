"""Ports at which something goes on: since when, when it was last so, and whether it was told that it began.

None, on a healthy fabric. What goes on is for crowds.py, pauses.py, slowed.py and stifled.py to say.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.detect.measure.readings import Wave
from streams.wire.models import Samples, Source


@dataclass(slots=True)
class Held:
    """One port, and one of the ways in which it may be held."""

    since_ns: int
    last_ns: int
    told: bool = False
    before_bps: float = 0.0
    """What it sent before, where that is what it is compared with."""

    def has_lasted(self, after_ns: int) -> bool:
        """Whether it is to be told now that it began: once, when it has lasted so long."""
        lasts = not self.told and self.last_ns - self.since_ns >= after_ns
        self.told = self.told or lasts
        return lasts


class HeldPorts:
    """By device and source, then by row and way; the way is 0 where there is one only."""

    def __init__(self) -> None:
        self.ports: dict[tuple[str, Source], dict[tuple[str, int], Held]] = {}
        """Empty, of a healthy fabric: who asks that first makes no call."""

    def at(self, samples: Samples, row: str, way: int = 0) -> Held | None:
        """What is known of a port as one source reads it."""
        return self.ports.get((samples.device, samples.source), {}).get((row, way))

    def goes_on(self, samples: Samples, row: str, since_ns: int, at_ns: int, way: int = 0) -> Held:
        """It is so at `at_ns`; if it was not before, since `since_ns`."""
        own = self.ports.setdefault((samples.device, samples.source), {})
        held = own.get((row, way)) or own.setdefault((row, way), Held(since_ns, at_ns))
        held.last_ns = at_ns
        return held

    def over(self, samples: Samples, row: str, way: int = 0) -> Held | None:
        """It is so no more; answers what it was where it had been told that it began."""
        key = samples.device, samples.source
        held = self.ports.get(key, {}).pop((row, way), None)
        if not self.ports.get(key, True):
            del self.ports[key]
        return held if held is not None and held.told else None

    def put(self, key: tuple[str, Source], ports: dict[tuple[str, int], Held]) -> None:
        """This is what is known of a device as one source reads it."""
        self.ports.pop(key, None)
        if ports:
            self.ports[key] = ports

    def watched(self, wave: Wave) -> Iterator[tuple[int, int, int]]:
        """Message, row and way of those that a wave has something of."""
        for message, taken in enumerate(wave.taken):
            for row, way in self.ports.get((taken.samples.device, taken.samples.source), ()):
                if row in taken.samples.row:
                    yield message, taken.samples.row.index(row), way

    def dump(self) -> list[list[Any]]:
        """For a snapshot."""
        return [
            [device, int(source), row, way, held.since_ns, held.last_ns, held.told, held.before_bps]
            for (device, source), own in self.ports.items()
            for (row, way), held in own.items()
        ]

    def load(self, kept: Iterable[Iterable[Any]]) -> None:
        """The inverse."""
        for device, source, row, way, *held in kept:
            self.ports.setdefault((device, Source(source)), {})[row, way] = Held(*held)
