"""What was told of a link's ends window by window, for detectors that conclude from rates and levels.

Kept whole for an hour; before that, and for a week, only those in which a level moved: a slow drift is seen by where it
was, a loss by the last minutes. A side is one end as one source reads it; sources are never added up.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streams.detect.evidence.link_history import FOREVER, Interval, LinkHistory, excused_intervals
from streams.detect.evidence.params import LinkParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.intervals import merge_intervals
from streams.wire.models import (
    NO_INDEX,
    Endpoint,
    Source,
    Window,
)
from streams.wire.symptoms import SymptomKind

WEEK_NS = ns(7 * 86_400)
_WHOLE_NS = ns(3600)
_CASE_NS = ns(3600)
_HOUR_NS = ns(3600)
_NEWEST = 4
"""Windows of a side that are kept however old: what is open must not vanish because nothing is read any more."""

_CHANGES = frozenset({SymptomKind.WENT_DOWN, SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED})

Side = tuple[str, str, Source]


@dataclass(slots=True)
class WindowHistory:
    """The windows of one link, ordered by event time."""

    windows: list[Window] = field(default_factory=list)
    pruned_until_ns: int = 0
    """The end of the newest window that was dropped."""

    def add(self, window: Window) -> bool:
        """Take a window in; False where it was known already."""
        if any(_order(known) == _order(window) for known in reversed(self.windows)):
            return False
        insort(self.windows, window, key=_order)
        return True

    def downsample(
        self, now_ns: int, open_spans: Sequence[Interval], bad: Collection[int], steps: Collection[int]
    ) -> None:
        """Let go of what is older than an hour, but for two kinds of windows, of which one an hour and side is left.

        Those in which a level moved by a step (`steps`, by identity) stay for a week: a trend is made of them. Those
        that speak for an open episode (`bad`, within `open_spans`) stay while it is open, and so do all with which it
        began, so that it does not vanish; its good ones go, so that it does not part.
        """
        whole_ns = now_ns - _WHOLE_NS
        if not self.windows or self.windows[0].begin_ns >= whole_ns:
            return
        stay = {id(w) for windows in self.sides().values() for w in windows[-_NEWEST:]} if open_spans else set()
        hours: dict[tuple[Side, int], Window] = {}
        for window in self.windows:
            own = next((span for span in open_spans if span[0] <= window.begin_ns and window.end_ns <= span[1]), None)
            speaks = own is not None and id(window) in bad
            if own is not None and speaks and window.end_ns <= own[0] + _CASE_NS:
                stay.add(id(window))
            moved = id(window) in steps and window.begin_ns >= now_ns - WEEK_NS and (own is None or speaks)
            if speaks or moved:
                hours[side_of(window), window.begin_ns // _HOUR_NS] = window
        stay |= {id(window) for window in hours.values()}
        gone = [w for w in self.windows if w.begin_ns < whole_ns and id(w) not in stay]
        if gone:
            self.pruned_until_ns = max(self.pruned_until_ns, *(w.end_ns for w in gone))
            dropped = {id(w) for w in gone}
            self.windows = [w for w in self.windows if id(w) not in dropped]

    def next_downsample_ns(self, now_ns: int) -> int:
        """When something can be let go of next, at the latest; FOREVER where that is for others to say."""
        if not self.windows:
            return FOREVER
        times = self.windows[-1].begin_ns + _WHOLE_NS + 1, self.windows[0].begin_ns + WEEK_NS + 1
        return min((at_ns for at_ns in times if at_ns > now_ns), default=FOREVER)

    def sides(self) -> dict[Side, list[Window]]:
        """The windows by end and source."""
        sides: dict[Side, list[Window]] = {}
        for window in self.windows:
            sides.setdefault(side_of(window), []).append(window)
        return dict(sorted(sides.items()))

    def outside(self, spans: list[Interval]) -> dict[Side, list[Window]]:
        """The windows by end and source, but those that one of these spans touches."""
        return {
            side: left
            for side, windows in self.sides().items()
            if (
                left := [
                    w for w in windows if not any(b <= w.end_ns and (w.since_ns or w.begin_ns) < e for b, e in spans)
                ]
            )
        }


def side_of(window: Window) -> Side:
    """Which end, as which source reads it."""
    return window.device, window.port, window.source


def side_endpoint(side: Side) -> Endpoint:
    """The end of a side."""
    return Endpoint(side[0], side[1])


def training_intervals(
    params: LinkParams, history: LinkHistory, restarts: Mapping[str, list[Interval]]
) -> list[Interval]:
    """When errors and levels say nothing of the fibre: a person, a restart, or the link going down and training.

    A link that goes down loses its last frames and trains for a while: that is link_flap.py's and link_down.py's.
    """
    grace = ns(params.restart_grace_s)
    spans = excused_intervals(params, history, restarts)
    spans += [(s.since_ns or s.at_ns, s.at_ns + grace) for s in history.symptoms if s.kind in _CHANGES]
    for end in history.ends():
        spans += [(begin, until if until == FOREVER else until + grace) for begin, until in history.downs(end)]
    return merge_intervals(spans)


def value(window: Window, metric: Metric, index: int = NO_INDEX) -> float | None:
    """A counter's growth or a gauge's reading; None where it was not read."""
    if metric not in window.metric:
        return None
    place = window.metric.index(metric)
    while place < len(window.metric) and (window.metric[place], window.index[place]) != (metric, index):
        place += 1
    return window.value[place] if place < len(window.metric) else None


def indexed_values(window: Window, metric: Metric) -> Iterator[tuple[int, float, float]]:
    """(index, value, before) of a metric's lanes or bins."""
    for column, index, now, before in zip(window.metric, window.index, window.value, window.before, strict=True):
        if column == metric:
            yield index, now, before


def total(windows: Iterable[Window], metric: Metric) -> float | None:
    """The growth of a counter over windows; None where none of them has it."""
    found = [v for window in windows if (v := value(window, metric)) is not None]
    return sum(found) if found else None


def _order(window: Window) -> tuple[int, str, str, Source]:
    return window.begin_ns, window.device, window.port, window.source
