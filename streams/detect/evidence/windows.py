"""Windows of event time: the history of a link's windows, and bad periods of the windows of a device or rail."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.intervals import Interval
from streams.wire.models import NO_INDEX, Endpoint, Source, Window

WEEK_NS = ns(7 * 86_400)
_WHOLE_NS = ns(3600)
_CASE_NS = ns(3600)
_HOUR_NS = ns(3600)
_NEWEST = 4
"""Windows of a side that are retained at any age: an open episode must not vanish because the port is not read."""

Side = tuple[str, str, Source]


@dataclass(frozen=True, slots=True)
class WindowHistory:
    """The windows of one link, ordered by event time."""

    windows: tuple[Window, ...] = ()
    pruned_until_ns: int = 0
    """The end of the newest window that was dropped."""

    def with_window(self, window: Window) -> "WindowHistory":
        """Return the history with one more window; itself where it is known already."""
        order = _window_order(window)
        if any(_window_order(known) == order for known in reversed(self.windows)):
            return self
        windows = list(self.windows)
        insort(windows, window, key=_window_order)
        return WindowHistory(tuple(windows), self.pruned_until_ns)

    def merge(self, other: "WindowHistory") -> "WindowHistory":
        """Return the windows of both."""
        merged = self
        for window in other.windows:
            merged = merged.with_window(window)
        return WindowHistory(merged.windows, max(self.pruned_until_ns, other.pruned_until_ns))

    def downsampled(
        self, now_ns: int, open_spans: Sequence[Interval], bad: Collection[int], steps: Collection[int]
    ) -> "WindowHistory":
        """Return the history without windows older than an hour, except one an hour and side of two kinds.

        Windows in which a level moved by a step (`steps`, by identity) are retained for a week: a trend is made of
        them. Bad windows of an open episode (`bad`, within `open_spans`) are retained while it is open, and all of
        those with which it began, so that it is not retracted; its good ones are dropped, so that it is not divided.
        """
        whole_ns = now_ns - _WHOLE_NS
        if not self.windows or self.windows[0].begin_ns >= whole_ns:
            return self
        stay = {id(w) for windows in self.sides().values() for w in windows[-_NEWEST:]} if open_spans else set()
        hours: dict[tuple[Side, int], Window] = {}
        for window in self.windows:
            own = next((span for span in open_spans if span[0] <= window.begin_ns and window.end_ns <= span[1]), None)
            is_evidence = own is not None and id(window) in bad
            if own is not None and is_evidence and window.end_ns <= own[0] + _CASE_NS:
                stay.add(id(window))
            moved = id(window) in steps and window.begin_ns >= now_ns - WEEK_NS and (own is None or is_evidence)
            if is_evidence or moved:
                hours[side_of(window), window.begin_ns // _HOUR_NS] = window
        stay |= {id(window) for window in hours.values()}
        gone = [w for w in self.windows if w.begin_ns < whole_ns and id(w) not in stay]
        if not gone:
            return self
        dropped = {id(w) for w in gone}
        left = tuple(w for w in self.windows if id(w) not in dropped)
        return WindowHistory(left, max(self.pruned_until_ns, *(w.end_ns for w in gone)))

    def next_downsample_ns(self, now_ns: int) -> int:
        """Return when a window can be dropped next, at the latest; FOREVER where that depends on open episodes."""
        if not self.windows:
            return FOREVER
        times = self.windows[-1].begin_ns + _WHOLE_NS + 1, self.windows[0].begin_ns + WEEK_NS + 1
        return min((at_ns for at_ns in times if at_ns > now_ns), default=FOREVER)

    def sides(self) -> dict[Side, list[Window]]:
        """Return the windows by end and source."""
        sides: dict[Side, list[Window]] = {}
        for window in self.windows:
            sides.setdefault(side_of(window), []).append(window)
        return dict(sorted(sides.items()))

    def outside(self, spans: list[Interval]) -> dict[Side, list[Window]]:
        """Return the windows by end and source, except those that overlap an interval."""
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
    """Return the end and the source of a window."""
    return window.device, window.port, window.source


def side_endpoint(side: Side) -> Endpoint:
    """Return the end of a side."""
    return Endpoint(side[0], side[1])


def value(window: Window, metric: Metric, index: int = NO_INDEX) -> float | None:
    """Return a counter's growth or a gauge's reading; None where it was not read."""
    if metric not in window.metric:
        return None
    place = window.metric.index(metric)
    while place < len(window.metric) and (window.metric[place], window.index[place]) != (metric, index):
        place += 1
    return window.value[place] if place < len(window.metric) else None


def indexed_values(window: Window, metric: Metric) -> Iterator[tuple[int, float, float]]:
    """Yield (index, value, value before) of a metric's lanes or bins."""
    for column, index, now, before in zip(window.metric, window.index, window.value, window.before, strict=True):
        if column == metric:
            yield index, now, before


def total(windows: Iterable[Window], metric: Metric) -> float | None:
    """Return the growth of a counter over windows; None where none of them has it."""
    found = [v for window in windows if (v := value(window, metric)) is not None]
    return sum(found) if found else None


def _window_order(window: Window) -> tuple[int, str, str, Source]:
    return window.begin_ns, window.device, window.port, window.source


class _Window(Protocol):
    """The window that a mark is of."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


Mark = TypeVar("Mark", bound=_Window)


@dataclass(frozen=True, slots=True)
class BadPeriod(Generic[Mark]):
    """The bad windows of a period, and the end of the windows that ended it; None while it goes on."""

    bad: list[Mark]
    ended_at_ns: int | None


@dataclass(frozen=True, slots=True)
class WatchWindow:
    """The time for which windows are emitted after a bad one, and the time up to which all have arrived."""

    duration_ns: int
    reported_until_ns: int

    def ends_at_ns(self, last: _Window) -> int:
        """Return when a period ends if no window follows its last bad one."""
        return last.end_ns + self.duration_ns


def watch_window(settings: SharedSettings, watermark_ns: int, *, is_read: bool) -> WatchWindow:
    """Return the watch window at a watermark; of a silent device no window arrives."""
    duration_ns = settings.window.watch * ns(settings.window.width_s)
    return WatchWindow(duration_ns, watermark_ns - ns(settings.lateness_s) if is_read else 0)


def bad_periods(
    marks: Iterable[Mark],
    is_bad: Callable[[Mark], bool],
    is_case: Callable[[list[Mark]], bool],
    enough_good: int,
    watch: WatchWindow,
) -> Iterator[BadPeriod[Mark]]:
    """Yield the bad periods of a device's windows, in order of time.

    A good mark discards bad ones that are no case yet, and does not divide those that are one.
    """
    bad: list[Mark] = []
    good = 0
    for mark in marks:
        if bad and mark.begin_ns >= watch.ends_at_ns(bad[-1]):
            if is_case(bad):
                yield BadPeriod(bad, watch.ends_at_ns(bad[-1]))
            bad, good = [], 0
        if is_bad(mark):
            bad, good = [*bad, mark], 0
        elif not is_case(bad):
            bad = []
        else:
            good += 1
            if good >= enough_good:
                yield BadPeriod(bad, mark.end_ns)
                bad, good = [], 0
    if is_case(bad):
        ended_at_ns = watch.ends_at_ns(bad[-1])
        yield BadPeriod(bad, ended_at_ns if ended_at_ns <= watch.reported_until_ns else None)


def next_check_ns(
    settings: SharedSettings, periods: Iterable[BadPeriod[Mark]], watch: WatchWindow, watermark_ns: int
) -> int:
    """Return the watermark at which a period may end; while its device is silent, one window later each time."""
    due = (
        watch.ends_at_ns(period.bad[-1]) + ns(settings.lateness_s) for period in periods if period.ended_at_ns is None
    )
    return min((at if at > watermark_ns else watermark_ns + ns(settings.window.width_s) for at in due), default=FOREVER)
