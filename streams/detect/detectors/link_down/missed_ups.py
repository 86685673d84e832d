"""Finds the recoveries that lie between two readings of a port which both show it down."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile
from operator import attrgetter

from streams.detect.evidence.link_history import LinkHistory, growth_of
from streams.fabric.intervals import Interval
from streams.wire.models import Endpoint, Source, Symptom
from streams.wire.symptoms import SymptomKind

COUNTS = (SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED)
_STATES = (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)


class MissedUps:
    """The recoveries of one end that its readings do not show, of all its downs.

    Only downs that are known from readings have any.
    """

    def __init__(self, history: LinkHistory, end: Endpoint, hold_ns: int) -> None:
        self._hold_ns = hold_ns
        self._read = [s for s in history.at(end) if not s.by_event and s.kind in _STATES]
        self._read_downs = {s.at_ns for s in self._read if s.kind is SymptomKind.WENT_DOWN}
        self._dated = {s.at_ns for s in self._read if s.since_ns}
        self._reported = sorted(self._reported_by_the_far_end(history, end)) if self._dated else []
        ports = sorted(history.ends(), key=lambda one: one != end) if self._read_downs else ()
        self._counters = [_Counters(history, one) for one in ports]

    def within(self, down: Interval) -> list[Interval]:
        """Return when the link was up for a moment, in order; if a counter shows it, the readings before and after."""
        begin, until = down
        found: list[Interval] = []
        if begin in self._dated:
            first = bisect_left(self._reported, (begin,))
            found += takewhile(lambda span: span[0] < until, self._reported[first:])
        if begin in self._read_downs:
            # The counters of this end count; those of the far end where this end has none.
            counters = next((one for one in self._counters if one.newest_ns >= begin), None)
            if counters is not None:
                found += (span for span in counters.unexplained(down) if span[1] - span[0] >= self._hold_ns)
        return sorted(found)

    def _reported_by_the_far_end(self, history: LinkHistory, end: Endpoint) -> Iterator[Interval]:
        """Yield when the far end reported up for less time than lies between two readings of this end."""
        apart = min(s.at_ns - s.since_ns for s in self._read if s.since_ns)
        for far in history.ends():
            up = 0
            for s in history.at(far) if far != end else ():
                if s.kind is SymptomKind.CAME_UP and s.by_event:
                    up = up or s.at_ns
                elif s.kind is SymptomKind.WENT_DOWN and s.by_event:
                    if up and s.at_ns - up < apart:
                        yield up, s.at_ns
                    up = 0


class _Counters:
    """The counts of the downs of one port, each of a source, and the downs that its states show."""

    def __init__(self, history: LinkHistory, port: Endpoint) -> None:
        self._series: dict[tuple[Source, SymptomKind], list[Symptom]] = defaultdict(list)
        for s in history.at(port):
            if s.kind in COUNTS:
                self._series[s.source, s.kind].append(s)
        self.newest_ns = max((series[-1].at_ns for series in self._series.values()), default=-1)
        spans = history.downs(port) if self._series else []
        self._downs = sorted(begin for begin, _ in spans)
        self._edges = sorted(edge for span in spans for edge in span)

    def unexplained(self, down: Interval) -> Iterator[Interval]:
        """Yield the growths within a down by more downs than the known states of the port account for.

        The running total is compared, because a counter may be late: the down that a reading shows is counted by a
        later one then. Two transitions are a down.
        """
        begin, until = down
        for (_, kind), series in self._series.items():
            first = bisect_left(series, begin, key=attrgetter("at_ns"))
            edges, changes = (self._downs, 1) if kind is SymptomKind.DOWNS_COUNTED else (self._edges, 2)
            total = most = 0
            for s in takewhile(lambda one: one.since_ns < until, series[first:]):
                total += growth_of(s)
                known = bisect_right(edges, s.at_ns) - bisect_right(edges, series[first].since_ns)
                downs = (total - known) // changes
                if downs > most:
                    most = downs
                    yield s.since_ns, s.at_ns
