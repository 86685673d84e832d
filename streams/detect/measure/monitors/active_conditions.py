"""Holds the conditions that last at ports: since when, when they were last seen, and whether they were reported.

There are none in a healthy fabric. Which conditions these are is for the monitors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.detect.measure.storage.message_batch import MessageBatch
from streams.wire.models import Samples, Source


@dataclass(slots=True)
class ActiveCondition:
    """A condition of one port; `last_ns` is the last reading that showed it."""

    since_ns: int
    last_ns: int
    is_reported: bool = False
    before_bps: float = 0.0
    """The rate before it began, where the condition is compared with one."""

    def has_lasted(self, after_ns: int) -> bool:
        """Return once, when it has lasted for `after_ns`, that its beginning is to be reported."""
        lasts = not self.is_reported and self.last_ns - self.since_ns >= after_ns
        self.is_reported = self.is_reported or lasts
        return lasts


class ActiveConditions:
    """By device and source, then by row and direction; the direction is 0 where there is one only."""

    def __init__(self) -> None:
        self.by_source: dict[tuple[str, Source], dict[tuple[str, int], ActiveCondition]] = {}
        """Callers check first whether it is empty, as in a healthy fabric, which costs no call."""

    def get(self, samples: Samples, row: str, direction: int = 0) -> ActiveCondition | None:
        """Return the condition of a port as one source reads it."""
        return self.by_source.get((samples.device, samples.source), {}).get((row, direction))

    def extend(self, samples: Samples, row: str, since_ns: int, at_ns: int, direction: int = 0) -> ActiveCondition:
        """Begin a condition at `since_ns`, or extend the one that lasts, to `at_ns`."""
        own = self.by_source.setdefault((samples.device, samples.source), {})
        key = row, direction
        condition = own.get(key) or own.setdefault(key, ActiveCondition(since_ns, at_ns))
        condition.last_ns = at_ns
        return condition

    def end(self, samples: Samples, row: str, direction: int = 0) -> ActiveCondition | None:
        """End a condition; return it where its beginning was reported."""
        key = samples.device, samples.source
        condition = self.by_source.get(key, {}).pop((row, direction), None)
        if not self.by_source.get(key, True):
            del self.by_source[key]
        return condition if condition is not None and condition.is_reported else None

    def put(self, key: tuple[str, Source], conditions: dict[tuple[str, int], ActiveCondition]) -> None:
        """Replace all conditions of a device as one source reads it."""
        self.by_source.pop(key, None)
        if conditions:
            self.by_source[key] = conditions

    def active_cells(self, batch: MessageBatch) -> Iterator[tuple[int, int, int]]:
        """Yield the message, row and direction of the conditions of ports that a batch reads."""
        for number, message in enumerate(batch.messages):
            for row, direction in self.by_source.get((message.samples.device, message.samples.source), ()):
                if row in message.samples.row:
                    yield number, message.samples.row.index(row), direction

    def dump(self) -> list[list[Any]]:
        """Return the state for a snapshot."""
        return [
            [device, int(source), row, direction, one.since_ns, one.last_ns, one.is_reported, one.before_bps]
            for (device, source), own in self.by_source.items()
            for (row, direction), one in own.items()
        ]

    def load(self, data: Iterable[Iterable[Any]]) -> None:
        """Restore what `dump` returned."""
        for device, source, row, direction, *fields in data:
            condition = ActiveCondition(*fields)
            self.by_source.setdefault((device, Source(source)), {})[row, direction] = condition
