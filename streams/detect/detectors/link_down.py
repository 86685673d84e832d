"""link/down: detects a link that stays down for no administrative reason.

Opens when either end has been down for `open_after_s` and no administrative down at either end is known by then.
Resolves at the first up that lasts for `hold_up_s`, or when the link is disabled. A shorter outage is retained, and
link/flap counts it. `attribute` concludes fabric-wide whether a device restarted or is down.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import ClassVar

from streams.detect.detector import (
    Context,
    Detector,
    Evaluation,
    FaultOf,
    JobDomain,
    Placement,
    follow_link,
    link_follower,
)
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, confidence_of, evidence_of
from streams.detect.evidence.link_history import FOREVER, HOLD_UP_S, LinkHistory, growth_of
from streams.detect.evidence.port_faults import down_cause, fault_evidence, reported_faults
from streams.detect.evidence.subjects import link_coverage, link_name
from streams.detect.fabric_side import FabricSide, Loss, SeverityContext, link_keys
from streams.detect.thresholds import Seconds, Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.intervals import Interval, merge_intervals
from streams.wire.models import Condition, Endpoint, Evidence, Finding, Source, Symptom
from streams.wire.symptoms import SymptomKind


class DownParams(Thresholds):
    """`[detect.down]`: DETECTION's defaults, 30 s down to open and 5 s up to resolve."""

    open_after_s: Seconds = 30
    """Opens after this time down."""
    hold_up_s: ClassVar[float] = HOLD_UP_S
    """Closes after this time up."""


COUNTS = (SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED)
_STATES = (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)


class MissedUps:
    """Finds recoveries of one end, during its downs, that its readings do not show.

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
        """Return the intervals of brief recoveries, in order; for a counter, those between the readings around them."""
        begin, until = down
        found: list[Interval] = []
        if begin in self._dated:
            first = bisect_left(self._reported, (begin,))
            found += takewhile(lambda span: span[0] < until, self._reported[first:])
        if begin in self._read_downs:
            # The counters of this end count, or those of the far end if this end has none.
            counters = next((one for one in self._counters if one.newest_ns >= begin), None)
            if counters is not None:
                found += (span for span in counters.unexplained(down) if span[1] - span[0] >= self._hold_ns)
        return sorted(found)

    def _reported_by_the_far_end(self, history: LinkHistory, end: Endpoint) -> Iterator[Interval]:
        """Yield intervals in which the far end reported up, shorter than those between two readings of this end."""
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
    """The counted downs of one port by source, and the downs that its states show."""

    def __init__(self, history: LinkHistory, port: Endpoint) -> None:
        self._series: dict[tuple[Source, SymptomKind], list[Symptom]] = defaultdict(list)
        for s in history.at(port):
            if s.kind in COUNTS:
                self._series[s.source, s.kind].append(s)
        self.newest_ns = max((series[-1].at_ns for series in self._series.values()), default=-1)
        spans = history.downs(port) if self._series else []
        self._complete_since_ns = max((one.end_ns for one in history.folded), default=0)
        """Transitions before it were dropped, so that counters explain nothing there."""
        self._downs = sorted(begin for begin, _ in spans)
        self._edges = sorted(edge for span in spans for edge in span)

    def unexplained(self, down: Interval) -> Iterator[Interval]:
        """Yield the growths within a down that count more downs than the known states of the port.

        The running total is compared, because a counter may be late: a later reading then counts the down that a
        reading shows. Two transitions are a down.
        """
        begin, until = down
        for (_, kind), known in self._series.items():
            series = [s for s in known if s.since_ns >= self._complete_since_ns]
            first = bisect_left(series, begin, key=attrgetter("at_ns"))
            edges, changes = (self._downs, 1) if kind is SymptomKind.DOWNS_COUNTED else (self._edges, 2)
            total = most = 0
            for s in takewhile(lambda one: one.since_ns < until, series[first:]):
                total += growth_of(s)
                shown = bisect_right(edges, s.at_ns) - bisect_right(edges, series[first].since_ns)
                downs = (total - shown) // changes
                if downs > most:
                    most = downs
                    yield s.since_ns, s.at_ns


def _conclusion(params: DownParams, context: Context, history: LinkHistory, span: Interval) -> Conclusion | None:
    """Return the episode of an outage; None if it is too short, or not yet long enough."""
    begin, end = span
    opens_ns = begin + ns(params.open_after_s)
    if min(end, context.watermark_ns) < opens_ns:
        return None
    reporters = [e for e in history.ends() if any(b < end and begin < until for b, until in history.outages_of(e))]
    over_ns = end + ns(params.hold_up_s) if end != FOREVER else FOREVER
    resolved = context.watermark_ns >= over_ns
    faults = reported_faults(history, span)
    evidence = (_evidence(params, history, reporter, begin) for reporter in reporters)
    return Conclusion(
        history.subject, begin, end, opened_ns=opens_ns, seen_ns=end if resolved else _last_seen_down(history, span),
        resolved_ns=end if resolved else None, over_ns=over_ns,
        summary=f"{link_name(history.subject)} is down",
        cause=down_cause(faults, begin),
        evidence=(*evidence, *fault_evidence(faults, span)),
        confidence=confidence_of(reporters),
        coverage=link_coverage(history.subject, reporters),
        down_at_ns=(begin,),
    )  # fmt: skip


def _last_seen_down(history: LinkHistory, span: Interval) -> int:
    """Return the time of the newest transition to down; a first reading in the down state does not count."""
    begin, end = span
    downs = (s for s in history.symptoms if s.kind is SymptomKind.WENT_DOWN and (s.by_event or s.since_ns))
    return max((s.at_ns for s in downs if begin <= s.at_ns < end), default=begin)


def _evidence(params: DownParams, history: LinkHistory, end: Endpoint, begin: int) -> Evidence:
    since = next(b for b, until in history.outages_of(end) if until > begin)
    first = next((s for s in history.at(end) if s.kind is SymptomKind.WENT_DOWN and s.at_ns == since), None)
    how = "by an event" if first is not None and first.by_event else "by its state"
    return evidence_of(
        f"{end.device}/{end.port} reported down {how}", "oper_up", end,
        (max(since, begin), max(since, begin + ns(params.open_after_s))), 0.0, 1.0,
        "both-ends" if len(history.ends()) > 1 else "threshold",
    )  # fmt: skip


_POLL_JITTER = 0.25
"""Share of an interval between two polls."""


def _evaluate(
    params: DownParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the history of the link."""
    history = context.evidence.links[key]
    failures = list(_failures(params, ns(context.settings.link.admin_grace_s), history))
    conclusions = [c for span in failures if (c := _conclusion(params, context, history, span)) is not None]
    hold, wait = ns(params.hold_up_s), ns(params.open_after_s)
    waits = (t for begin, end in failures for t in (begin + wait, end + hold if end != FOREVER else FOREVER))
    return follow_link(context, history, state, conclusions, waits)


def _failures(params: DownParams, admin_grace_ns: int, history: LinkHistory) -> Iterator[Interval]:
    """Yield the intervals in which either end of the link was down for no administrative reason."""
    disabled = history.disabled()
    hold_ns = ns(params.hold_up_s)
    downs = merge_intervals((span for end in history.ends() for span in _end_downs(history, end, hold_ns)), hold_ns)
    for begin, end in downs:
        for off, on in disabled:
            if on <= begin or off >= end:
                continue
            if off > begin + admin_grace_ns:
                yield begin, off
            begin = on  # noqa: PLW2901 — the rest of the interval begins where the port was enabled again
        if begin < end:
            yield begin, end


def _end_downs(history: LinkHistory, end: Endpoint, hold_ns: int) -> Iterator[Interval]:
    """Yield the downs of an end; events of the far end refine downs that are known from readings.

    A reading shows that the end came up since the reading before, or at an unknown time. If the far end reported its
    own up within that time, the end came up then. Between two successive readings that both show it down, the far end
    may have reported an up; otherwise a polled switch would hide the ups of a flapping link.
    """
    own, missed = list(history.at(end)), MissedUps(history, end, hold_ns)
    far_ups = [
        s for s in history.symptoms if s.kind is SymptomKind.CAME_UP and (s.device, s.port) != (end.device, end.port)
    ]
    for begin, until in history.outages_of(end):
        inside = _between(own, begin, until)
        ups = [s for s in inside if s.kind is SymptomKind.CAME_UP and s.at_ns == until]
        since_ns = max((s.at_ns if s.by_event else s.since_ns or begin for s in ups), default=until)
        ends = _between(far_ups, max(begin, since_ns) + 1, until - 1)
        last = ends[0].at_ns if ends else until
        is_dated = any(s.by_event for s in ends if s.at_ns == last)
        for up, down in missed.within((begin, last)):
            if begin <= up:
                if begin < up:
                    yield begin, up
                begin = down  # noqa: PLW2901 — the rest of this interval
        if begin < last and (is_dated or not _is_single_reading(inside, (begin, until))):
            yield begin, last


def _between(symptoms: Sequence[Symptom], first_ns: int, last_ns: int) -> Sequence[Symptom]:
    """Return the symptoms, given in order of time, that lie in a closed interval."""
    begin = bisect_left(symptoms, first_ns, key=attrgetter("at_ns"))
    return symptoms[begin : bisect_right(symptoms, last_ns, begin, key=attrgetter("at_ns"))]


def _is_single_reading(own: Sequence[Symptom], down: Interval) -> bool:
    """Return whether only one poll showed an end down, by its observations until it came up.

    Such a down is a moment without a known duration. The polls before and after it were equally far away, within a
    quarter. A source that sends only changes has one reading of an outage of any length; the time before it then has
    another length.
    """
    begin, until = down
    if any(begin < s.at_ns < until and s.kind is SymptomKind.WENT_DOWN for s in own):
        return False
    first = [s for s in own if (s.kind is SymptomKind.WENT_DOWN or s.kind in COUNTS) and s.at_ns == begin]
    after = [s for s in own if s.kind is SymptomKind.CAME_UP and s.at_ns == until]
    if any(s.by_event or not s.since_ns for s in (*first, *after)) or any(s.since_ns > begin for s in after):
        return False
    return any(abs((begin - s.since_ns) - (until - begin)) <= (until - begin) * _POLL_JITTER for s in first)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    """Rate a link CRITICAL if its lower end had too few other uplinks, or its host no other plane of the rail."""
    link = context.link_of(finding)
    return link is not None and not context.has_redundancy(link, finding)


DETECTOR = Detector(
    Condition.LINK_DOWN,
    version="1",
    opens_when="30 s down without an administrative shutdown at either end",
    params=DownParams,
    section="down",
    placement=Placement.OUT,
    job_domain=JobDomain.NETWORK,
    lemon=FaultOf.LINK,
    hidden_in={},
    fabric=FabricSide(
        loss=Loss.LINK, ends_with_parent=True, link_fault_rank=0, group_keys=link_keys, is_critical=_is_critical,
    ),
    pod=link_follower(_evaluate),
    state_metric=Metric.OPER_UP,
)  # fmt: skip
