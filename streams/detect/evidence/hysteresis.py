"""Groups windows of one device into bad periods: bad windows in a row begin one, enough good ones after it end it.

`measure` emits windows that may be bad, and some after each (`[detect.window] watch`). Where no window follows the last
bad one, because a link was down or a device was not read, the period ends once those windows have passed: a bad one
would have been emitted. While the device is silent that is not known, and the period goes on.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.thresholds import ns


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
