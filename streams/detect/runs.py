"""Windows judged one by one, as runs: bad ones in a row are a case, enough good ones after it are its end.

`measure` tells the windows that may be bad and some after each (`detect.window` watch). Where those after the last bad
one say nothing, because a link was down meanwhile or a device was not read, the case is over once they have passed: it
would have been told again. As long as the device is silent nobody would know, and it is not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from streams.detect.link import FOREVER
from streams.detect.params import DetectParams, ns


class _Window(Protocol):
    """What a mark is of."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


Mark = TypeVar("Mark", bound=_Window)


@dataclass(frozen=True, slots=True)
class Run(Generic[Mark]):
    """The bad windows of a case, and the end of those that ended it; None where it is not over."""

    bad: list[Mark]
    over_ns: int | None


@dataclass(frozen=True, slots=True)
class Watch:
    """For how long after a bad window others are told, and up to when all were that are told."""

    lasts_ns: int
    told_ns: int

    def over_ns(self, last: _Window) -> int:
        """When what was bad last is over, if nothing more is said."""
        return last.end_ns + self.lasts_ns


def watched(params: DetectParams, watermark_ns: int, *, is_read: bool) -> Watch:
    """As of a watermark; of a device that is silent nothing is told."""
    lasts_ns = params.window.watch * ns(params.window.width_s)
    return Watch(lasts_ns, watermark_ns - ns(params.lateness_s) if is_read else 0)


def bad_runs(
    marks: Iterable[Mark],
    is_bad: Callable[[Mark], bool],
    is_case: Callable[[list[Mark]], bool],
    enough_good: int,
    watch: Watch,
) -> Iterator[Run[Mark]]:
    """The cases of a device's windows, in their order.

    A good mark unmakes what is no case yet, and parts nothing that is one.
    """
    bad: list[Mark] = []
    good = 0
    for mark in marks:
        if bad and mark.begin_ns >= watch.over_ns(bad[-1]):
            if is_case(bad):
                yield Run(bad, watch.over_ns(bad[-1]))
            bad, good = [], 0
        if is_bad(mark):
            bad, good = [*bad, mark], 0
        elif not is_case(bad):
            bad = []
        else:
            good += 1
            if good >= enough_good:
                yield Run(bad, mark.end_ns)
                bad, good = [], 0
    if is_case(bad):
        over_ns = watch.over_ns(bad[-1])
        yield Run(bad, over_ns if over_ns <= watch.told_ns else None)


def look_again_ns(params: DetectParams, runs: Iterable[Run[Mark]], watch: Watch, watermark_ns: int) -> int:
    """The watermark at which a case that goes on may be over; where its device is silent, a window later each time."""
    due = (watch.over_ns(run.bad[-1]) + ns(params.lateness_s) for run in runs if run.over_ns is None)
    return min((at if at > watermark_ns else watermark_ns + ns(params.window.width_s) for at in due), default=FOREVER)
