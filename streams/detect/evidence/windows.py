"""Holds windows of event time: the history of a link's windows, and bad periods of a device's or rail's windows."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from streams.detect.detector import NOW, Context, Evaluation, Observed, PodSide, Scope
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes, has_open, open_intervals, prune
from streams.detect.evidence.link_history import FOREVER, LinkHistory, training_intervals
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.trend import CrossingForecast
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.intervals import Interval
from streams.wire.models import NO_INDEX, Endpoint, Episode, Source, Subject, Window

WEEK_NS = ns(7 * 86_400)
_WHOLE_NS = ns(3600)
_CASE_NS = ns(3600)
_HOUR_NS = ns(3600)
_SPAN_NS = ns(600)
"""Rules count bad windows within this time together."""
_NEWEST = 4
"""The newest windows of a side are retained at any age: an open episode must not vanish if the port is not read."""

Side = tuple[str, str, Source]


@dataclass(frozen=True, slots=True)
class WindowHistory:
    """The windows of one link, ordered by event time."""

    windows: tuple[Window, ...] = ()
    pruned_until_ns: int = 0
    """The end of the newest dropped window."""

    def with_window(self, window: Window) -> "WindowHistory":
        """Return the history with one more window; itself if the window is known."""
        order = _window_order(window)
        if any(_window_order(known) == order for known in reversed(self.windows)):
            return self
        windows = list(self.windows)
        insort(windows, window, key=_window_order)
        return WindowHistory(tuple(windows), self.pruned_until_ns)

    def merge(self, other: "WindowHistory") -> "WindowHistory":
        merged = self
        for window in other.windows:
            merged = merged.with_window(window)
        return WindowHistory(merged.windows, max(self.pruned_until_ns, other.pruned_until_ns))

    def downsampled(
        self, now_ns: int, open_spans: Sequence[Interval], hits: Sequence["WindowHit"], steps: Collection[int]
    ) -> "WindowHistory":
        """Return the history without windows older than an hour; of two kinds, one per hour and side is retained.

        Windows in which a level moved by a step (`steps`, by identity) are retained for a week, because they make a
        trend. Bad windows of an open episode (`hits` within `open_spans`) are retained while it is open, with all
        windows that began it, so that it is not retracted, and with those of its strongest hits. Its good windows are
        dropped, so that it is not divided.
        """
        bad = {id(hit.window) for hit in hits}
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
        stay |= {id(window) for window in hours.values()} | self._strongest(open_spans, hits)
        gone = [w for w in self.windows if w.begin_ns < whole_ns and id(w) not in stay]
        if not gone:
            return self
        dropped = {id(w) for w in gone}
        left = tuple(w for w in self.windows if id(w) not in dropped)
        return WindowHistory(left, max(self.pruned_until_ns, *(w.end_ns for w in gone)))

    def _strongest(self, open_spans: Sequence[Interval], hits: Sequence["WindowHit"]) -> set[int]:
        """Return the identities of the windows from which the strongest hits of open episodes follow."""
        best: dict[tuple[Any, ...], WindowHit] = {}
        for hit in hits:
            for span in open_spans:
                key = span, hit.side, hit.rule, hit.metric, hit.index
                if span[0] <= hit.window.begin_ns < span[1] and (
                    key not in best or (hit.is_case, hit.observed) > (best[key].is_case, best[key].observed)
                ):
                    best[key] = hit
        spans = {(hit.side, hit.window.end_ns) for hit in best.values()}
        return {
            id(window)
            for window in self.windows
            if any(side_of(window) == side and end - _SPAN_NS < window.end_ns <= end for side, end in spans)
        }

    def next_downsample_ns(self, now_ns: int) -> int:
        """Return the latest time at which a window can be dropped next; FOREVER if that depends on open episodes."""
        if not self.windows:
            return FOREVER
        times = self.windows[-1].begin_ns + _WHOLE_NS + 1, self.windows[0].begin_ns + WEEK_NS + 1
        return min((at_ns for at_ns in times if at_ns > now_ns), default=FOREVER)

    def sides(self) -> dict[Side, list[Window]]:
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
    """Return a counter's growth or a gauge's reading; None if it was not read."""
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
    """Return the growth of a counter over windows; None if no window has it."""
    found = [v for window in windows if (v := value(window, metric)) is not None]
    return sum(found) if found else None


def _window_order(window: Window) -> tuple[int, str, str, Source]:
    return window.begin_ns, window.device, window.port, window.source


P = TypeVar("P", bound=Thresholds)


@dataclass(frozen=True, slots=True)
class WindowHit:
    """A bad window of a side. `rule` names the fault, `observed` is its size."""

    side: Side
    window: Window
    rule: str
    metric: Metric
    observed: float
    expected: float
    is_case: bool
    """True if enough bad windows occurred together for a finding."""
    index: int = NO_INDEX
    forecast: CrossingForecast | None = None


class BadRun(NamedTuple):
    """Hits between which the link was never healthy for long."""

    hits: list[WindowHit]
    ends_at_ns: int
    """The time at which it ends if no hit follows; FOREVER while an end was not read after its last hit."""

    @property
    def cases(self) -> list[WindowHit]:
        return [hit for hit in self.hits if hit.is_case]


@dataclass(frozen=True, slots=True)
class WindowState:
    """The windows of one link, and its published episodes."""

    history: WindowHistory = field(default_factory=WindowHistory)
    published: PublishedEpisodes = ()


@dataclass(frozen=True, slots=True)
class WindowRules(Generic[P]):
    """A condition of a link that is up, derived from the windows of its ends.

    It opens with the first case. It ends once each rule had no hit at each side for its time and the port was read; it
    stays open while the port is not read. Windows in which the link trained do not count. An open episode is concluded
    again from the retained windows, so `hits` must not depend on dropped windows.
    """

    hits: Callable[[P, Side, Mapping[Side, Sequence[Window]]], Iterable[WindowHit]]
    """(params, side, the windows of all sides of the link in order)"""
    has_step: Callable[[Window], bool]
    """Returns whether a level moved by a step; the last such window of each hour is retained for a week."""
    quiet_s: Callable[[P, WindowHit], float]
    """Returns for how long no such hit may follow. A forecast needs no reading to end."""
    conclude: Callable[[P, Context, LinkHistory, Sequence[Window], BadRun], Conclusion]
    """(params, context, link, all windows, run)"""

    def pod_side(self) -> PodSide[P, WindowState]:
        return PodSide(
            WindowState, Scope.LINK, self._evaluate, (Window,), self._observe, follows_link_history=True,
            merge=lambda moved, existing: WindowState(
                existing.history.merge(moved.history), (*moved.published, *existing.published)
            ),
        )  # fmt: skip

    def _observe(self, _: P, state: WindowState | None, window: Window, __: Context) -> Observed[WindowState]:
        state = state or WindowState()
        history = state.history.with_window(window)
        if history is state.history:
            return Observed(state)
        return Observed(WindowState(history, state.published), NOW)

    def _evaluate(self, params: P, key: str, state: WindowState, context: Context) -> Evaluation[WindowState]:
        history, now_ns = state.history, context.watermark_ns
        link = context.evidence.links[key]
        first_ns = min((window.begin_ns for window in history.windows), default=context.retained_since_ns)
        published = prune(state.published, min(context.retained_since_ns, first_ns))
        sides = history.outside(training_intervals(context.settings.link, link, context.evidence.restarts))
        finals = [(known.begin_ns, known.end_ns) for known in published if known.episode.finding.final]
        hits = sorted(
            (
                hit
                for side in sides
                for hit in self.hits(params, side, sides)
                if not any(b <= hit.window.begin_ns and hit.window.end_ns <= e for b, e in finals)
            ),
            key=lambda hit: (hit.window.end_ns, hit.side, hit.rule, hit.index),
        )
        runs = [run for run in self._runs(params, hits, history, open_intervals(published)) if run.cases]
        conclusions = [self.conclude(params, context, link, history.windows, run) for run in runs]
        published, episodes, due_ns = context.reconcile(published, conclusions, history.pruned_until_ns)
        steps = {id(window) for window in history.windows if self.has_step(window)}
        history = history.downsampled(now_ns, open_intervals(published), hits, steps)
        left = WindowState(history, published) if history.windows or has_open(published) else None
        return Evaluation(left, episodes, min(due_ns, history.next_downsample_ns(now_ns)))

    def _runs(
        self, params: P, hits: Sequence[WindowHit], history: WindowHistory, spans: Sequence[Interval]
    ) -> Iterator[BadRun]:
        """Yield runs of hits. Two hits with dropped windows between them stay in one run if `spans` has them in one."""
        own: list[WindowHit] = []
        for hit in hits:
            since_ns, begin_ns = own[-1].window.begin_ns if own else 0, hit.window.begin_ns
            was_one = since_ns < history.pruned_until_ns and any(b <= since_ns and begin_ns < e for b, e in spans)
            if own and not was_one and begin_ns > (ends_at_ns := self._ends_at_ns(params, own, history, begin_ns)):
                yield BadRun(own, ends_at_ns)
                own = []
            own.append(hit)
        if own:
            yield BadRun(own, self._ends_at_ns(params, own, history, FOREVER))

    def _ends_at_ns(self, params: P, hits: Sequence[WindowHit], history: WindowHistory, until_ns: int) -> int:
        """Return the end of a run: no hit of any rule at any side for its time, and a window read before `until_ns`."""
        ends_at_ns = 0
        for hit in {(hit.side, hit.rule): hit for hit in hits}.values():
            end_ns = hit.window.end_ns
            was_read = hit.forecast is not None or any(
                side_of(w) == hit.side and end_ns <= w.begin_ns < until_ns for w in history.windows
            )
            ends_at_ns = max(ends_at_ns, end_ns + ns(self.quiet_s(params, hit)) if was_read else FOREVER)
        return ends_at_ns


# Bad periods of a device's windows: consecutive bad windows begin a period, enough good ones end it. `measure` emits
# windows that may be bad, and some after each (`[detect.window] watch`). If no window follows the last bad one, because
# a link was down or a device was not read, the period ends once those windows have passed: a bad one would have been
# emitted. While the device is silent this is unknown, and the period continues.


class _Mark(Protocol):
    """One window of a device or rail, as evaluated by its detector."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def is_bad(self) -> bool: ...


Mark = TypeVar("Mark", bound=_Mark)


@dataclass(frozen=True, slots=True)
class BadPeriod(Generic[Mark]):
    """The bad windows of a period, and the end of the windows that ended it; None while it is open."""

    bad: list[Mark]
    ended_at_ns: int | None


@dataclass(frozen=True, slots=True)
class WatchWindow:
    """The time for which windows are emitted after a bad one, and the time up to which all have arrived."""

    duration_ns: int
    reported_until_ns: int

    def ends_at_ns(self, last: _Mark) -> int:
        """Return the end of a period if no window follows its last bad one."""
        return last.end_ns + self.duration_ns


def watch_window(settings: SharedSettings, watermark_ns: int, *, is_read: bool) -> WatchWindow:
    """Return the watch window at a watermark; no window of a silent device arrives."""
    duration_ns = settings.window.watch * ns(settings.window.width_s)
    return WatchWindow(duration_ns, watermark_ns - ns(settings.lateness_s) if is_read else 0)


def bad_periods(
    marks: Iterable[Mark], is_case: Callable[[list[Mark]], bool], enough_good: int, watch: WatchWindow,
    bad: Sequence[Mark] = (), good: int = 0,
) -> tuple[list[BadPeriod[Mark]], list[Mark], int]:  # fmt: skip
    """Return the ended bad periods of a device's windows in order of time, and the open one: bad and good windows.

    A good mark discards bad marks that are not yet a case, and does not divide a case. `bad` and `good` are the open
    period before these marks.
    """
    periods = []
    own = list(bad)
    for mark in marks:
        if own and mark.begin_ns >= watch.ends_at_ns(own[-1]):
            if is_case(own):
                periods.append(BadPeriod(own, watch.ends_at_ns(own[-1])))
            own, good = [], 0
        if mark.is_bad:
            own, good = [*own, mark], 0
        elif not is_case(own):
            own = []
        else:
            good += 1
            if good >= enough_good:
                periods.append(BadPeriod(own, mark.end_ns))
                own, good = [], 0
    return periods, own, good


_MARKS = 64
"""The most retained windows of a device or rail: one hour."""


@dataclass(frozen=True, slots=True)
class Marks(Generic[Mark]):
    """The windows of a device or rail since the first bad one, and its published episodes.

    Of a period that began before them, the first bad windows, the worst and the last are retained.
    """

    subject: Subject
    marks: tuple[Mark, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0
    bad: tuple[Mark, ...] = ()
    good: int = 0
    """The number of good windows after `bad`."""

    @property
    def is_over(self) -> bool:
        """Return whether no retained window can change, and no new period has begun."""
        return not any(mark.is_bad for mark in self.marks[-_MARKS // 2 :]) and not has_open(self.published)

    def with_marks(self, marks: Sequence[Mark]) -> Self:
        """Return the state with these windows in order; `conclude` limits them."""
        return replace(self, marks=tuple(marks))

    def conclude(
        self, ledger: Ledger, watch: WatchWindow, is_case: Callable[[list[Mark]], bool], enough_good: int,
        worst: Callable[[Sequence[Mark]], Mark], conclude: Callable[[Subject, BadPeriod[Mark]], Conclusion],
    ) -> tuple[Self, list[Episode], int]:  # fmt: skip
        """Return the state, the changed episodes, and the time of the next change without input.

        A period of a silent device may end with each window that passes.
        """
        settings, now_ns = ledger.settings, ledger.watermark_ns
        own = self._limited(is_case, enough_good, watch, worst)
        periods, bad, _ = bad_periods(own.marks, is_case, enough_good, watch, own.bad, own.good)
        if is_case(bad):
            ended_at_ns = watch.ends_at_ns(bad[-1])
            periods.append(BadPeriod(bad, ended_at_ns if ended_at_ns <= watch.reported_until_ns else None))
        conclusions = [conclude(self.subject, period) for period in periods]
        published, episodes, due_ns = ledger.reconcile(own.published, conclusions, own.pruned_until_ns)
        for period in periods:
            if period.ended_at_ns is None:
                at_ns = watch.ends_at_ns(period.bad[-1]) + ns(settings.lateness_s)
                due_ns = min(due_ns, at_ns if at_ns > now_ns else now_ns + ns(settings.window.width_s))
        return replace(own, published=published), episodes, due_ns

    def _limited(
        self, is_case: Callable[[list[Mark]], bool], enough_good: int, watch: WatchWindow,
        worst: Callable[[Sequence[Mark]], Mark],
    ) -> Self:  # fmt: skip
        """Return the state with the newest windows, and those of an open period that its conclusion needs."""
        gone, marks = self.marks[:-_MARKS], self.marks[-_MARKS:]
        if not gone:
            return self
        _, bad, good = bad_periods(gone, is_case, enough_good, watch, self.bad, self.good)
        if bad:
            first = next((n for n in range(1, len(bad)) if is_case(bad[:n])), len(bad))
            needed = {mark.begin_ns: mark for mark in (*bad[:first], worst(bad), bad[-1])}
            bad = [needed[begin_ns] for begin_ns in sorted(needed)]
        published = prune(self.published, min(mark.begin_ns for mark in (*bad, marks[0])))
        return replace(
            self, marks=marks, published=published, pruned_until_ns=gone[-1].end_ns, bad=tuple(bad), good=good
        )


Own = TypeVar("Own", bound=Marks[Any])


def conclude_all(
    states: dict[str, Own], conclude: Callable[[Own], tuple[Own, list[Episode], int]]
) -> tuple[list[Episode], int]:
    """Conclude on every state, and forget those that are over.

    Returns the changed episodes, and the time of the next change without input.
    """
    episodes: list[Episode] = []
    due_ns = FOREVER
    for name, own in list(states.items()):
        concluded, changed, next_ns = conclude(own)
        episodes += changed
        due_ns = min(due_ns, next_ns)
        if concluded.is_over:
            del states[name]
        else:
            states[name] = concluded
    return episodes, due_ns
