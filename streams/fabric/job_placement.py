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

from streams.fabric.inventory_rows import Job

FOREVER = 2**63 - 1
"""The end of a stay whose end is not known."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JobAllocation(NamedTuple):
    """A job on one host, from `start_ns` on, up to but not at `end_ns`."""

    job: str
    device: str
    start_ns: int
    end_ns: int = FOREVER

    def contains(self, at_ns: int) -> bool:
        """Whether it is on the host at a time."""
        return self.start_ns <= at_ns < self.end_ns


class Change(NamedTuple):
    """What a job's set of hosts gained and lost at one time."""

    at_ns: int
    joined: tuple[str, ...]
    left: tuple[str, ...]


def unix_ns(when: datetime) -> int:
    """Unix nanoseconds, exactly: a float of today's is off by a hundred of them."""
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000


class JobPlacement:
    """The stays that are known."""

    def __init__(self, stays: Iterable[JobAllocation | Job] = ()) -> None:
        self._rows = tuple(stays)

    def apply(self, updates: Iterable[JobAllocation]) -> "JobPlacement":
        """The same with these; one of the same job, host and start replaces what was known of it.

        A stay that ends when it starts, or before, is one that never was.
        """
        known = {stay[:3]: stay for stay in map(_allocation, self._rows)}
        known.update((stay[:3], stay) for stay in updates)
        return JobPlacement(known.values())

    @cached_property
    def allocations(self) -> tuple[JobAllocation, ...]:
        """All of them, joined where they overlap or touch, by job, host and start."""
        return tuple(_merged(self._rows))

    @cached_property
    def _of_device(self) -> "_Timelines":
        return _Timelines(self._rows, attrgetter("device"))

    @cached_property
    def _of_job(self) -> "_Timelines":
        return _Timelines(self._rows, attrgetter("job"))

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of all jobs that ever ran, sorted."""
        return tuple(sorted({stay.job for stay in self.allocations}))

    def jobs_on(self, devices: Iterable[str], at_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these hosts at a time, sorted."""
        lines = self._of_device
        found = {
            stay.job for name in devices if (line := lines.get(name)) is not None for stay in line.allocations_at(at_ns)
        }
        return tuple(sorted(found))

    def jobs_between(self, devices: Iterable[str], from_ns: int, to_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these hosts at any time from one on and up to but not at the other, sorted."""
        lines = self._of_device
        found = {
            stay.job
            for name in devices
            if (line := lines.get(name)) is not None
            for stay in line.allocations_between(from_ns, max(to_ns, from_ns + 1))
        }
        return tuple(sorted(found))

    def hosts_of(self, job: str, at_ns: int) -> tuple[str, ...]:
        """The hosts that a job holds at a time, sorted."""
        line = self._of_job.get(job)
        return () if line is None else tuple(sorted(stay.device for stay in line.allocations_at(at_ns)))

    def allocations_of(self, job: str, from_ns: int, to_ns: int) -> tuple[JobAllocation, ...]:
        """A job's stays between two times, cut to them, by start and host."""
        line = self._of_job.get(job)
        if line is None or to_ns <= from_ns:
            return ()
        cut = (
            stay._replace(start_ns=max(stay.start_ns, from_ns), end_ns=min(stay.end_ns, to_ns))
            for stay in line.allocations_between(from_ns, to_ns)
        )
        return tuple(sorted(cut, key=lambda stay: (stay.start_ns, stay.device)))

    def changes(self, job: str, from_ns: int, to_ns: int) -> tuple[Change, ...]:
        """When a job's hosts changed, from one time on and up to but not at the other, and how."""
        line = self._of_job.get(job)
        joined: dict[int, list[str]] = defaultdict(list)
        left: dict[int, list[str]] = defaultdict(list)
        for stay in () if line is None else line.allocations_between(from_ns - 1, to_ns):
            if from_ns <= stay.start_ns < to_ns:
                joined[stay.start_ns].append(stay.device)
            if from_ns <= stay.end_ns < to_ns:
                left[stay.end_ns].append(stay.device)
        times = sorted(joined.keys() | left.keys())
        return tuple(Change(at, tuple(sorted(joined[at])), tuple(sorted(left[at]))) for at in times)

    def lifetime(self, job: str) -> tuple[int, int] | None:
        """From a job's first start to its last end; None of an unknown one."""
        line = self._of_job.get(job)
        return None if line is None else (line.allocations[0].start_ns, line.latest_end[-1])


def _allocation(row: JobAllocation | Job) -> JobAllocation:
    if isinstance(row, JobAllocation):
        return row
    return JobAllocation(row.job, row.device, unix_ns(row.start), FOREVER if row.end is None else unix_ns(row.end))


def _merged(rows: Iterable[JobAllocation | Job]) -> list[JobAllocation]:
    """Those that are, with one for all of a job on a host that overlap or touch; by job, host and start."""
    joined: list[JobAllocation] = []
    for stay in sorted(stay for stay in map(_allocation, rows) if stay.start_ns < stay.end_ns):
        last = joined[-1] if joined else None
        if last is not None and last[:2] == stay[:2] and stay.start_ns <= last.end_ns:
            joined[-1] = last._replace(end_ns=max(last.end_ns, stay.end_ns))
        else:
            joined.append(stay)
    return joined


class _Timelines:
    """Stays by host or by job; those of one are put in order when they are first asked for.

    Jobs change while a stage waits: of 16,384 hosts at once that would be 100 ms.
    """

    def __init__(self, rows: Iterable[JobAllocation | Job], key: Callable[[JobAllocation | Job], str]) -> None:
        self._rows: dict[str, list[JobAllocation | Job]] = defaultdict(list)
        for row in rows:
            self._rows[key(row)].append(row)
        self._timelines: dict[str, _Timeline] = {}

    def get(self, key: str) -> "_Timeline | None":
        """The stays of one; None where there are none."""
        line = self._timelines.get(key)
        if line is None and key in self._rows and (stays := _merged(self._rows[key])):
            line = self._timelines[key] = _Timeline(stays)
        return line


class _Timeline:
    """Stays by their start; `reach` is the latest end of those up to each: where it is past, a look-up is over."""

    __slots__ = ("allocations", "latest_end", "starts")

    def __init__(self, stays: Iterable[JobAllocation]) -> None:
        self.allocations = sorted(stays, key=lambda stay: stay.start_ns)
        self.starts = [stay.start_ns for stay in self.allocations]
        self.latest_end: list[int] = []
        latest = -FOREVER
        for stay in self.allocations:
            latest = max(latest, stay.end_ns)
            self.latest_end.append(latest)

    def allocations_at(self, at_ns: int) -> list[JobAllocation]:
        """Those that hold at a time."""
        return self._scan_back(bisect_right(self.starts, at_ns), at_ns)

    def allocations_between(self, from_ns: int, to_ns: int) -> list[JobAllocation]:
        """Those that hold at any time between the two."""
        return self._scan_back(bisect_left(self.starts, to_ns), from_ns)

    def _scan_back(self, place: int, after_ns: int) -> list[JobAllocation]:
        """Of those before a place, the ones that end after a time."""
        found: list[JobAllocation] = []
        while place and self.latest_end[place - 1] > after_ns:
            place -= 1
            if self.allocations[place].end_ns > after_ns:
                found.append(self.allocations[place])
        return found
