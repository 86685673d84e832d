"""link/down: a link that stays down for no administrative reason.

Opens when either end has been down for `open_after_s` and no administrative down at either end is known by then;
resolves at the first up that holds `hold_up_s`, or when a person disables the link. One that comes back sooner is kept
and counted by link_flap.py; that a device restarted or died is concluded fabric-wide, in `attribute`.
"""

from collections.abc import Iterator

from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER, Interval, LinkHistory
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.intervals import merge_intervals
from streams.wire.models import (
    Cause,
    Condition,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
)
from streams.wire.symptoms import SymptomKind

SLUG = "link/down"
VERSION = "1"

_STATES = (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)

BOTH_ENDS = 0.95
ONE_END = 0.6
"""Confidence with both ends' evidence and with one end's: ours, so that a reader can tell them apart."""


def step(
    params: DetectParams, state: PublishedEpisodes, history: LinkHistory, watermark_ns: int
) -> tuple[PublishedEpisodes, list[Episode], int]:
    """Conclude from the history; answers the new state, what changed, and the watermark at which to look again."""
    failures = list(_failures(params, history))
    conclusions = [c for span in failures if (c := _conclusion(params, history, span, watermark_ns)) is not None]
    state, episodes = reconcile(state, conclusions, watermark_ns, history.pruned_until_ns)
    hold, wait = ns(params.down.hold_up_s), ns(params.down.open_after_s)
    times = [t for begin, end in failures for t in (begin + wait, end + hold if end != FOREVER else FOREVER)]
    due = min((t for t in times if t > watermark_ns), default=FOREVER)
    return state, episodes, min(due, next_final_ns(conclusions, watermark_ns))


def _failures(params: DetectParams, history: LinkHistory) -> Iterator[Interval]:
    """When the link was down for no administrative reason, as the union of both ends."""
    disabled = history.disabled()
    downs = merge_intervals(
        (span for end in history.ends() for span in _told_downs(history, end)), ns(params.down.hold_up_s)
    )
    for begin, end in downs:
        for off, on in disabled:
            if on <= begin or off >= end:
                continue
            if off > begin + ns(params.link.admin_grace_s):
                yield begin, off
            begin = on  # noqa: PLW2901 — what is left of this span begins where a person enabled the port again
        if begin < end:
            yield begin, end


def _told_downs(history: LinkHistory, end: Endpoint) -> Iterator[Interval]:
    """When an end was down; what its readings leave open, the far end may know better.

    A reading says that it came up since the one before, or since nobody knows when. Where the far end told of its own
    up within that time, it was then. And where both of two readings say that it is down, the far end may have told
    that it was up in between: a switch that is polled would else bridge the ups of a link that flaps.
    """
    ups = [s for s in history.symptoms if s.kind is SymptomKind.CAME_UP]
    for begin, until in history.downs(end):
        own = [s for s in ups if (s.device, s.port, s.at_ns) == (end.device, end.port, until)]
        since_ns = max((s.at_ns if s.by_event else s.since_ns or begin for s in own), default=until)
        others = (s.at_ns for s in ups if (s.device, s.port) != (end.device, end.port))
        last = min((at for at in others if max(begin, since_ns) < at < until), default=until)
        for up, down in _missed(history, end, begin):
            if begin < up and down < last:
                yield begin, up
                begin = down  # noqa: PLW2901 — what is left of this span
        yield begin, last


def _missed(history: LinkHistory, end: Endpoint, begin: int) -> Iterator[Interval]:
    """When the far end told that it was up, for less than lies between two readings of this one: it could not see it.

    Only where this end's down is known from readings; `begin` is its beginning.
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


def _conclusion(params: DetectParams, history: LinkHistory, span: Interval, watermark_ns: int) -> Conclusion | None:
    begin, end = span
    opens_ns = begin + ns(params.down.open_after_s)
    if min(end, watermark_ns) < opens_ns:
        return None
    tellers = [
        e for e in history.ends() if any(b < min(end, opens_ns) and begin < until for b, until in history.downs(e))
    ]
    resolved = end != FOREVER and watermark_ns >= end + ns(params.down.hold_up_s)
    sides = history.ends()
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.LINK_DOWN,
        severity=Severity.WARNING,
        subject=history.subject,
        started_at_ns=begin,
        observed_at_ns=end if resolved else _newest(history, span),
        resolved_at_ns=end if resolved else None,
        detected_at_ns=opens_ns,
        summary=f"{' -- '.join(f'{e.device}/{e.port}' for e in sides)} is down",
        cause=Cause.UNKNOWN,
        evidence=tuple(_evidence(params, history, teller, begin) for teller in tellers),
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=history.coverage(tellers),
    )
    final_at = end + ns(params.down.hold_up_s + params.lateness_s) if end != FOREVER else None
    return Conclusion(begin, end, finding, str(begin), final_at, (begin,))


def _newest(history: LinkHistory, span: Interval) -> int:
    """The newest evidence that it is down; that a port was met so is only its first reading, if none came later."""
    begin, end = span
    downs = (s for s in history.symptoms if s.kind is SymptomKind.WENT_DOWN and (s.by_event or s.since_ns))
    told = (s.at_ns for s in downs if begin <= s.at_ns < end)
    return max(told, default=begin)


def _evidence(params: DetectParams, history: LinkHistory, end: Endpoint, begin: int) -> Evidence:
    since = next(b for b, until in history.downs(end) if until > begin)
    told = next((s for s in history.at(end) if s.kind is SymptomKind.WENT_DOWN and s.at_ns == since), None)
    how = "as it happened" if told is not None and told.by_event else "by its state"
    return Evidence(
        statement=f"{end.device}/{end.port} told {how} that it is down",
        metric="oper_up",
        at=end,
        observed=0.0,
        expected=1.0,
        comparison="both-ends" if len(history.ends()) > 1 else "threshold",
        window_start_ns=since,
        window_end_ns=begin + ns(params.down.open_after_s),
    )
