"""Which job is on which hosts at which event time, while jobs start, grow, shrink, move and end.

A stay holds a host from its start on, up to but not at its end; without an end, for good. Stays of one job on one host
that overlap or touch are one. A Placement never changes: news make a new one (`told`), so that whoever computes with
one sees the same jobs throughout; what is asked of it is put in order when it is first asked.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from streams.fabric.rows import Job

FOREVER = 2**63 - 1
"""The end of a stay whose end is not known."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stay(NamedTuple):
    """A job on one host, from `start_ns` on, up to but not at `end_ns`."""

    job: str
    device: str
    start_ns: int
    end_ns: int = FOREVER

    def holds(self, at_ns: int) -> bool:
        """Whether it is on the host at a time."""
        return self.start_ns <= at_ns < self.end_ns


class Change(NamedTuple):
    """What a job's set of hosts gained and lost at one time."""

    at_ns: int
    joined: tuple[str, ...]
    left: tuple[str, ...]


def ns_of(when: datetime) -> int:
    """Unix nanoseconds, exactly: a float of today's is off by a hundred of them."""
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000


class Placement:
    """The stays that are known."""

    def __init__(self, stays: Iterable[Stay | Job] = ()) -> None:
        self._given = tuple(stays)

    def told(self, news: Iterable[Stay]) -> "Placement":
        """The same with these; one of the same job, host and start replaces what was known of it.

        A stay that ends when it starts, or before, is one that never was.
        """
        known = {stay[:3]: stay for stay in map(_stay, self._given)}
        known.update((stay[:3], stay) for stay in news)
        return Placement(known.values())

    @cached_property
    def stays(self) -> tuple[Stay, ...]:
        """All of them, joined where they overlap or touch, by job, host and start."""
        return tuple(_joined(self._given))

    @cached_property
    def _of_device(self) -> "_Lines":
        return _Lines(self._given, attrgetter("device"))

    @cached_property
    def _of_job(self) -> "_Lines":
        return _Lines(self._given, attrgetter("job"))

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of all jobs that ever ran, sorted."""
        return tuple(sorted({stay.job for stay in self.stays}))

    def jobs_on(self, devices: Iterable[str], at_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these hosts at a time, sorted."""
        lines = self._of_device
        found = {stay.job for name in devices if (line := lines.get(name)) is not None for stay in line.at(at_ns)}
        return tuple(sorted(found))

    def jobs_between(self, devices: Iterable[str], from_ns: int, to_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these hosts at any time from one on and up to but not at the other, sorted."""
        lines = self._of_device
        found = {
            stay.job
            for name in devices
            if (line := lines.get(name)) is not None
            for stay in line.between(from_ns, max(to_ns, from_ns + 1))
        }
        return tuple(sorted(found))

    def hosts_of(self, job: str, at_ns: int) -> tuple[str, ...]:
        """The hosts that a job holds at a time, sorted."""
        line = self._of_job.get(job)
        return () if line is None else tuple(sorted(stay.device for stay in line.at(at_ns)))

    def during(self, job: str, from_ns: int, to_ns: int) -> tuple[Stay, ...]:
        """A job's stays between two times, cut to them, by start and host."""
        line = self._of_job.get(job)
        if line is None or to_ns <= from_ns:
            return ()
        cut = (
            stay._replace(start_ns=max(stay.start_ns, from_ns), end_ns=min(stay.end_ns, to_ns))
            for stay in line.between(from_ns, to_ns)
        )
        return tuple(sorted(cut, key=lambda stay: (stay.start_ns, stay.device)))

    def changes(self, job: str, from_ns: int, to_ns: int) -> tuple[Change, ...]:
        """When a job's hosts changed, from one time on and up to but not at the other, and how."""
        line = self._of_job.get(job)
        joined: dict[int, list[str]] = defaultdict(list)
        left: dict[int, list[str]] = defaultdict(list)
        for stay in () if line is None else line.between(from_ns - 1, to_ns):
            if from_ns <= stay.start_ns < to_ns:
                joined[stay.start_ns].append(stay.device)
            if from_ns <= stay.end_ns < to_ns:
                left[stay.end_ns].append(stay.device)
        times = sorted(joined.keys() | left.keys())
        return tuple(Change(at, tuple(sorted(joined[at])), tuple(sorted(left[at]))) for at in times)

    def span(self, job: str) -> tuple[int, int] | None:
        """From a job's first start to its last end; None of an unknown one."""
        line = self._of_job.get(job)
        return None if line is None else (line.stays[0].start_ns, line.reach[-1])


def _stay(row: Stay | Job) -> Stay:
    if isinstance(row, Stay):
        return row
    return Stay(row.job, row.device, ns_of(row.start), FOREVER if row.end is None else ns_of(row.end))


def _joined(rows: Iterable[Stay | Job]) -> list[Stay]:
    """Those that are, with one for all of a job on a host that overlap or touch; by job, host and start."""
    joined: list[Stay] = []
    for stay in sorted(stay for stay in map(_stay, rows) if stay.start_ns < stay.end_ns):
        last = joined[-1] if joined else None
        if last is not None and last[:2] == stay[:2] and stay.start_ns <= last.end_ns:
            joined[-1] = last._replace(end_ns=max(last.end_ns, stay.end_ns))
        else:
            joined.append(stay)
    return joined


class _Lines:
    """Stays by host or by job; those of one are put in order when they are first asked for.

    Jobs change while a stage waits: of 16,384 hosts at once that would be 100 ms.
    """

    def __init__(self, rows: Iterable[Stay | Job], key: Callable[[Stay | Job], str]) -> None:
        self._raw: dict[str, list[Stay | Job]] = defaultdict(list)
        for row in rows:
            self._raw[key(row)].append(row)
        self._made: dict[str, _Line] = {}

    def get(self, key: str) -> "_Line | None":
        """The stays of one; None where there are none."""
        line = self._made.get(key)
        if line is None and key in self._raw and (stays := _joined(self._raw[key])):
            line = self._made[key] = _Line(stays)
        return line


class _Line:
    """Stays by their start; `reach` is the latest end of those up to each: where it is past, a look-up is over."""

    __slots__ = ("reach", "starts", "stays")

    def __init__(self, stays: Iterable[Stay]) -> None:
        self.stays = sorted(stays, key=lambda stay: stay.start_ns)
        self.starts = [stay.start_ns for stay in self.stays]
        self.reach: list[int] = []
        latest = -FOREVER
        for stay in self.stays:
            latest = max(latest, stay.end_ns)
            self.reach.append(latest)

    def at(self, at_ns: int) -> list[Stay]:
        """Those that hold at a time."""
        return self._back_from(bisect_right(self.starts, at_ns), at_ns)

    def between(self, from_ns: int, to_ns: int) -> list[Stay]:
        """Those that hold at any time between the two."""
        return self._back_from(bisect_left(self.starts, to_ns), from_ns)

    def _back_from(self, place: int, after_ns: int) -> list[Stay]:
        """Of those before a place, the ones that end after a time."""
        found: list[Stay] = []
        while place and self.reach[place - 1] > after_ns:
            place -= 1
            if self.stays[place].end_ns > after_ns:
                found.append(self.stays[place])
        return found
