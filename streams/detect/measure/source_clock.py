"""Measures how far a device's clock is from the time at which its samples arrive, and corrects their times by it.

A sample arrives after its time by its delay. A clock that is ahead shows at the first sample; one that is behind looks
like a delay, but its difference stays the same: the delay of a backlog shrinks while it is sent.
Nothing is stored for a source whose clock is right.
"""

from dataclasses import dataclass
from enum import Enum

from streams.detect.thresholds import ns

CLOCK_AHEAD_NS = ns(1)
"""Samples of a device whose clock is further ahead than this are dated by their arrival (DESIGN 2.1)."""

CLOCK_BEHIND_NS = ns(10)
"""Samples that arrive within this time are dated by the device: a collector sends them within seconds."""

_MEASURED_OVER_NS = ns(30)
_MIN_SAMPLES = 3
_SPREAD_NS = ns(2)
"""A clock is off by the same amount within this, as delays differ by less. A backlog that is sent 7 % faster than it
was recorded changes by more in the time in which the clock is measured."""


class ClockChange(Enum):
    """The conclusion from a sample on its source's clock."""

    NONE = "none"
    MEASURED = "measured"
    """Another offset applies from this sample on."""
    RIGHT = "right"
    """The clock is right again."""


@dataclass(slots=True)
class SourceClock:
    """The clock of a source that is off, or may be. Times are of arrival, offsets those of the clock, in ns."""

    offset_ns: int = 0
    """The measured offset, by which samples are corrected; 0 until it is measured."""
    is_off: bool = False
    """The clock is off for certain, though by an amount that may not be constant."""
    off_since_ns: int = 0
    """The first of the samples in a row that the offset does not explain."""
    since_ns: int = 0
    """The first of the last samples that differ by the same amount."""
    count: int = 0
    low_ns: int = 0
    high_ns: int = 0

    def add(self, read_ns: int, arrived_ns: int) -> ClockChange:
        """Take the time of a sample by its own clock, and that of its arrival."""
        offset_ns = read_ns - arrived_ns
        if -CLOCK_BEHIND_NS <= offset_ns <= CLOCK_AHEAD_NS:
            return ClockChange.RIGHT
        if self.offset_ns and -CLOCK_BEHIND_NS <= offset_ns - self.offset_ns <= CLOCK_AHEAD_NS:
            self.count = self.off_since_ns = 0
            return ClockChange.NONE
        self.off_since_ns = self.off_since_ns or arrived_ns
        low_ns, high_ns = min(self.low_ns, offset_ns), max(self.high_ns, offset_ns)
        if not self.count or high_ns - low_ns > _SPREAD_NS:
            self.since_ns, self.count, low_ns, high_ns = arrived_ns, 0, offset_ns, offset_ns
        self.count, self.low_ns, self.high_ns = self.count + 1, low_ns, high_ns
        if offset_ns > CLOCK_AHEAD_NS and arrived_ns - self.off_since_ns >= _MEASURED_OVER_NS:
            self.is_off = True
        if self.count < _MIN_SAMPLES or arrived_ns - self.since_ns < _MEASURED_OVER_NS:
            return ClockChange.NONE
        # The sample with the least delay shows it best.
        self.offset_ns, self.is_off = high_ns, True
        self.count = self.off_since_ns = 0
        return ClockChange.MEASURED

    def corrected_ns(self, read_ns: int, arrived_ns: int) -> int:
        """Return the event time of a sample or event, which is not after its arrival."""
        at_ns = read_ns - self.offset_ns
        return at_ns if at_ns <= arrived_ns + CLOCK_AHEAD_NS else arrived_ns
