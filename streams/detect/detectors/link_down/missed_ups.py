"""Finds the recoveries that lie between two readings of a port which both show it down."""

from collections import defaultdict
from collections.abc import Iterator

from streams.detect.evidence.link_history import LinkHistory, growth_of
from streams.fabric.intervals import Interval
from streams.wire.models import Endpoint, Source, Symptom
from streams.wire.symptoms import SymptomKind

COUNTS = (SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED)
_STATES = (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)


def missed_ups(history: LinkHistory, end: Endpoint, begin: int) -> Iterator[Interval]:
    """Yield when the far end reported up for less time than lies between two readings of this end.

    Only where the down of this end that begins at `begin` is known from readings.
    """
    read = [s for s in history.at(end) if s.since_ns and not s.by_event and s.kind in _STATES]
    if not any(s.at_ns == begin for s in read):
        return
    apart = min(s.at_ns - s.since_ns for s in read)
    for far in history.ends():
        up = 0
        for s in history.at(far) if far != end else ():
            if s.kind is SymptomKind.CAME_UP and s.by_event:
                up = up or s.at_ns
            elif s.kind is SymptomKind.WENT_DOWN and s.by_event:
                if up and s.at_ns - up < apart:
                    yield up, s.at_ns
                up = 0


def counted_ups(history: LinkHistory, end: Endpoint, begin: int, hold_ns: int) -> Iterator[Interval]:
    """Yield successive readings (time, time) between which a counter shows that the link came up and went down again.

    Only where the down of this end that begins at `begin` is known from readings, and where the readings lie so far
    apart that the up can have held for `hold_ns`. The counters of this end count; those of the far end where this end
    has none.
    """
    if not any(s.kind is SymptomKind.WENT_DOWN and s.at_ns == begin and not s.by_event for s in history.at(end)):
        return
    for port in sorted(history.ends(), key=lambda one: one != end):
        series: dict[tuple[Source, SymptomKind], list[Symptom]] = defaultdict(list)
        for s in history.at(port):
            if s.kind in COUNTS and s.at_ns >= begin:
                series[s.source, s.kind].append(s)
        for own in series.values():
            yield from (span for span in _unexplained(history, port, own) if span[1] - span[0] >= hold_ns)
        if series:
            return


def _unexplained(history: LinkHistory, end: Endpoint, series: list[Symptom]) -> Iterator[Interval]:
    """Yield the growths of a counter by more downs than the known states of its port account for.

    The running total is compared, because a counter may be late: the down that a reading shows is counted by a later
    one then. Two transitions are a down.
    """
    spans, since_ns = history.downs(end), series[0].since_ns
    counts_downs = series[0].kind is SymptomKind.DOWNS_COUNTED
    edges = [begin for begin, _ in spans] if counts_downs else [edge for span in spans for edge in span]
    total = most = 0
    for s in series:
        total += growth_of(s)
        known = sum(since_ns < edge <= s.at_ns for edge in edges)
        downs = (total - known) // (1 if counts_downs else 2)
        if downs > most:
            most = downs
            yield s.since_ns, s.at_ns
