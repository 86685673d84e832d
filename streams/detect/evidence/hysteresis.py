"""Windows judged one by one, as runs: bad ones in a row are a case, enough good ones after it are its end.

`measure` tells the windows that may be bad and some after each (`detect.window` watch). Where those after the last bad
one say nothing, because a link was down meanwhile or a device was not read, the case is over once they have passed: it
would have been told again. As long as the device is silent nobody would know, and it is not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns


class _Window(Protocol):
    """What a mark is of."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


Mark = TypeVar("Mark", bound=_Window)


@dataclass(frozen=True, slots=True)
class BadPeriod(Generic[Mark]):
    """The bad windows of a case, and the end of those that ended it; None where it is not over."""

    bad: list[Mark]
    ended_at_ns: int | None


@dataclass(frozen=True, slots=True)
class WatchWindow:
    """For how long after a bad window others are told, and up to when all were that are told."""

    duration_ns: int
    reported_until_ns: int

    def ends_at_ns(self, last: _Window) -> int:
        """When what was bad last is over, if nothing more is said."""
        return last.end_ns + self.duration_ns


def watch_window(params: DetectParams, watermark_ns: int, *, is_read: bool) -> WatchWindow:
    """As of a watermark; of a device that is silent nothing is told."""
    lasts_ns = params.window.watch * ns(params.window.width_s)
    return WatchWindow(lasts_ns, watermark_ns - ns(params.lateness_s) if is_read else 0)


def bad_periods(
    marks: Iterable[Mark],
    is_bad: Callable[[Mark], bool],
    is_case: Callable[[list[Mark]], bool],
    enough_good: int,
    watch: WatchWindow,
) -> Iterator[BadPeriod[Mark]]:
    """The cases of a device's windows, in their order.

    A good mark unmakes what is no case yet, and parts nothing that is one.
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
        over_ns = watch.ends_at_ns(bad[-1])
        yield BadPeriod(bad, over_ns if over_ns <= watch.reported_until_ns else None)


def next_check_ns(params: DetectParams, runs: Iterable[BadPeriod[Mark]], watch: WatchWindow, watermark_ns: int) -> int:
    """The watermark at which a case that goes on may be over; where its device is silent, a window later each time."""
    due = (watch.ends_at_ns(run.bad[-1]) + ns(params.lateness_s) for run in runs if run.ended_at_ns is None)
    return min((at if at > watermark_ns else watermark_ns + ns(params.window.width_s) for at in due), default=FOREVER)
