"""Detects silent sources by the arrival clock, and finds the oldest live one, which limits the watermark.

A source is one way of reading one device (gNMI, SNMP, NIC, host). Its limit follows from the cadence that its collector
reports, or else from the intervals between samples, once there are enough of them. Times that every message needs (the
next deadline, the oldest source) are in arrays beside the sources.

The samples and statuses of one run of a collector count, until neither has arrived for the limit. Otherwise another run
that sends samples of a device that is dead, or statuses with a long cadence, would hide its silence.
"""

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streams.detect.detectors.telemetry_stale import StaleParams
from streams.detect.evidence.device_evidence import AGENTS
from streams.detect.measure.source_clock import SourceClock
from streams.detect.thresholds import ns
from streams.wire.models import IDLE_NS, CollectorStatus, Source, Symptom
from streams.wire.symptoms import Restart, SourceSilence

MIN_INTERVALS = 4
"""The fewest intervals from which a cadence is learned: fewer may be random if a recording begins in a gap."""

_MIN_LONG, _LONG_NS, _REGULAR = 2, ns(300), 1.1
"""Two intervals of more than 5 minutes are a cadence if they differ by at most a tenth: outages are not regular."""

TRANSPORT_NS = ns(5)
"""Silence counts from the newest reading if that arrived within this time, so that it does not depend on the transport
time. Otherwise it counts from the arrival, whatever the clock of the device."""

MAX_INTERVALS = 16
_SAME_READING_NS = ns(1)
"""States and counters of one poll are up to 1 s apart (in the recordings), which is not a cadence."""


_SHORTEST_GAP_NS = ns(10)
_LATENESS_NS = ns(30)
"""The gaps of a source are retained for this long after they end, because a late reading may fill one."""
_PAUSE_NS = ns(60)
"""If nothing at all arrived for this long, the collectors or railsight itself were stopped: every source gets its limit
again from then on."""
_TARGETS_OF_COLLECTOR = 3
"""The fewest sources that are no coincidence if all are silent together, as `[detect.grouping] devices`."""
_RARER = 5
"""One in this number of the newest intervals may be a gap: three of sixteen. More frequent intervals are a cadence."""

log = logging.getLogger(__name__)

_MIN_UNKNOWN = 25_000
_UNKNOWN_FACTOR = 2
"""The limit of unknown devices in a partition: twice the devices of the inventory, or more than the 21,504 devices of
the largest published fabric without an inventory. 100,000 unknown devices took 177 MiB, and `attribute` 388 MB."""


@dataclass(slots=True)
class SourceState:
    """The state of one source. Times are event times in ns, except `arrived_ns`; 0 before the first sample."""

    device: str
    source: Source
    first_ns: int
    index: int = 0
    """The index of its times in the arrays."""
    last_ns: int = 0
    arrived_ns: int = 0
    """The newest arrival of a sample."""
    clock: SourceClock | None = None
    """None if its clock is right."""
    silent: bool = False
    cadence_ns: int = 0
    limit_ns: int = 0
    """The longest interval without a sample that is not silence; follows from the cadence, if known."""
    boot_id: int = 0
    collector: str = ""
    status_ns: int = 0
    status_gap_ns: tuple[int, int] = (0, 0)
    """The newest interval without a status that was longer than half the limit."""
    unreachable: str = ""
    ended: bool = False
    """True if its collector ended in order, and nothing has arrived since."""
    intervals_ns: list[int] = field(default_factory=list)
    """The newest intervals, while no collector reports the cadence."""
    unevaluated_gaps: list[tuple[int, int]] = field(default_factory=list)
    """Gaps before the cadence was known, as (last, next)."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Reported gaps whose end is not final, because a late sample may lie in one."""
    restarts: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Its recent restarts: the readings before and after, and the boots before and after."""
    run: int = 0
    """The run of the collector that counts; 0 if unknown."""
    other: tuple[int, int, int] = (0, 0, 0)
    """The newest sample of another run: run, time and arrival."""

    @property
    def known_cadence_ns(self) -> int:
        """Return the cadence that its collector reports, else the longest usual interval; 0 if neither is known.

        An interval is usual if at least a fifth of the newest intervals, and at least one, exceed it. A poll may be
        several messages, and some devices alternate between two intervals, so the median is too short. Intervals below
        a second count only for a source with hardly any others.
        """
        if self.cadence_ns:
            return self.cadence_ns
        known = [interval for interval in self.intervals_ns if interval >= _SAME_READING_NS]
        count = len(known)
        if _MIN_LONG <= count < MIN_INTERVALS and known[0] > _LONG_NS:
            shortest, longest = min(known), max(known)
            if shortest > _LONG_NS and longest <= _REGULAR * shortest:
                return longest
        if count < MIN_INTERVALS:
            known, count = self.intervals_ns, len(self.intervals_ns)
            if count < MAX_INTERVALS:
                return 0
        larger = count // _RARER or 1
        return sorted(known)[count - 1 - larger]


@dataclass(slots=True)
class CollectorArrivals:
    """The times at which anything of a collector arrived: a sample or a status of any of its targets."""

    targets: set[str] = field(default_factory=set)
    """The first targets; more than that many decide nothing."""
    newest_ns: int = 0
    gap_ns: tuple[int, int] = (0, 0)
    """The newest interval of the shortest limit and longer in which nothing arrived."""
    has_room: bool = True
    """False if no more targets are retained."""

    def add(self, target: str, arrived_ns: int) -> None:
        if self.has_room:
            self.targets.add(target)
            self.has_room = len(self.targets) < _TARGETS_OF_COLLECTOR
        if arrived_ns > self.newest_ns:
            if arrived_ns - self.newest_ns >= _SHORTEST_GAP_NS:
                self.gap_ns = self.newest_ns, arrived_ns
            self.newest_ns = arrived_ns

    def has_none(self, since_ns: int, until_ns: int) -> bool:
        """Return whether nothing of several targets arrived in an interval."""
        begin_ns, end_ns = self.gap_ns
        is_none = self.newest_ns <= since_ns or begin_ns <= since_ns < until_ns < end_ns
        return is_none and not self.has_room


class Liveness:
    """All sources of one partition."""

    def __init__(self, params: StaleParams) -> None:
        self._params = params
        self._min_limit_ns = min(ns(params.at_least_s), ns(params.unlearned_s))
        """An interval within this is no silence, whatever the cadence."""
        self.sources: dict[tuple[str, Source], SourceState] = {}
        self._by_index: list[SourceState] = []
        self.arrival_ns = 0
        self._due_ns = np.full(64, IDLE_NS)
        """By index: the arrival time after which a source no longer limits the watermark, then the time after which it
        is silent; IDLE_NS if it is silent already."""
        self._live_ns = np.full(64, IDLE_NS)
        """By index: the newest sample of a source that limits the watermark, else IDLE_NS."""
        self._next_due_ns = IDLE_NS
        self._any_read = False
        self.has_events = False
        """True after an event of a device, also in a partition without samples."""
        self._devices: Container[str] = frozenset()
        self._max_unknown = _MIN_UNKNOWN
        self._unknown: set[str] = set()
        """Devices in `sources` that are not in the inventory."""
        self.refused = 0
        """Counts messages of devices beyond the limit."""
        self._collectors: defaultdict[str, CollectorArrivals] = defaultdict(CollectorArrivals)

    def restore(self, sources: Iterable[SourceState], arrival_ns: int) -> None:
        """Add the sources of a snapshot, before any message."""
        self.arrival_ns = arrival_ns
        for state in sources:
            self._add(state)
            self._schedule(state)
            self._collectors[state.collector].add(state.device, max(state.arrived_ns, state.last_ns, state.status_ns))
            if state.device not in self._devices:
                self._unknown.add(state.device)

    def set_devices(self, devices: Container[str], count: int) -> None:
        """Set the names of the inventory's devices, whose number limits the number of other devices."""
        self._devices = devices
        self._max_unknown = max(_MIN_UNKNOWN, round(_UNKNOWN_FACTOR * count))
        self._unknown = {device for device, _ in self.sources if device not in devices}
        for state in self.sources.values():
            if state.ended:
                self._schedule(state)

    def source(self, device: str, source: Source, at_ns: int) -> SourceState | None:
        """Return the state of a source, which is added if it is new; None beyond the limit of unknown devices."""
        state = self.sources.get((device, source))
        if state is None:
            if device not in self._devices and not self._admits(device):
                return None
            state = SourceState(device, source, at_ns)
            self._add(state)
            self._schedule(state)
        return state

    def clock_of(self, device: str, source: Source) -> SourceClock:
        """Return the clock that dates the events of a source; the agents of a host share one clock."""
        for other in (source, *(AGENTS if source in AGENTS else ())):
            state = self.sources.get((device, other))
            if state is not None and state.clock is not None and (other is source or state.clock.offset_ns):
                return state.clock
        return SourceClock()

    def _admits(self, device: str) -> bool:
        """Return whether to store the state of a device that is not in the inventory."""
        if device in self._unknown:
            return True
        if len(self._unknown) >= self._max_unknown:
            self.refused += 1
            if self.refused == 1 or self.refused % 100_000 == 0:
                log.warning(
                    "refused messages of devices that are not in the inventory: count=%d devices=%d device=%s",
                    self.refused, len(self._unknown), device,
                )  # fmt: skip
            return False
        self._unknown.add(device)
        return True

    def on_sample(self, state: SourceState, at_ns: int, arrived_ns: int, run: int = 0) -> list[Symptom]:
        """Process the times of a sample and of its arrival; return the symptoms of an ended silence."""
        if run != state.run and run and not self.adopts(state, run, arrived_ns):
            state.other = run, at_ns, arrived_ns
            return []
        last_ns = state.last_ns
        if state.ended:
            last_ns = 0 if self._is_gone(state) else last_ns
            state.ended = False
        if arrived_ns > state.arrived_ns:
            state.arrived_ns = arrived_ns
        arrivals = self._collectors[state.collector]
        is_new = arrivals.has_room and state.device not in arrivals.targets
        if is_new or arrived_ns - arrivals.newest_ns >= _SHORTEST_GAP_NS:
            arrivals.add(state.device, arrived_ns)
        elif arrived_ns > arrivals.newest_ns:  # as `add` does, without a call for each message
            arrivals.newest_ns = arrived_ns
        if at_ns <= last_ns:
            return list(self._late(state, at_ns)) if state.gaps else []
        symptoms: list[Symptom] = []
        if last_ns:
            interval = at_ns - last_ns
            if state.silent or state.unevaluated_gaps or interval > self._min_limit_ns:
                symptoms = self._gap(state, at_ns)
            if not state.cadence_ns and not (symptoms and state.known_cadence_ns):
                _learn(state, interval)
                state.limit_ns = self._limit_ns(state)
        elif state.silent:
            symptoms = [self._resumed(state, state.first_ns, at_ns)]
        state.last_ns, state.silent, state.unreachable = at_ns, False, ""
        self._schedule(state)
        return symptoms

    def correct_last(self, state: SourceState, at_ns: int, arrived_ns: int) -> None:
        """Date the last sample like the next one, which is the first with another correction of its clock."""
        if state.last_ns and not state.silent:
            state.last_ns = min(at_ns, at_ns - (arrived_ns - state.arrived_ns))
            state.unevaluated_gaps, state.gaps = [], []

    def on_status(self, status: CollectorStatus) -> None:
        """Process a collector's status of a target: whether it reaches the target, and its cadence."""
        state = self.source(status.device, status.source, status.at_ns)
        if state is None or status.at_ns < state.status_ns:
            return
        if status.collector_run != state.run and not self.adopts(state, status.collector_run, status.at_ns):
            return
        if status.at_ns - state.status_ns > state.limit_ns // 2:
            state.status_gap_ns = state.status_ns, status.at_ns
        state.status_ns, state.collector = status.at_ns, status.collector
        self._collectors[state.collector].add(state.device, status.at_ns)
        state.unreachable = "" if status.reachable else status.error or "not reachable"
        if status.ended != state.ended:
            state.ended = status.ended
            self._schedule(state)
        if status.cadence_ns and status.cadence_ns != state.cadence_ns:
            state.cadence_ns, state.intervals_ns = status.cadence_ns, []
            state.limit_ns = self._limit_ns(state)
            self._schedule(state)

    def on_arrival_clock(self, at_ns: int) -> list[Symptom]:
        """Advance the arrival clock to `at_ns`; return symptoms of the sources that time out."""
        paused_ns = self.arrival_ns if self.arrival_ns and at_ns > self.arrival_ns + _PAUSE_NS else 0
        if at_ns > self.arrival_ns:
            self.arrival_ns = at_ns
        if self.arrival_ns <= self._next_due_ns:
            return []
        symptoms = []
        if paused_ns and np.count_nonzero(self._live_ns != IDLE_NS) < _TARGETS_OF_COLLECTOR:
            paused_ns = 0
        for index in np.flatnonzero(self._due_ns < self.arrival_ns).tolist():
            state = self._by_index[index]
            self._live_ns[index] = IDLE_NS
            is_overdue = self._due_ns[index] < paused_ns
            self._due_ns[index] = self._silent_after_ns(state)
            if paused_ns and not is_overdue:
                self._due_ns[index] = min(self.arrival_ns + state.limit_ns, IDLE_NS)
            if self._due_ns[index] >= self.arrival_ns or self._is_taken_over(state):
                continue
            state.silent = True
            self._due_ns[index] = IDLE_NS
            symptoms.append(self._silent(state, state.last_ns or state.first_ns))
        self._next_due_ns = int(self._due_ns.min())
        return symptoms

    @staticmethod
    def is_other(state: SourceState, run: int, arrived_ns: int) -> bool:
        """Return whether a run is another than the one that counts, which has not ended, and sent something lately."""
        if run in (0, state.run) or not state.run or state.ended:
            return False
        return arrived_ns - max(state.arrived_ns, state.status_ns) <= state.limit_ns

    def adopts(self, state: SourceState, run: int, arrived_ns: int) -> bool:
        """Return whether another run counts from now on: the former one ended, or sent nothing for the limit."""
        if self.is_other(state, run, arrived_ns):
            return False
        if state.other[0] == run and not state.silent:
            state.last_ns = max(state.last_ns, state.other[1])
        state.run = run
        return True

    def _is_taken_over(self, state: SourceState) -> bool:
        """Return whether another run sends the samples of a source that would be silent.

        A collector that has lost a target, or ended, sends no status of it after the limit. Which it is shows half a
        limit later, because a collector without samples sends one at each cadence.
        """
        run, at_ns, arrived_ns = state.other
        due_ns = self._silent_after_ns(state)
        if state.status_ns > due_ns or self.arrival_ns - arrived_ns > state.limit_ns:
            return False
        if self.arrival_ns > due_ns + state.limit_ns // 2:
            state.run, state.last_ns, state.arrived_ns = run, max(at_ns, state.last_ns), arrived_ns
            self._schedule(state)
        else:
            self._due_ns[state.index] = due_ns + state.limit_ns // 2
        return True

    def watermark_ns(self) -> int:
        """Return the oldest of the live sources' newest samples; the arrival clock if all are silent, and if devices
        send events only; else IDLE_NS.
        """
        oldest = int(self._live_ns.min())
        has_events_only = self.has_events and not self._by_index
        return self.arrival_ns if oldest == IDLE_NS and (self._any_read or has_events_only) else oldest

    def newest_ns(self) -> int:
        """Return the newest time in the state, of event time or of arrival."""
        sources = self.sources.values()
        return max(self.arrival_ns, max((max(own.first_ns, own.last_ns, own.status_ns) for own in sources), default=0))

    def _add(self, state: SourceState) -> None:
        state.index, state.limit_ns = len(self._by_index), self._limit_ns(state)
        self._by_index.append(state)
        self.sources[state.device, state.source] = state
        if state.index == len(self._due_ns):
            idle = np.full(len(self._due_ns), IDLE_NS)
            self._due_ns, self._live_ns = (np.concatenate([times, idle]) for times in (self._due_ns, self._live_ns))

    def _schedule(self, state: SourceState) -> None:
        """Update the arrays after a change of its times or cadence."""
        if state.last_ns:
            self._any_read = True
        if state.silent or self._is_gone(state):
            self._due_ns[state.index] = self._live_ns[state.index] = IDLE_NS
            return
        due_ns = min((state.last_ns or state.first_ns) + state.limit_ns, IDLE_NS)
        self._due_ns[state.index] = due_ns
        self._live_ns[state.index] = state.last_ns or IDLE_NS
        if due_ns < self._next_due_ns:
            self._next_due_ns = due_ns

    def _is_gone(self, state: SourceState) -> bool:
        """Return whether no data is expected of a source: its collector ended, and the inventory lacks its device."""
        return state.ended and state.device not in self._devices

    def _silent_after_ns(self, state: SourceState) -> int:
        base_ns = max(state.last_ns or state.first_ns, state.arrived_ns - TRANSPORT_NS)
        return min(base_ns + state.limit_ns, IDLE_NS)

    def _limit_ns(self, state: SourceState) -> int:
        return self._params.limit_ns(state.known_cadence_ns)

    def _gap(self, state: SourceState, at_ns: int) -> list[Symptom]:
        """Return the symptoms of an interval that may have been a silence."""
        gap = (state.last_ns, at_ns)
        if state.known_cadence_ns:
            gaps, state.unevaluated_gaps = [*state.unevaluated_gaps, gap], []
            was_silent, limit_ns = state.silent, state.limit_ns
            known = [one for one in gaps if one[1] - one[0] > limit_ns or (was_silent and one[0] == state.last_ns)]
            return [self._resumed(state, *one, state.boot_id) for one in known]
        if state.silent:
            return [self._resumed(state, *gap)]
        if at_ns - state.last_ns > ns(self._params.at_least_s):
            state.unevaluated_gaps.append(gap)
        return []

    def _late(self, state: SourceState, at_ns: int) -> Iterator[Symptom]:
        """Divide a reported gap at a late sample into two intervals, and yield the remaining gaps."""
        for gap in state.gaps:
            if gap[0] < at_ns < gap[1] and state.last_ns - gap[1] <= _LATENESS_NS:
                state.gaps.remove(gap)
                for part in ((gap[0], at_ns), (at_ns, gap[1])):
                    if part[0] == gap[0] or part[1] - part[0] > state.limit_ns:
                        yield self._resumed(state, *part, state.boot_id)
                return

    def _silent(self, state: SourceState, last_ns: int) -> Symptom:
        at_ns = last_ns + state.limit_ns
        silence = self._silence(state, at_ns, state.boot_id, has_resumed=False)
        return Symptom(state.device, "", silence, at_ns, last_ns, state.source)

    def _silence(self, state: SourceState, limit_at_ns: int, boot_id: int, *, has_resumed: bool) -> SourceSilence:
        return SourceSilence(
            has_resumed, state.collector, self._collector_silent(state, limit_at_ns), state.unreachable,
            self._others(state), state.known_cadence_ns, boot_id,
        )  # fmt: skip

    def _others(self, state: SourceState) -> int:
        own = (self.sources.get((state.device, source)) for source in Source if source is not state.source)
        return sum(1 for other in own if other is not None and other.last_ns and not other.silent)

    def dump(self) -> list[list[Any]]:
        """Return the arrivals by collector for a snapshot, in JSON types; the sources are packed apart."""
        return [[name, sorted(one.targets), one.newest_ns, one.gap_ns] for name, one in self._collectors.items()]

    def load(self, data: list[list[Any]]) -> None:
        """Restore the arrivals that `dump` returned, after the sources."""
        for name, targets, newest_ns, gap_ns in data:
            has_room = len(targets) < _TARGETS_OF_COLLECTOR
            self._collectors[name] = CollectorArrivals(set(targets), newest_ns, tuple(gap_ns), has_room)

    def _collector_silent(self, state: SourceState, at_ns: int) -> bool:
        """Return whether its newest status by then is older than half the limit, which is at least three cadences.

        A collector sends the status of a target rarely while it reads the target, and at each cadence while it does not
        (ADR 3). A collector that ended in order is not silent, unless nothing of any of its targets arrived.
        """
        since_ns, (gap_begin_ns, gap_end_ns) = at_ns - state.limit_ns // 2, state.status_gap_ns
        if not state.ended and (0 < state.status_ns < since_ns or 0 < gap_begin_ns < since_ns < at_ns < gap_end_ns):
            return True
        return bool(state.collector) and self._collectors[state.collector].has_none(since_ns, at_ns)

    def _resumed(self, state: SourceState, last_ns: int, at_ns: int, boot_id: int = 0) -> Symptom:
        """Return the symptom of the whole gap, which may not have been reported before."""
        newest_ns = max(at_ns, state.last_ns)
        state.gaps = [gap for gap in state.gaps if newest_ns - gap[1] <= _LATENESS_NS]
        state.gaps.append((last_ns, at_ns))
        silence = self._silence(state, last_ns + state.limit_ns, boot_id, has_resumed=True)
        return Symptom(state.device, "", silence, at_ns, last_ns, state.source)


def _learn(state: SourceState, interval: int) -> None:
    if interval >= _SAME_READING_NS or len(state.intervals_ns) < MAX_INTERVALS:
        state.intervals_ns.append(interval)
        del state.intervals_ns[:-MAX_INTERVALS]


def restart_symptom(
    state: SourceState, at_ns: int, since_ns: int, ended: int | None = None, *, by_event: bool = False
) -> Symptom:
    """Return the symptom of a restart, named by the boot that ended: by default the last boot."""
    restart = Restart(state.boot_id if ended is None else ended)
    return Symptom(state.device, "", restart, at_ns, since_ns, state.source, by_event)


def on_other_boot(state: SourceState, at_ns: int, boot_id: int, lateness_ns: int) -> Symptom:
    """Return the symptom of a reading whose boot id differs from the last one."""
    state.restarts = [restart for restart in state.restarts if at_ns - restart[1] <= lateness_ns]
    state.restarts.append((state.last_ns, at_ns, state.boot_id, boot_id))
    return restart_symptom(state, at_ns, state.last_ns)


def late_restart_symptoms(state: SourceState, at_ns: int, boot_id: int) -> Iterator[Symptom]:
    """Yield the restart that a reading older than the last one dates more precisely."""
    for number, (since_ns, until_ns, ended, begun) in enumerate(state.restarts):
        if since_ns < at_ns < until_ns and boot_id in (ended, begun):
            span = (at_ns, until_ns) if boot_id == ended else (since_ns, at_ns)
            state.restarts[number] = (*span, ended, begun)
            yield restart_symptom(state, span[1], span[0], ended)
