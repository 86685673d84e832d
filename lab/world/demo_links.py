"""Models the links and ports of the demo's world: states, traffic in each direction, and its move to other uplinks.

The uplinks of one switch share their traffic. If a policy withdraws a link or it is administratively down, its traffic
moves in equal parts to the remaining uplinks. If none remains, a withdrawn link still carries its traffic, because the
policy only makes it the last choice.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lab.world.bad_links import BadLinkState, Repair
from lab.world.columns import PRIORITY, Column
from lab.world.effects import Interval
from lab.world.port_configuration import PortConfiguration
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Link
from streams.wire.models import NO_INDEX


@dataclass(frozen=True, slots=True)
class PortState:
    """One port at a moment; its counters start at the boot of its device."""

    name: str
    speed_bps: int
    admin_up: bool
    oper_up: bool
    last_change_ns: int
    transitions: int
    counters: dict[Column, int] = field(default_factory=dict)
    """Counters by metric and index; a missing one is zero."""
    worst_lane: int = 0
    """The lane with the most corrected bits."""

    def counter(self, metric: Metric, index: int = NO_INDEX) -> int:
        """Return the value of a counter."""
        return self.counters.get((metric, index), 0)

    def pause_frames(self, useconds: int) -> int:
        """Return the number of frames that pause for a time: each for 65535 quanta of 512 bit times (IEEE 802.1Qbb)."""
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
        """Return the received frames; all have one size, as most training traffic has."""
        return self.counter(Metric.RX_PACKETS)

    @property
    def tx_packets(self) -> int:
        """Return the sent frames; see rx_packets."""
        return self.counter(Metric.TX_PACKETS)

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
        """Return the time for which the port paused the far side."""
        return self.counter(Metric.PFC_TX_PAUSE_USECONDS, PRIORITY)

    @property
    def paused_us(self) -> int:
        """Return the time for which the far side paused the port."""
        return self.counter(Metric.PFC_RX_PAUSE_USECONDS, PRIORITY)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device at a moment; `boot_ns` is its last boot time, `is_up` is True if it answers."""

    name: str
    is_up: bool
    boot_ns: int


def merge(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the intervals in order, with adjacent and overlapping ones merged."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if merged and interval.start_ns <= merged[-1].end_ns:
            merged[-1] = Interval(merged[-1].start_ns, max(merged[-1].end_ns, interval.end_ns))
        else:
            merged.append(interval)
    return tuple(merged)


def covers(intervals: Sequence[Interval], at_ns: int) -> bool:
    """Return True if one of the ordered intervals contains a moment."""
    i = bisect_right(intervals, at_ns, key=lambda interval: interval.start_ns)
    return i > 0 and at_ns < intervals[i - 1].end_ns


def length_ns(intervals: Sequence[Interval], from_ns: int, until_ns: int) -> int:
    """Return the part of [from, until) that the intervals cover."""
    return sum(max(0, min(i.end_ns, until_ns) - max(i.start_ns, from_ns)) for i in intervals)


_S = 1_000_000_000


@dataclass(slots=True)
class CabledLink:
    """A link with all causes of its downs, its traffic in each direction, and the changes of that traffic."""

    link: Link
    losses: tuple[Interval, ...]
    """Losses of signal that cause bad frames: not those by configuration or by a reboot."""
    faults_down: tuple[Interval, ...]
    bytes_per_s: dict[Port, int]
    """The usual traffic by sending end."""
    shares: dict[Port, list[tuple[Interval, float]]]
    """The additional traffic as a share of the usual traffic, by sending end."""
    bad: BadLinkState | None = None
    """The state of its bad part, whose losses are among the others."""
    configured_down: tuple[Interval, ...] = ()
    withdrawn: dict[Port, tuple[Interval, ...]] = field(default_factory=dict)
    """The intervals in which the traffic moves to other links, by sending end."""
    _of_faults: tuple[tuple[Interval, ...], tuple[Interval, ...]] = field(init=False)
    """Losses, and all downs, without those of a bad part."""

    def __post_init__(self) -> None:
        self._of_faults = self.losses, self.faults_down
        self._add_bad_losses()

    def _add_bad_losses(self) -> None:
        if self.bad is not None:
            own = self.bad.losses
            self.losses, self.faults_down = (merge((*intervals, *own)) for intervals in self._of_faults)

    @property
    def down(self) -> tuple[Interval, ...]:
        """Return the intervals without a signal, for each reason."""
        return merge((*self.faults_down, *self.configured_down)) if self.configured_down else self.faults_down

    def configure(self, configuration: PortConfiguration, at_ns: int) -> None:
        """Apply the configuration of both ends as changed at a moment."""
        a, z = self.link.a, self.link.z
        self.configured_down = merge((*configuration.disabled(a), *configuration.disabled(z)))
        for sender, receiver in ((a, z), (z, a)):
            self.withdrawn[sender] = merge((*configuration.withdrawn(sender, receiver), *self.configured_down))
        if self.bad is not None and not any(covers(intervals, at_ns) for intervals in self.withdrawn.values()):
            self.bad.return_to_service(at_ns)
            self._add_bad_losses()

    def repair(self, at_ns: int) -> Repair | None:
        """Repair the next part at a moment; None if no part is bad."""
        repair = None if self.bad is None else self.bad.repair(at_ns)
        self._add_bad_losses()
        return repair

    def up_ns(self, within: Interval, from_ns: int, until_ns: int) -> int:
        """Return the time for which the link is up within both the interval and [from, until)."""
        return _up_ns(self.down, within, from_ns, until_ns)

    def offered_bytes(self, sender: Port, from_ns: int, until_ns: int, *, is_enabled: bool = False) -> int:
        """Return the bytes that one end sends in [from, until) if no traffic moves.

        With `is_enabled`, downs by configuration are ignored.
        """
        down = self.faults_down if is_enabled else self.down
        up_ns = _up_ns(down, Interval(from_ns, until_ns), from_ns, until_ns)
        for interval, share in self.shares[sender]:
            up_ns += int(share * _up_ns(down, interval, from_ns, until_ns))
        return self.bytes_per_s[sender] * max(0, up_ns) // _S

    def is_remaining(self, sender: Port, at_ns: int) -> bool:
        """Return True if the link carries the traffic of withdrawn links at a moment."""
        return not covers(self.withdrawn.get(sender, ()), at_ns) and not covers(self.down, at_ns)

    def moved_bytes(self, sender: Port, from_ns: int, until_ns: int) -> int:
        """Return the bytes of an interval that one end sends on other links, if there are any."""
        if not covers(self.withdrawn.get(sender, ()), from_ns):
            return 0
        return self.offered_bytes(sender, from_ns, until_ns, is_enabled=True)


@dataclass(slots=True)
class UplinkGroup:
    """The links between a lower device and all upper devices; their traffic in each direction is shared equally."""

    members: list[CabledLink] = field(default_factory=list)

    def sent_bytes(self, cabled: CabledLink, sender: Port, from_ns: int, until_ns: int) -> int:
        """Return the bytes that one end of a link of the group sends in [from, until)."""
        ends = [(member, _end_like(member, cabled, sender)) for member in self.members]
        if not any(member.withdrawn.get(end) for member, end in ends):
            return cabled.offered_bytes(sender, from_ns, until_ns)
        total = 0
        for start_ns, end_ns in _segments(ends, from_ns, until_ns):
            remaining = [member for member, end in ends if member.is_remaining(end, start_ns)]
            if not remaining or cabled in remaining:
                total += cabled.offered_bytes(sender, start_ns, end_ns)
            if remaining and cabled in remaining:
                moved = sum(member.moved_bytes(end, start_ns, end_ns) for member, end in ends)
                total += moved // len(remaining)
        return total


def _end_like(member: CabledLink, cabled: CabledLink, sender: Port) -> Port:
    """Return the end of another link of the group that sends in the same direction."""
    return member.link.a if sender == cabled.link.a else member.link.z


def _segments(ends: list[tuple[CabledLink, Port]], from_ns: int, until_ns: int) -> Iterable[tuple[int, int]]:
    """Return the parts of [from, until) in which the same links are withdrawn and down."""
    edges = {from_ns, until_ns}
    for member, end in ends:
        for interval in (*member.withdrawn.get(end, ()), *member.down):
            edges.update(edge for edge in interval if from_ns < edge < until_ns)
    ordered = sorted(edges)
    return pairwise(ordered)


def _up_ns(down: tuple[Interval, ...], within: Interval, from_ns: int, until_ns: int) -> int:
    start_ns, end_ns = max(within.start_ns, from_ns), min(within.end_ns, until_ns)
    return end_ns - start_ns - length_ns(down, start_ns, end_ns) if end_ns > start_ns else 0
