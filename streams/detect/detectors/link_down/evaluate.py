"""link/down: a link that stays down for no administrative reason.

Opens when either end has been down for `open_after_s` and no administrative down at either end is known by then;
resolves at the first up that holds `hold_up_s`, or when the link is disabled. An outage that is shorter is retained,
and link/flap counts it. Whether a device restarted or is down is concluded fabric-wide, in `attribute`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from streams.detect.detector import Context, Evaluation
from streams.detect.detectors.link_down import report
from streams.detect.detectors.link_down.missed_ups import COUNTS, MissedUps
from streams.detect.detectors.link_down.params import DownParams
from streams.detect.evidence.episodes import PublishedEpisodes, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval, merge_intervals
from streams.wire.models import Endpoint, Symptom
from streams.wire.symptoms import SymptomKind

_POLL_JITTER = 0.25
"""Of an interval between two polls."""


def evaluate(
    params: DownParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the history of the link."""
    history, now_ns = context.evidence.links[key], context.watermark_ns
    failures = list(_failures(params, ns(context.settings.link.admin_grace_s), history))
    conclusions = [c for span in failures if (c := report.conclusion(params, context, history, span)) is not None]
    published = prune(state or (), context.retained_since_ns)
    published, episodes = reconcile(published, conclusions, now_ns, history.pruned_until_ns)
    hold, wait = ns(params.hold_up_s), ns(params.open_after_s)
    times = [t for begin, end in failures for t in (begin + wait, end + hold if end != FOREVER else FOREVER)]
    due = min((t for t in times if t > now_ns), default=FOREVER)
    return Evaluation(published or None, episodes, min(due, next_final_ns(conclusions, now_ns)))


def _failures(params: DownParams, admin_grace_ns: int, history: LinkHistory) -> Iterator[Interval]:
    """Yield when the link was down for no administrative reason: when either end was."""
    disabled = history.disabled()
    hold_ns = ns(params.hold_up_s)
    downs = merge_intervals((span for end in history.ends() for span in _end_downs(history, end, hold_ns)), hold_ns)
    for begin, end in downs:
        for off, on in disabled:
            if on <= begin or off >= end:
                continue
            if off > begin + admin_grace_ns:
                yield begin, off
            begin = on  # noqa: PLW2901 — what is left of this interval begins where the port was enabled again
        if begin < end:
            yield begin, end


def _end_downs(history: LinkHistory, end: Endpoint, hold_ns: int) -> Iterator[Interval]:
    """Yield when an end was down, made more precise by events of the far end where it is known from readings.

    A reading shows that the end came up since the reading before, or at an unknown time. Where the far end reported
    its own up within that time, the end came up then. And where two successive readings both show it down, the far
    end may have reported an up in between: otherwise a switch that is polled would hide the ups of a link that flaps.
    """
    own, missed = list(history.at(end)), MissedUps(history, end, hold_ns)
    far_ups = [
        s for s in history.symptoms if s.kind is SymptomKind.CAME_UP and (s.device, s.port) != (end.device, end.port)
    ]
    for begin, until in history.downs(end):
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
                begin = down  # noqa: PLW2901 — what is left of this interval
        if begin < last and (is_dated or not _is_single_reading(inside, (begin, until))):
            yield begin, last


def _between(symptoms: Sequence[Symptom], first_ns: int, last_ns: int) -> Sequence[Symptom]:
    """Return those of symptoms in order of time that lie in a closed interval."""
    begin = bisect_left(symptoms, first_ns, key=attrgetter("at_ns"))
    return symptoms[begin : bisect_right(symptoms, last_ns, begin, key=attrgetter("at_ns"))]


def _is_single_reading(own: Sequence[Symptom], down: Interval) -> bool:
    """Return whether one poll alone showed an end down, by its observations until it came up.

    That is a moment, and no duration follows from it.

    The polls before and after it were as far away, within a quarter. A source that sends only changes has one reading
    of an outage of any length; the time before it has another length then.
    """
    begin, until = down
    if any(begin < s.at_ns < until and s.kind is SymptomKind.WENT_DOWN for s in own):
        return False
    first = [s for s in own if (s.kind is SymptomKind.WENT_DOWN or s.kind in COUNTS) and s.at_ns == begin]
    after = [s for s in own if s.kind is SymptomKind.CAME_UP and s.at_ns == until]
    if any(s.by_event or not s.since_ns for s in (*first, *after)) or any(s.since_ns > begin for s in after):
        return False
    return any(abs((begin - s.since_ns) - (until - begin)) <= (until - begin) * _POLL_JITTER for s in first)
