"""Tracks the probes of one flow; computes losses by direction and round-trip times for each window. Pure.

Each reply has the number of probes of the flow that had arrived, so that the counts of two replies give the losses of
both directions between them. Probes that cannot be evaluated are discarded: around a stall of the prober, after a
restart of the responder, if the responder dropped requests itself, and if no responder runs.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

_MAX_RTT_NS = 1_000_000_000
"""A larger difference is a clock step."""
_MAX_GAP = 1024
"""After this many probes without a reply, the next reply counts as the first."""


class Reply(NamedTuple):
    """One reply: the number of probes that had arrived, two times by the responder's clock, and its arrival time."""

    number: int
    run: bytes
    dropped: int
    received_ns: int
    replied_ns: int
    arrived_ns: int


@dataclass(slots=True)
class Probe:
    """One sent probe; `sent_ns` is the kernel's time as soon as it is known."""

    sent_ns: int
    reply: Reply | None = None
    is_discarded: bool = False


class FlowWindow(NamedTuple):
    """The result for the probes of a flow that were sent in one window."""

    sent: int = 0
    """The number of sent probes, without the discarded ones."""
    forward_lost: int = 0
    reverse_lost: int = 0
    unanswered: int = 0
    """Lost in an unknown direction, because no later reply has a count."""
    discarded: int = 0
    reordered: int = 0
    lost_run: int = 0
    """The longest run of losses, which may have begun before the window."""
    rtt_ns: tuple[int, ...] = ()
    """Sorted round-trip times without the time at the responder."""
    responder_ns: tuple[int, ...] = ()
    """Sorted times at the responder."""

    @property
    def lost(self) -> int:
        """Return the number of all losses."""
        return self.forward_lost + self.reverse_lost + self.unanswered


@dataclass(slots=True)
class FlowProbes:
    """The probes of one flow since the last evaluated reply."""

    probes: dict[int, Probe] = field(default_factory=dict)
    next_sequence: int = 0
    _base: tuple[int, Reply] | None = None
    """The last reply before the next window."""
    _first: int = 0
    """The first probe of the next window."""
    _run: int = 0
    """Consecutive losses before that probe."""
    _newest: int = -1
    _reordered: int = 0

    def sent(self, now_ns: int) -> int:
        """Add a probe; return its sequence number."""
        sequence = self.next_sequence
        self.next_sequence += 1
        self.probes[sequence] = Probe(now_ns)
        return sequence

    def replied(self, sequence: int, reply: Reply) -> bool:
        """Add a reply; return False if no probe matches, or if the probe already has a reply."""
        probe = self.probes.get(sequence)
        if probe is None or probe.reply is not None:
            return False
        probe.reply = reply
        self._reordered += sequence < self._newest
        self._newest = max(self._newest, sequence)
        return True

    def discard(self, since_ns: int = 0) -> None:
        """Discard the probes without a reply since `since_ns`: this process stalled, or could not send."""
        for probe in self.probes.values():
            probe.is_discarded |= probe.reply is None and probe.sent_ns >= since_ns

    @property
    def missing_run(self) -> int:
        """Return the number of newest probes without a reply, including those whose timeout has not passed."""
        return self.next_sequence - 1 - self._newest

    def evaluate(self, end: int) -> FlowWindow:
        """Return the result of the probes before sequence number `end` that were in no earlier window."""
        window = [(number, self.probes[number]) for number in range(self._first, end) if number in self.probes]
        forward, reverse, unanswered, discarded = self._losses(end)
        answered = [(probe, probe.reply) for _, probe in window if probe.reply is not None]
        run = longest = self._run
        for _, probe in window:
            if not probe.is_discarded:
                run = run + 1 if probe.reply is None else 0
                longest = max(longest, run)
        if discarded:
            longest = run = 0  # the prober or the responder may have caused the run
        delays = sorted(max(0, reply.replied_ns - reply.received_ns) for _, reply in answered)
        rtts = (
            reply.arrived_ns - probe.sent_ns - max(0, reply.replied_ns - reply.received_ns) for probe, reply in answered
        )
        result = FlowWindow(
            len(window) - discarded, forward, reverse, unanswered, discarded, self._reordered, longest,
            tuple(sorted(rtt for rtt in rtts if 0 <= rtt <= _MAX_RTT_NS)), tuple(delays),
        )  # fmt: skip
        self._run, self._reordered = run, 0
        self._advance(end)
        return result

    def _losses(self, end: int) -> tuple[int, int, int, int]:
        """Return (forward, reverse, unanswered, discarded) of the probes before `end`."""
        forward = reverse = unanswered = discarded = 0
        base = self._base
        gap: list[int] = []
        for number in range(self._first if base is None else base[0] + 1, self.next_sequence):
            probe = self.probes.get(number)
            if probe is None or probe.reply is None:
                gap.append(number)
                continue
            lost = [one for one in gap if self._first <= one < end and not self._is_discarded(one)]
            discarded += sum(self._first <= one < end and self._is_discarded(one) for one in gap)
            if base is None or not lost:
                unanswered += len(lost)
            elif base[1].run != probe.reply.run or base[1].dropped != probe.reply.dropped:
                discarded += len(lost)
            else:
                arrived = max(0, min(len(gap), (probe.reply.number - base[1].number - 1) % 2**32))
                back = min(len(lost), round(arrived * len(lost) / len(gap)))
                reverse, forward = reverse + back, forward + len(lost) - back
            base, gap = (number, probe.reply), []
            if number >= end:
                return forward, reverse, unanswered, discarded
        for one in gap:
            if self._first <= one < end:
                is_discarded = self._is_discarded(one)
                discarded, unanswered = discarded + is_discarded, unanswered + (not is_discarded)
        return forward, reverse, unanswered, discarded

    def _is_discarded(self, number: int) -> bool:
        probe = self.probes.get(number)
        return probe is None or probe.is_discarded

    def _advance(self, end: int) -> None:
        """Remove the probes before `end`, except for the last reply."""
        for number in range(self._first, end):
            probe = self.probes.pop(number, None)
            if probe is not None and probe.reply is not None:
                self._base = number, probe.reply
        if self._base is not None and end - self._base[0] > _MAX_GAP:
            self._base = None
        self._first = end
