"""Builds the messages of a fold's outputs, with identities from the source topic, so that repeats are equal. Pure.

The run is drawn randomly once per partition and stored in the committed metadata. Sequences increase within a run and
have gaps, because a unit without values of a device also takes a number.
"""

import re
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from collectors.bridge.fold import Gathered, NumberedEvent, Output, Position, Refused
from collectors.core.metrics import CollectorMetrics
from streams.wire.models import Event, Rejected, RowKind, Samples, Source
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, REJECTED, SAMPLES, Record, encode

_LONGEST_VALUE = 64 * 1024
_MARK = "railsight1"
_PATTERN = re.compile(rf"{_MARK} ([0-9a-f]{{1,16}}) (\d{{1,19}})((?: \d{{1,19}})*)")


Place = tuple[str, int]
"""A topic and its partition."""

_TOPICS = (SAMPLES.name, EVENTS.name, COLLECTOR_STATUS.name, REJECTED.name)


class CommittedState(NamedTuple):
    """The metadata beside a committed offset: the partition's run, the next unit's number, and declared cuts."""

    run: int
    number: int
    cuts: tuple[int, ...] = ()

    def text(self) -> str:
        """Return the metadata text of a commit."""
        return " ".join([_MARK, f"{self.run:x}", str(self.number), *map(str, self.cuts)])


def committed_state(text: str | None) -> CommittedState | None:
    """Parse a commit's metadata; None if it is not the bridge's."""
    found = _PATTERN.fullmatch(text or "")
    if found is None or not (run := int(found[1], 16)):
        return None
    return CommittedState(run, int(found[2]), tuple(map(int, found[3].split())))


def state_at(position: Position, run: int, cuts: list[int]) -> str:
    """Return the metadata of a position, without the cuts before it, which were made."""
    return CommittedState(run, position.number, tuple(cut for cut in cuts if cut > position.offset)).text()


@dataclass(frozen=True, slots=True)
class MessageIdentity:
    """The identity of one partition's messages."""

    collector: str
    topic: str
    partition: int
    run: int

    def samples(self, gathered: Gathered) -> Samples:
        """Return the message of a reading."""
        reading = gathered.reading
        return Samples(
            gathered.device, Source.SOURCE_BRIDGE, self.collector, self.run, gathered.number, reading.sampled_at_ns,
            reading.received_at_ns, reading.boot_id, RowKind.ROW_KIND_PORT, reading.row, reading.rows_digest,
            reading.counters, reading.gauges, reading.row_delay_us,
        )  # fmt: skip

    def record(self, output: Output, now_ns: int) -> tuple[Record, int]:
        """Return the record of an output, and its rows of samples."""
        match output:
            case Gathered():
                return encode(SAMPLES, self.samples(output)), len(output.reading.row)
            case NumberedEvent(device, number, device_event, received_ns):
                event = Event(
                    device, device_event.port, device_event.kind, device_event.at_ns, received_ns, Source.SOURCE_BRIDGE,
                    self.collector, self.run, number, device_event.detail, device_event.code,
                )  # fmt: skip
                return encode(EVENTS, event), 0
            case Refused(offset, reason, value):
                refused = Rejected(
                    self.topic, self.partition, offset, "bridge", reason[:1000], now_ns, value[:_LONGEST_VALUE]
                )
                return encode(REJECTED, refused), 0


class Delivered:
    """Counts the records of a publisher without a spool, from its metrics."""

    def __init__(self, metrics: CollectorMetrics) -> None:
        self._metrics = metrics

    def sent(self) -> int:
        """Return the records accepted since the process began."""
        return sum(self._metrics.value("offered", name) - self._metrics.value("refused", name) for name in _TOPICS)

    def settled(self) -> int:
        """Return how many of these records, in order, Kafka has acknowledged or can never accept."""
        return sum(
            self._metrics.value("acknowledged", name) + self._metrics.value("rejected", name) for name in _TOPICS
        )


class _Waiting(NamedTuple):
    mark: int
    place: Place
    position: Position


class Ledger:
    """Stores positions until the messages before them are settled, and the newest position to commit per partition."""

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
        """Return the positions that may be committed and are not committed yet."""
        return {place: p for place, p in self._ready.items() if self._committed.get(place) != p}

    def committed(self, positions: dict[Place, Position]) -> None:
        """Record committed positions."""
        self._committed |= positions

    def base(self, place: Place) -> Position:
        """Return the newest position of a partition that is committed or may be committed."""
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
