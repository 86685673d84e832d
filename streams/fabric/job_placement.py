"""Tracks the placement of jobs on hosts by event time, while jobs start, grow, shrink, move and end.

An allocation covers a host from its start up to but not including its end, or without limit if it has no end.
Allocations of one job on one host that overlap or touch are merged. A JobPlacement is immutable: `apply` returns a new
one, so that a computation uses the same jobs throughout. Look-up tables are built on first use.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from streams.fabric.inventory_rows import Job

FOREVER = 2**63 - 1
"""The end of an allocation whose end is unknown."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JobAllocation(NamedTuple):
    """The allocation of one host to a job, from `start_ns` up to but not including `end_ns`."""

    job: str
    device: str
    start_ns: int
    end_ns: int = FOREVER

    def contains(self, at_ns: int) -> bool:
        """Return whether the job is on the host at a time."""
        return self.start_ns <= at_ns < self.end_ns


def unix_ns(when: datetime) -> int:
    """Convert to Unix nanoseconds exactly; a float of a present time has an error of about a hundred nanoseconds."""
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000


class JobPlacement:
    """The known allocations."""

    def __init__(self, allocations: Iterable[JobAllocation | Job] = ()) -> None:
        self._rows = tuple(allocations)

    def apply(self, updates: Iterable[JobAllocation]) -> "JobPlacement":
        """Return the placement with these updates; an update replaces the allocation of the same job, host and start.

        An allocation that does not end after its start is deleted.
        """
        known = {allocation[:3]: allocation for allocation in map(_allocation, self._rows)}
        known.update((allocation[:3], allocation) for allocation in updates)
        return JobPlacement(known.values())

    @cached_property
    def allocations(self) -> tuple[JobAllocation, ...]:
        """Return all allocations, merged where they overlap or touch, by job, host and start."""
        return tuple(_merged(self._rows))

    @cached_property
    def _of_device(self) -> "_Timelines":
        return _Timelines(self._rows, attrgetter("device"))

    @cached_property
    def _of_job(self) -> "_Timelines":
        return _Timelines(self._rows, attrgetter("job"))

    def jobs_on(self, devices: Iterable[str], at_ns: int) -> tuple[str, ...]:
        """Return the jobs on any of these hosts at a time, sorted."""
        return self.jobs_between(devices, at_ns, at_ns + 1)

    def jobs_between(self, devices: Iterable[str], from_ns: int, to_ns: int) -> tuple[str, ...]:
        """Return the jobs on any of these hosts between `from_ns` (included) and `to_ns` (excluded), sorted."""
        until_ns = max(to_ns, from_ns + 1)
        timelines = filter(None, map(self._of_device.get, devices))
        return tuple(sorted({one.job for timeline in timelines for one in timeline.between(from_ns, until_ns)}))

    def hosts_of(self, job: str, at_ns: int) -> tuple[str, ...]:
        """Return the hosts of a job at a time, sorted."""
        timeline = self._of_job.get(job)
        return () if timeline is None else tuple(sorted(one.device for one in timeline.between(at_ns, at_ns + 1)))

    def all_hosts_of(self, job: str) -> frozenset[str]:
        """Return the hosts that a job has at any time."""
        timeline = self._of_job.get(job)
        return frozenset() if timeline is None else frozenset(one.device for one in timeline.allocations)


def _allocation(row: JobAllocation | Job) -> JobAllocation:
    if isinstance(row, JobAllocation):
        return row
    return JobAllocation(row.job, row.device, unix_ns(row.start), FOREVER if row.end is None else unix_ns(row.end))


def _merged(rows: Iterable[JobAllocation | Job]) -> list[JobAllocation]:
    """Merge a job's allocations on a host that overlap or touch, without empty ones; by job, host and start."""
    joined: list[JobAllocation] = []
    for allocation in sorted(
        allocation for allocation in map(_allocation, rows) if allocation.start_ns < allocation.end_ns
    ):
        last = joined[-1] if joined else None
        if last is not None and last[:2] == allocation[:2] and allocation.start_ns <= last.end_ns:
            joined[-1] = last._replace(end_ns=max(last.end_ns, allocation.end_ns))
        else:
            joined.append(allocation)
    return joined


class _Timelines:
    """The allocations by host or by job; each timeline is built on first use.

    A stage would wait 100 ms for all 16,384 hosts whenever jobs change.
    """

    def __init__(self, rows: Iterable[JobAllocation | Job], key: Callable[[JobAllocation | Job], str]) -> None:
        self._rows: dict[str, list[JobAllocation | Job]] = defaultdict(list)
        for row in rows:
            self._rows[key(row)].append(row)
        self._timelines: dict[str, _Timeline] = {}

    def get(self, key: str) -> "_Timeline | None":
        """Return the timeline of a key; None if it has no allocations."""
        timeline = self._timelines.get(key)
        if timeline is None and key in self._rows and (allocations := _merged(self._rows[key])):
            timeline = self._timelines[key] = _Timeline(allocations)
        return timeline


class _Timeline:
    """Allocations by start; `latest_end` is the latest end up to each one, at which a backward look-up may stop."""

    __slots__ = ("allocations", "latest_end", "starts")

    def __init__(self, allocations: Iterable[JobAllocation]) -> None:
        self.allocations = sorted(allocations, key=lambda allocation: allocation.start_ns)
        self.starts = [allocation.start_ns for allocation in self.allocations]
        self.latest_end: list[int] = []
        latest = -FOREVER
        for allocation in self.allocations:
            latest = max(latest, allocation.end_ns)
            self.latest_end.append(latest)

    def between(self, from_ns: int, to_ns: int) -> list[JobAllocation]:
        """Return the allocations at any time between `from_ns` (included) and `to_ns` (excluded)."""
        found: list[JobAllocation] = []
        index = bisect_left(self.starts, to_ns)
        while index and self.latest_end[index - 1] > from_ns:
            index -= 1
            if self.allocations[index].end_ns > from_ns:
                found.append(self.allocations[index])
        return found
