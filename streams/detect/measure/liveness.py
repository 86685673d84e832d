"""Which sources are live, by the arrival clock; what says so, and when event time may pass them by.

A source is one way in which one device is read (gNMI, SNMP, NIC, host). Silence is judged against what its collector
says of its cadence; without that, against the intervals seen, once there are enough of them to know.
The times that are asked for at every message (who is due, who is the oldest) stand in arrays beside the sources.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.thresholds import ns
from streams.wire.models import IDLE_NS, CollectorStatus, Source, Symptom
from streams.wire.symptoms import SourceSilence

MIN_INTERVALS = 3
"""Intervals needed before a cadence is taken from them: fewer are met by chance when a recording begins in a hole."""

CLOCK_AHEAD_NS = ns(1)
"""A device whose clock is further ahead than this is dated by the arrival of its samples (DESIGN 2.1)."""

MAX_INTERVALS = 16
_SAME_READING_NS = ns(1)
"""States and counters of one round come up to a second apart (seen in the recordings): that is no cadence."""


@dataclass(slots=True)
class SourceState:
    """What was heard of one source. Times are event times in ns; 0 where nothing came yet."""

    device: str
    source: Source
    first_ns: int
    index: int = 0
    """Where its times stand in the arrays."""
    last_ns: int = 0
    silent: bool = False
    cadence_ns: int = 0
    limit_ns: int = 0
    """For how long it may be silent: by its cadence, as far as that is known."""
    boot_id: int = 0
    collector: str = ""
    status_ns: int = 0
    unreachable: str = ""
    intervals_ns: list[int] = field(default_factory=list)
    """The newest, while no collector says the cadence."""
    unevaluated_gaps: list[tuple[int, int]] = field(default_factory=list)
    """Gaps before the cadence was known, as (last, next)."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Those told of whose end is not final yet: what comes late may lie in one."""
    restarts: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Its restarts of late: between which readings, and the boots before and after."""

    @property
    def known_cadence_ns(self) -> int:
        """How often it is read: as its collector says, else as it was seen (the median); 0 where neither is known."""
        if self.cadence_ns or len(self.intervals_ns) < MIN_INTERVALS:
            return self.cadence_ns
        ordered = sorted(self.intervals_ns)
        return round((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


class Liveness:
    """All sources of one partition."""

    def __init__(self, params: StaleParams, lateness_ns: int = ns(30)) -> None:
        self._params = params
        self._lateness_ns = lateness_ns
        self._surely_ns = min(ns(params.at_least_s), ns(params.unlearned_s))
        """No limit is less: an interval within it is no silence, whatever the cadence."""
        self.sources: dict[tuple[str, Source], SourceState] = {}
        self._by_place: list[SourceState] = []
        self.arrival_ns = 0
        self._due_ns = np.full(64, IDLE_NS)
        """By place: the arrival after which it is silent; IDLE_NS where it is so already."""
        self._live_ns = np.full(64, IDLE_NS)
        """By place: the newest reading of what is live, else IDLE_NS."""
        self._next_due_ns = IDLE_NS
        self._any_read = False

    def restore(self, sources: Iterable[SourceState], arrival_ns: int) -> None:
        """Take over what a snapshot kept, before anything was heard."""
        self.arrival_ns = arrival_ns
        for heard in sources:
            self._add(heard)
            self._schedule(heard)

    def source(self, device: str, source: Source, at_ns: int) -> SourceState:
        """What was heard of a source, from now on at least."""
        heard = self.sources.get((device, source))
        if heard is None:
            heard = SourceState(device, source, at_ns)
            self._add(heard)
            self._schedule(heard)
        return heard

    def on_sample(self, heard: SourceState, at_ns: int) -> list[Symptom]:
        """A reading came; answers that its source was silent, where it was."""
        last_ns = heard.last_ns
        if at_ns <= last_ns:
            return list(self._late(heard, at_ns)) if heard.gaps else []
        symptoms: list[Symptom] = []
        if last_ns:
            interval = at_ns - last_ns
            if heard.silent or heard.unevaluated_gaps or interval > self._surely_ns:
                symptoms = self._gap(heard, at_ns)
            if not heard.cadence_ns and not symptoms:
                _learn(heard, interval)
                heard.limit_ns = self._limit_ns(heard)
        elif heard.silent:
            symptoms = [self._resumed(heard, heard.first_ns, at_ns)]
        heard.last_ns, heard.silent, heard.unreachable = at_ns, False, ""
        self._schedule(heard)
        return symptoms

    def on_status(self, status: CollectorStatus) -> None:
        """A collector says whether it reaches a target and how often it reads it."""
        heard = self.source(status.device, status.source, status.at_ns)
        if status.at_ns < heard.status_ns:
            return
        heard.status_ns, heard.collector = status.at_ns, status.collector
        heard.unreachable = "" if status.reachable else status.error or "not reachable"
        if status.cadence_ns and status.cadence_ns != heard.cadence_ns:
            heard.cadence_ns, heard.intervals_ns = status.cadence_ns, []
            heard.limit_ns = self._limit_ns(heard)
            self._schedule(heard)

    def on_arrival_clock(self, at_ns: int) -> list[Symptom]:
        """The arrival clock has come to `at_ns`; answers who is silent by now and was not before."""
        self.arrival_ns = max(self.arrival_ns, at_ns)
        if self.arrival_ns <= self._next_due_ns:
            return []
        symptoms = []
        for place in np.flatnonzero(self._due_ns < self.arrival_ns).tolist():
            heard = self._by_place[place]
            heard.silent = True
            self._due_ns[place] = self._live_ns[place] = IDLE_NS
            symptoms.append(self._silent(heard, heard.last_ns or heard.first_ns))
        self._next_due_ns = int(self._due_ns.min())
        return symptoms

    def watermark_ns(self) -> int:
        """The smallest newest time over live sources; the arrival clock where all are silent; else IDLE_NS."""
        oldest = int(self._live_ns.min())
        return self.arrival_ns if oldest == IDLE_NS and self._any_read else oldest

    def _add(self, heard: SourceState) -> None:
        heard.index, heard.limit_ns = len(self._by_place), self._limit_ns(heard)
        self._by_place.append(heard)
        self.sources[heard.device, heard.source] = heard
        if heard.index == len(self._due_ns):
            idle = np.full(len(self._due_ns), IDLE_NS)
            self._due_ns, self._live_ns = (np.concatenate([times, idle]) for times in (self._due_ns, self._live_ns))

    def _schedule(self, heard: SourceState) -> None:
        """Its times or its cadence changed."""
        if heard.last_ns:
            self._any_read = True
        if heard.silent:
            self._due_ns[heard.index] = self._live_ns[heard.index] = IDLE_NS
            return
        due_ns = min((heard.last_ns or heard.first_ns) + heard.limit_ns, IDLE_NS)
        self._due_ns[heard.index] = due_ns
        self._live_ns[heard.index] = heard.last_ns or IDLE_NS
        if due_ns < self._next_due_ns:
            self._next_due_ns = due_ns

    def _limit_ns(self, heard: SourceState) -> int:
        return self._params.limit_ns(heard.known_cadence_ns)

    def _gap(self, heard: SourceState, at_ns: int) -> list[Symptom]:
        """What an interval says that may have been a silence."""
        gap = (heard.last_ns, at_ns)
        if heard.cadence_ns or len(heard.intervals_ns) >= MIN_INTERVALS:
            gaps, heard.unevaluated_gaps = [*heard.unevaluated_gaps, gap], []
            return list(self._judge(heard, gaps))
        if heard.silent:
            return [self._resumed(heard, *gap)]
        if at_ns - heard.last_ns > ns(self._params.at_least_s):
            heard.unevaluated_gaps.append(gap)
        return []

    def _judge(self, heard: SourceState, gaps: list[tuple[int, int]]) -> Iterator[Symptom]:
        limit = heard.limit_ns
        for last_ns, next_ns in gaps:
            said = heard.silent and last_ns == heard.last_ns
            if not said and next_ns - last_ns <= limit:
                continue
            yield self._resumed(heard, last_ns, next_ns, heard.boot_id)

    def _late(self, heard: SourceState, at_ns: int) -> Iterator[Symptom]:
        """A reading from the middle of a gap that was told of: there are two smaller ones, if they are any."""
        for gap in heard.gaps:
            if gap[0] < at_ns < gap[1] and heard.last_ns - gap[1] <= self._lateness_ns:
                heard.gaps.remove(gap)
                for part in ((gap[0], at_ns), (at_ns, gap[1])):
                    if part[0] == gap[0] or part[1] - part[0] > heard.limit_ns:
                        yield self._resumed(heard, *part, heard.boot_id)
                return

    def _silent(self, heard: SourceState, last_ns: int) -> Symptom:
        at_ns = last_ns + heard.limit_ns
        silence = self._silence(heard, at_ns, heard.boot_id, has_resumed=False)
        return Symptom(heard.device, "", silence, at_ns, last_ns, heard.source)

    def _silence(self, heard: SourceState, limit_at_ns: int, boot_id: int, *, has_resumed: bool) -> SourceSilence:
        return SourceSilence(
            has_resumed, heard.collector, self._collector_silent(heard, limit_at_ns), heard.unreachable,
            self._others(heard), heard.known_cadence_ns, boot_id,
        )  # fmt: skip

    def _others(self, heard: SourceState) -> int:
        """How many other sources of the device are live."""
        own = (self.sources.get((heard.device, source)) for source in Source if source is not heard.source)
        return sum(1 for other in own if other is not None and other.last_ns and not other.silent)

    @staticmethod
    def _collector_silent(heard: SourceState, at_ns: int) -> bool:
        """Its newest status is older than half the limit, which is three cadences at least.

        A collector that reads a target says so rarely, but one that does not, or hears nothing, at each cadence
        (ADR 3). Its samples are no younger sign of life: the newest is older than the limit, or nothing were judged.
        """
        return bool(heard.status_ns) and at_ns - heard.status_ns > heard.limit_ns // 2

    def _resumed(self, heard: SourceState, last_ns: int, at_ns: int, boot_id: int = 0) -> Symptom:
        """Tells of the whole gap, which nobody may have told of before."""
        newest_ns = max(at_ns, heard.last_ns)
        heard.gaps = [gap for gap in heard.gaps if newest_ns - gap[1] <= self._lateness_ns]
        heard.gaps.append((last_ns, at_ns))
        silence = self._silence(heard, last_ns + heard.limit_ns, boot_id, has_resumed=True)
        return Symptom(heard.device, "", silence, at_ns, last_ns, heard.source)


def _learn(heard: SourceState, interval: int) -> None:
    if interval >= _SAME_READING_NS:
        heard.intervals_ns.append(interval)
        del heard.intervals_ns[:-MAX_INTERVALS]
    elif len(heard.intervals_ns) < MIN_INTERVALS:
        heard.intervals_ns.append(interval)
