"""Measures the offset of a clock from the arrival times of its samples, and corrects their times by it.

A sample arrives after its time by its delay. A clock that is ahead shows at the first sample. A clock that is behind
looks like a delay, but its difference is constant, while the delay of a backlog shrinks as it is sent. Nothing is
stored for a source with a right clock.
"""

from dataclasses import astuple, dataclass, replace
from enum import Enum
from typing import Any

from streams.detect.thresholds import ns
from streams.wire.models import CollectorStatus, Source, Symptom
from streams.wire.symptoms import ClockOffset

CLOCK_AHEAD_NS = ns(1)
"""Samples of a device whose clock is further ahead than this are dated by their arrival (DESIGN 2.1)."""

CLOCK_BEHIND_NS = ns(10)
"""Samples that arrive within this time are dated by the device: a collector sends them within seconds."""

_MEASURED_OVER_NS = ns(30)
_MIN_SAMPLES = 3
_SPREAD_NS = ns(2)
"""Offsets within this are equal, because delays differ by less. A backlog that is sent 7 % faster than it was recorded
changes by more while the clock is measured."""

_RIGHT_FOR_NS = ns(30)
"""A clock is right again after this time without a wrong sample; a clock that jumps back and forth stays wrong."""

_REPORTED_SHARE = 10
"""Another offset is reported if it differs by a tenth, so that the reports of a drifting clock become rarer."""


class ClockChange(Enum):
    """The conclusion from a sample about its source's clock."""

    NONE = "none"
    MEASURED = "measured"
    """Another offset applies from this sample on."""
    AHEAD = "ahead"
    """The clock is certainly wrong, by an amount that is not constant."""
    RIGHT = "right"
    """The clock is right again."""


def is_right(read_ns: int, arrived_ns: int) -> bool:
    """Return whether a sample may be of a right clock."""
    return -CLOCK_BEHIND_NS <= read_ns - arrived_ns <= CLOCK_AHEAD_NS


@dataclass(slots=True)
class SourceClock:
    """The clock of a source that is or may be wrong. Times are of arrival, offsets are the clock's, in ns."""

    offset_ns: int = 0
    """The measured offset, with which samples are corrected; 0 until it is measured."""
    is_off: bool = False
    """True if the clock is certainly wrong, though possibly not by a constant amount."""
    off_since_ns: int = 0
    """The first sample that the offset does not explain."""
    since_ns: int = 0
    """The first of the last samples that differ by the same amount."""
    count: int = 0
    low_ns: int = 0
    high_ns: int = 0
    was_ahead: bool = False
    first_ns: int = 0
    """The first wrong sample."""
    last_ns: int = 0
    """The last wrong sample."""
    right_ns: int = 0
    """The first right sample after it; 0 if there is none."""
    reported_ns: int = 0
    """The last reported offset; 0 if none was."""

    def add(self, read_ns: int, arrived_ns: int) -> ClockChange:
        """Process the time of a sample by its own clock, and the time of its arrival."""
        if is_right(read_ns, arrived_ns):
            return self._add_right(arrived_ns)
        offset_ns = read_ns - arrived_ns
        is_ahead = offset_ns > CLOCK_AHEAD_NS
        self.was_ahead = self.was_ahead or is_ahead
        self.first_ns, self.last_ns = min(self.first_ns or arrived_ns, arrived_ns), max(self.last_ns, arrived_ns)
        if self.right_ns < self.last_ns:
            self.right_ns = 0
        if self.offset_ns and is_right(read_ns - self.offset_ns, arrived_ns):
            self.count = self.off_since_ns = 0
            return ClockChange.NONE
        self.off_since_ns = min(self.off_since_ns or arrived_ns, arrived_ns)
        if self._is_measured(offset_ns, arrived_ns):
            # The sample with the smallest delay is the most exact.
            self.offset_ns, self.is_off = self.high_ns, True
            self.count = self.off_since_ns = 0
            return ClockChange.MEASURED
        if not is_ahead or arrived_ns - self.off_since_ns < _MEASURED_OVER_NS:
            return ClockChange.NONE
        if self.is_off and offset_ns < 2 * abs(self.reported_ns):
            return ClockChange.NONE
        self.is_off = True
        return ClockChange.AHEAD

    def _is_measured(self, offset_ns: int, arrived_ns: int) -> bool:
        """Return whether enough consecutive samples differ by the same amount."""
        low_ns, high_ns = min(self.low_ns, offset_ns), max(self.high_ns, offset_ns)
        if not self.count or high_ns - low_ns > _SPREAD_NS:
            self.since_ns, self.count, low_ns, high_ns = arrived_ns, 0, offset_ns, offset_ns
        self.since_ns = min(self.since_ns, arrived_ns)
        self.count, self.low_ns, self.high_ns = self.count + 1, low_ns, high_ns
        return self.count >= _MIN_SAMPLES and arrived_ns - self.since_ns >= _MEASURED_OVER_NS

    def _add_right(self, arrived_ns: int) -> ClockChange:
        """Process a right sample. One that is ahead proves a wrong clock; one that is behind may be late."""
        if arrived_ns <= self.last_ns:
            return ClockChange.NONE
        self.count = 0
        self.right_ns = min(self.right_ns or arrived_ns, arrived_ns)
        is_retained = self.is_off or self.was_ahead
        return ClockChange.NONE if is_retained and arrived_ns - self.last_ns < _RIGHT_FOR_NS else ClockChange.RIGHT

    def corrected_ns(self, read_ns: int, arrived_ns: int) -> int:
        """Return the event time of a sample or event, which is not after its arrival."""
        if is_right(read_ns, arrived_ns):
            return read_ns
        at_ns = read_ns - self.offset_ns
        return at_ns if at_ns <= arrived_ns + CLOCK_AHEAD_NS else arrived_ns

    def report(self, change: ClockChange) -> tuple[ClockOffset, int, int] | None:
        """Return the report of a change, its start, and the earliest time of its conclusion; None if nothing is new."""
        if change is ClockChange.RIGHT:
            return (ClockOffset(is_right=True), self.first_ns, self.right_ns) if self.reported_ns else None
        is_measured = change is ClockChange.MEASURED
        offset_ns = self.offset_ns if is_measured else self.high_ns
        step_ns = max(CLOCK_AHEAD_NS, abs(self.reported_ns) // _REPORTED_SHARE)
        if change is ClockChange.NONE or (self.reported_ns and abs(offset_ns - self.reported_ns) < step_ns):
            return None
        began_ns = self.since_ns if is_measured else self.off_since_ns
        since_ns = began_ns if self.reported_ns else self.first_ns
        self.reported_ns = offset_ns
        payload = ClockOffset(is_right=False, offset_ns=offset_ns, is_constant=is_measured)
        return payload, since_ns, began_ns + _MEASURED_OVER_NS


_OF_HOSTS = (Source.SOURCE_NIC, Source.SOURCE_HOST)
_MAX_COLLECTORS = 4096
"""The most wrong clocks. A status names its collector, and any writer of statuses may choose the name."""


class CollectorClocks:
    """The clocks of the collectors of one partition's devices; right clocks take no memory."""

    def __init__(self) -> None:
        self._clocks: dict[str, SourceClock] = {}

    def on_status(self, status: CollectorStatus) -> list[Symptom]:
        """Return the symptoms that the time of a status shows of its collector's clock."""
        sent_ns, arrived_ns, name = status.sent_at_ns, status.at_ns, status.collector
        if not sent_ns or status.source in _OF_HOSTS:
            return []
        clock = self._clocks.get(name)
        if clock is None:
            if is_right(sent_ns, arrived_ns) or len(self._clocks) >= _MAX_COLLECTORS:
                return []
            clock = self._clocks[name] = SourceClock()
        change = clock.add(sent_ns, arrived_ns)
        if change is ClockChange.RIGHT:
            del self._clocks[name]
        reported = clock.report(change)
        if reported is None:
            return []
        payload, since_ns, at_ns = reported
        return [Symptom(name, "", replace(payload, of_collector=True), at_ns, since_ns, status.source)]

    def dump(self) -> list[list[Any]]:
        return [[name, *astuple(clock)] for name, clock in self._clocks.items()]

    def load(self, data: list[list[Any]]) -> None:
        self._clocks = {name: SourceClock(*clock) for name, *clock in data}
