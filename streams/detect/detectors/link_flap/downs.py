"""Counts the downs of a link per end, source and kind of evidence, and finds where a preset is met.

Different sources are never added up: the downs of an end are the largest of their counts, and of two ends the larger.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from streams.detect.detectors.link_flap.params import FLAP_PRESETS, FlapParams, FlapPreset
from streams.detect.evidence.link_history import FOREVER, LinkHistory, growth_of
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval, closed, overlaps_any
from streams.wire.models import Endpoint, Symptom
from streams.wire.symptoms import SymptomKind

_DOWNS = (SymptomKind.WENT_DOWN, SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED)


@dataclass(frozen=True, slots=True)
class DownCounter:
    """The downs of one end by one kind of evidence: event times, running totals, and when each down began."""

    end: Endpoint
    kind: SymptomKind
    by_event: bool
    times: tuple[int, ...]
    totals: tuple[int, ...]
    begun: tuple[int, ...]
    from_down: tuple[bool, ...]
    """Of transitions: whether the port was down before them, so that the first of them was an up."""

    def downs(self, after_ns: int, until_ns: int) -> tuple[int, int]:
        """Return (downs, begin of the first) in (after, until]; two transitions are a down.

        An odd one is a down too, unless the port was down before the first.
        """
        first, last = bisect_right(self.times, after_ns), bisect_right(self.times, until_ns)
        if first == last:
            return 0, FOREVER
        count = self.totals[last - 1] - (self.totals[first - 1] if first else 0)
        if self.kind is SymptomKind.TRANSITIONS_COUNTED:
            count = (count + (not self.from_down[first])) // 2
        return count, self.begun[first]


@dataclass(frozen=True, slots=True)
class Hit:
    """A preset is met at `at_ns`, with the downs since `since_ns` by one counter."""

    at_ns: int
    since_ns: int
    downs: int
    counter: DownCounter
    preset: str


def is_transition(symptom: Symptom) -> bool:
    """Return whether a symptom is a transition, and not the first state that was read of a port."""
    if symptom.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP):
        return symptom.by_event or symptom.since_ns > 0
    return symptom.kind in _DOWNS


def begin_ns(symptom: Symptom) -> int:
    """Return when the downs of a symptom began at the earliest."""
    return symptom.since_ns if growth_of(symptom) else symptom.at_ns


def find_hits(counters: Mapping[str, list[DownCounter]], run: list[Symptom], maintained_until_ns: int) -> Iterator[Hit]:
    """Yield each observation of a run at which a preset is met, with the largest count of its counters."""
    begin = run[0].at_ns
    after_ns = maintained_until_ns if maintained_until_ns < begin else 0
    for name, own in counters.items():
        preset = FLAP_PRESETS[name]
        last = run[-1].at_ns + ns(preset.outage_s)  # an outage that goes on counts this long after its begin
        for at_ns in sorted({t for counter in own for t in counter.times if begin <= t <= last}):
            counted = ((c.downs(max(after_ns, at_ns - ns(preset.window_s)), at_ns), c) for c in own)
            (downs, since_ns), counter = max(counted, key=lambda c: (c[0][0], -c[0][1]))
            if downs >= preset.downs:
                yield Hit(at_ns, since_ns, downs, counter, name)


def boot_intervals(
    preset: FlapPreset, history: LinkHistory, restarts: Mapping[str, list[Interval]]
) -> Iterator[Interval]:
    """Yield the boot grace of a preset after each restart of a device at an end."""
    for end in history.ends():
        for since, at in restarts.get(end.device, ()):
            yield since, at + ns(preset.boot_grace_s)


def count_downs(
    preset: FlapPreset, history: LinkHistory, excused: list[Interval], watermark_ns: int
) -> list[DownCounter]:
    """Return the counters of the downs that a preset counts, without excused ones."""
    counters = []
    for end in history.ends():
        found: dict[tuple[SymptomKind, bool, int], list[tuple[int, int, int]]] = defaultdict(list)
        states = [s for s in history.at(end) if s.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)]
        if preset.outage_s:
            found[SymptomKind.WENT_DOWN, False, 0] = list(_outages(preset, history, end, watermark_ns))
        else:
            for s in history.at(end):
                if s.kind in _DOWNS and is_transition(s):
                    found[s.kind, s.by_event, int(s.source)].append((begin_ns(s), s.at_ns, growth_of(s) or 1))
        for (kind, by_event, _), downs in found.items():
            counted = [
                (at, n, since if preset.outage_s else at, _was_down(history, end, states, since))
                for since, at, n in downs
                if not overlaps_any(excused, closed(since, at))
            ]
            if counted:
                times, counts, begun, from_down = zip(*counted, strict=True)
                counters.append(DownCounter(end, kind, by_event, times, tuple(accumulate(counts)), begun, from_down))
    return counters


def _was_down(history: LinkHistory, end: Endpoint, states: Sequence[Symptom], at_ns: int) -> bool:
    """Return whether an end was down at a time, by the last of its states; before the first by the opposite of it.

    Where observations since then were pruned, one that shows it may be among them.
    """
    place = bisect_right(states, at_ns, key=attrgetter("at_ns"))
    if place:
        return states[place - 1].kind is SymptomKind.WENT_DOWN
    if end.device in history.down_since or (states and states[0].kind is SymptomKind.CAME_UP):
        return True
    return history.pruned_until_ns >= at_ns


def _outages(
    preset: FlapPreset, history: LinkHistory, end: Endpoint, watermark_ns: int
) -> Iterator[tuple[int, int, int]]:
    """Yield outages that were long enough, as (begin, when that was known, 1)."""
    for begin, until in history.downs(end):
        known = until if preset.recovered else begin + ns(preset.outage_s)
        if known != FOREVER and known <= min(until, max(watermark_ns, begin)) and until - begin >= ns(preset.outage_s):
            yield begin, known, 1


def open_outages_due(params: FlapParams, history: LinkHistory) -> Iterator[int]:
    """Yield when outages that go on will be long enough to count."""
    for preset in (FLAP_PRESETS[name] for name in params.presets):
        if preset.outage_s and not preset.recovered:
            yield from (begin + ns(preset.outage_s) for end in history.ends() for begin, _ in history.downs(end))
