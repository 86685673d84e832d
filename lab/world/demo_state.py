"""The states of ports and devices of the demo's world, and arithmetic of intervals."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lab.world.columns import PRIORITY, Column
from lab.world.effects import Interval
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX

_FRAME_BYTES = 4096


@dataclass(frozen=True, slots=True)
class PortState:
    """One port at a moment; counters since the device booted."""

    name: str
    speed_bps: int
    admin_up: bool
    oper_up: bool
    last_change_ns: int
    transitions: int
    counters: dict[Column, int] = field(default_factory=dict)
    """Counters by metric and index; one that is missing is zero."""
    worst_lane: int = 0
    """The lane with the most corrected bits."""

    def counter(self, metric: Metric, index: int = NO_INDEX) -> int:
        """Return the value of a counter."""
        return self.counters.get((metric, index), 0)

    def pause_frames(self, useconds: int) -> int:
        """Return the frames that pause for a time: each for 65535 quanta of 512 bit times (IEEE 802.1Qbb)."""
        return useconds * self.speed_bps // (10**6 * 65535 * 512)

    @property
    def rx_bytes(self) -> int:
        """Return the received bytes."""
        return self.counter(Metric.RX_BYTES)

    @property
    def tx_bytes(self) -> int:
        """Return the sent bytes."""
        return self.counter(Metric.TX_BYTES)

    @property
    def rx_packets(self) -> int:
        """Return the received frames, all of one size, as training traffic mostly is."""
        return self.rx_bytes // _FRAME_BYTES

    @property
    def tx_packets(self) -> int:
        """Return the sent frames; see rx_packets."""
        return self.tx_bytes // _FRAME_BYTES

    @property
    def fcs_errors(self) -> int:
        """Return the frames with a bad checksum."""
        return self.counter(Metric.RX_FCS_ERRORS)

    @property
    def corrected_bits(self) -> int:
        """Return the bits that FEC corrected."""
        return self.counter(Metric.FEC_CORRECTED_BITS)

    @property
    def pauses_us(self) -> int:
        """Return for how long it paused the far side."""
        return self.counter(Metric.PFC_TX_PAUSE_USECONDS, PRIORITY)

    @property
    def paused_us(self) -> int:
        """Return for how long the far side paused it."""
        return self.counter(Metric.PFC_RX_PAUSE_USECONDS, PRIORITY)

    @property
    def marked_packets(self) -> int:
        """Return the received packets with an ECN mark."""
        return self.counter(Metric.ROCE_ECN_MARKED_PACKETS)

    @property
    def cnps_handled(self) -> int:
        """Return how many congestion notifications it received."""
        return self.counter(Metric.CNP_HANDLED)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device at a moment; `boot_ns` is when it last came up, `is_up` whether it answers."""

    name: str
    is_up: bool
    boot_ns: int


def merge(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the intervals in order, adjacent and overlapping ones merged."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if merged and interval.start_ns <= merged[-1].end_ns:
            merged[-1] = Interval(merged[-1].start_ns, max(merged[-1].end_ns, interval.end_ns))
        else:
            merged.append(interval)
    return tuple(merged)


def covers(intervals: Sequence[Interval], at_ns: int) -> bool:
    """Return whether one of the ordered intervals contains a moment."""
    i = bisect_right(intervals, at_ns, key=lambda interval: interval.start_ns)
    return i > 0 and at_ns < intervals[i - 1].end_ns


def length_ns(intervals: Sequence[Interval], from_ns: int, until_ns: int) -> int:
    """Return how much of [from, until) the intervals cover."""
    return sum(max(0, min(i.end_ns, until_ns) - max(i.start_ns, from_ns)) for i in intervals)
