"""Stores the last known jobs of one scheduler, and selects the jobs to publish after each answer. Pure.

A missing answer changes no job: running stays are marked stale, and none ends. A job ends when the scheduler reports
its end, when another run of it begins, or when it is missing from complete answers for `absent_ns`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from collectors.core.context import CollectorContext
from streams.wire.bounds import MAX_TIME_NS, NAME_CHARACTERS, shortened
from streams.wire.errors import Reject
from streams.wire.models import Job, SchedulerAnswer
from streams.wire.topics import JOBS, SCHEDULERS, Record, encode, tombstone


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The jobs of one answer.

    `jobs` has the stays on hosts, including ended ones for as long as the scheduler has them; a stay whose end is
    unknown ends 1 ns after its start. `runs` has the present
    run of every job of the scheduler, including waiting jobs. `unreadable` has the jobs that could not be parsed: if
    there are any, a missing job may be one of them; one of `unreadable_jobs`, if these are known. `allocated` has the
    hosts that the scheduler shows as allocated, None if that is unknown.
    """

    jobs: tuple[Job, ...]
    runs: Mapping[str, int]
    unreadable: tuple[str, ...] = ()
    unreadable_jobs: frozenset[str] = frozenset()
    allocated: frozenset[str] | None = None

    def hidden(self) -> frozenset[str]:
        """Return the allocated hosts on which the answer has no job: the reader is not shown the jobs there."""
        return (self.allocated or frozenset()) - {job.device for job in self.jobs if job.end_ns is None}


MAX_NUMBER = 2**31 - 1
"""The largest count that the wire accepts."""
MAX_SECONDS = MAX_TIME_NS // 1_000_000_000 - 1
"""The latest start time of a job, so that its end may be later."""


def bounded(number: int) -> int:
    """Return a count that the wire accepts; raises Reject for a larger one."""
    if not 0 <= number <= MAX_NUMBER:
        raise Reject(f"{number} is beyond its bounds")
    return number


def text(value: object) -> str:
    """Return a text that the wire accepts: without control characters, cut to the length of a name."""
    return shortened("", value, NAME_CHARACTERS) if isinstance(value, str) else ""


_log = structlog.get_logger("railsight.jobs")

REQUEUED = "REQUEUED"
LEFT = "LEFT"
GONE = "GONE"
"""States that railsight sets: another run started; the job left the host; the scheduler lacks the job."""


class Stay(NamedTuple):
    """One run of a job on one host."""

    job: str
    device: str
    run: int


@dataclass(slots=True)
class Ledger:
    """The last published jobs of one scheduler."""

    absent_ns: int
    """A job that is missing from answers for this long has ended; 0 if a missing job has certainly ended."""
    retain_ns: int
    """An ended stay is deleted from the topic this long after its end."""
    _known: dict[Stay, Job] = field(default_factory=dict)
    _missing_since: dict[Stay, int] = field(default_factory=dict)
    """The time of the last answer that had the stay."""
    _answered_ns: int = 0

    def restore(self, published: Iterable[Job]) -> None:
        """Restore the jobs that an earlier process published."""
        self._known = {_stay(job): job for job in published}

    @property
    def running(self) -> list[Job]:
        """Return the stays without an end."""
        return [job for job in self._known.values() if job.end_ns is None]

    def observe(self, snapshot: Snapshot, at_ns: int) -> list[Job]:
        """Return the stays that changed with this answer."""
        changed = []
        present = {_stay(job): job for job in snapshot.jobs}
        for stay, job in present.items():
            self._missing_since.pop(stay, None)
            before = self._known.get(stay)
            if before is None and job.end_ns is not None and job.end_ns < at_ns - self.retain_ns:
                continue
            if (now := _continued(before, job, at_ns)) != before:
                changed.append(self._set(now))
        missing = [job for job in self.running if _stay(job) not in present]
        stays_of: dict[str, list[Job]] = defaultdict(list)
        for job in snapshot.jobs:
            stays_of[job.job].append(job)
        after = [self._without(job, stays_of[job.job], snapshot, at_ns) for job in missing]
        after = self._without_hidden(missing, after, snapshot, at_ns)
        changed += [self._set(now) for job, now in zip(missing, after, strict=True) if now != job]
        self._answered_ns = at_ns
        return changed

    def is_missing(self, snapshot: Snapshot) -> bool:
        """Return whether an answer lacks a running job without a reason."""
        present = {job.job for job in snapshot.jobs}
        return any(job.job not in present and job.job not in snapshot.runs for job in self.running)

    def _without_hidden(self, missing: list[Job], after: list[Job], snapshot: Snapshot, at_ns: int) -> list[Job]:
        """Return the forms of the missing stays, of which those on hidden hosts have not ended."""
        hidden = snapshot.hidden()
        return [self._stale(job, at_ns) if now.state == GONE and job.device in hidden else now
                for job, now in zip(missing, after, strict=True)]  # fmt: skip

    def _stale(self, job: Job, at_ns: int) -> Job:
        since_ns = self._missing_since.setdefault(_stay(job), self._answered_ns or at_ns)
        return job if job.stale_since_ns is not None else replace(job, stale_since_ns=since_ns)

    def mark_stale(self, at_ns: int) -> list[Job]:
        """Return the running stays that are newly marked stale, because the scheduler does not answer.

        If this process has received no answer, the time of the last one is unknown and the marks begin now.
        """
        since_ns = self._answered_ns or at_ns
        return [self._set(replace(job, stale_since_ns=since_ns)) for job in self.running if job.stale_since_ns is None]

    def expire(self, at_ns: int) -> list[Job]:
        """Evict the stays that ended long ago, and return them."""
        old = [stay for stay, job in self._known.items() if (job.end_ns or at_ns) < at_ns - self.retain_ns]
        return [self._known.pop(stay) for stay in old]

    def _set(self, job: Job) -> Job:
        self._known[_stay(job)] = job
        if job.end_ns is not None:
            self._missing_since.pop(_stay(job), None)
        return job

    def _without(self, job: Job, others: list[Job], snapshot: Snapshot, at_ns: int) -> Job:
        """Return the present form of a running stay that the answer lacks; `others` has the job's other stays."""
        if job.job in snapshot.runs:
            if any(other.run == job.run for other in others):
                return _ended(job, at_ns, LEFT)
            began_ns = min((other.start_ns for other in others if other.run > job.run), default=at_ns)
            return _ended(job, min(began_ns, at_ns), REQUEUED)
        if snapshot.unreadable and (not snapshot.unreadable_jobs or job.job in snapshot.unreadable_jobs):
            return job
        since_ns = self._missing_since.setdefault(_stay(job), self._answered_ns or at_ns)
        if at_ns - since_ns >= self.absent_ns:
            return _ended(job, since_ns if self.absent_ns else at_ns, GONE)
        return self._stale(job, at_ns)


def _stay(job: Job) -> Stay:
    return Stay(job.job, job.device, job.run)


def _continued(before: Job | None, job: Job, at_ns: int) -> Job:
    """Return a reported stay with its published start: readers would take another start for another stay.

    A start after the stay's end is another stay, of a job with the same name. An end that the scheduler does not know
    is that of the first answer with it.
    """
    if before is None or (before.end_ns is not None and job.start_ns >= before.end_ns):
        return job
    end_ns = job.end_ns
    if end_ns == job.start_ns + 1:
        end_ns = before.end_ns or at_ns
    return replace(job, start_ns=before.start_ns, end_ns=None if end_ns is None else max(end_ns, before.start_ns + 1))


def _ended(job: Job, at_ns: int, state: str) -> Job:
    return replace(job, end_ns=max(at_ns, job.start_ns + 1), state=state, stale_since_ns=None)


_NAMES = 5
_REPORT_NS = 30_000_000_000


def hidden_problem(hidden: frozenset[str]) -> str:
    """Return the description of allocated hosts without a job; empty if there are none."""
    if not hidden:
        return ""
    names = ", ".join(sorted(hidden)[:_NAMES]) + (", …" if len(hidden) > _NAMES else "")
    return (
        f"{len(hidden)} allocated hosts have no job in the answer ({names}): the login may not see all jobs"
        " (PrivateData, hidden partitions); use a login with the privilege of an operator"
    )


class JobFeed:
    """Publishes the jobs of one scheduler; `name` is the scheduler's."""

    def __init__(self, name: str, ledger: Ledger, context: CollectorContext, stale_ns: int) -> None:
        self._name = name
        self._ledger = ledger
        self._context = context
        self._stale_ns = stale_ns
        self._refused: dict[bytes, Record] = {}
        """Records that the full buffer refused, by key: they are offered again, because nothing else repeats them."""
        self._answered_ns = context.clock.now_ns()
        self._problem: str | None = "no answer yet"
        self._complete_ns: int | None = None
        """The time of the last complete answer."""
        self._reported: tuple[int, str] = (0, "")
        """The time and the problem of the last report."""
        self._hidden: frozenset[str] = frozenset()
        self._hidden_problem = ""
        context.health.ready_while(f"scheduler {name}", lambda: self._problem or self._hidden_problem)

    def is_missing(self, snapshot: Snapshot) -> bool:
        """Return whether an answer lacks a running job without a reason."""
        return self._ledger.is_missing(snapshot)

    def observe(self, snapshot: Snapshot) -> None:
        """Publish the changes of an answer."""
        now_ns = self._answered_ns = self._context.clock.now_ns()
        if self._problem is not None:
            _log.info("scheduler reached", scheduler=self._name, jobs=len(snapshot.runs))
            self._problem = None
        for reason in snapshot.unreadable:
            _log.warning("job unreadable", scheduler=self._name, why=reason)
        self._context.metrics.add("unreadable", self._name, len(snapshot.unreadable))
        self._context.metrics.add("updates", self._name, len(snapshot.jobs))
        self._check_hidden(snapshot)
        self._publish(self._ledger.observe(snapshot, now_ns))
        problem = self._hidden_problem or "; ".join(snapshot.unreadable[:_NAMES])
        if not problem:
            self._complete_ns = now_ns
        self._report(now_ns, problem)
        for job in self._ledger.expire(now_ns):
            self._offer(tombstone(JOBS, encode(JOBS, job).key.decode()))

    def _check_hidden(self, snapshot: Snapshot) -> None:
        """Report the hosts that were hidden in two readings of the nodes; a job may start between two commands."""
        if snapshot.allocated is None:
            return
        before, self._hidden = self._hidden, snapshot.hidden()
        hidden = self._hidden & before
        self._context.metrics.set("hidden_hosts", len(hidden), self._name)
        problem = hidden_problem(hidden)
        if problem and not self._hidden_problem:
            _log.warning(problem, scheduler=self._name)
        self._hidden_problem = problem

    def failed(self, why: str) -> None:
        """Mark the running jobs as stale if the scheduler has not answered for too long."""
        if why != self._problem:
            _log.warning("scheduler does not answer, the last known jobs stay", scheduler=self._name, why=why)
            self._problem = why
        now_ns = self._context.clock.now_ns()
        self._report(now_ns, why)
        if now_ns - self._answered_ns > self._stale_ns:
            self._publish(self._ledger.mark_stale(now_ns))

    def _report(self, now_ns: int, problem: str) -> None:
        """Publish the age of the last complete answer, every 30 s and when the problem changes, once there is one.

        Jobs are sent before it, so that its reader has the jobs of that answer; without reports it becomes old.
        """
        sent_ns, sent = self._reported
        if self._complete_ns is None or self._refused or (now_ns - sent_ns < _REPORT_NS and sent == problem):
            return
        text = shortened("", problem, NAME_CHARACTERS)
        own = SchedulerAnswer(self._name, max(0, now_ns - self._complete_ns), text)
        if self._context.publisher.offer(encode(SCHEDULERS, own)):
            self._reported = now_ns, problem

    def _publish(self, jobs: Iterable[Job]) -> None:
        refused, self._refused = self._refused, {}
        for record in refused.values():
            self._offer(record)
        for job in jobs:
            self._offer(encode(JOBS, job))

    def _offer(self, record: Record) -> None:
        # A newer record of the same stay replaces a refused one.
        self._refused.pop(record.key, None)
        if not self._context.publisher.offer(record):
            self._refused[record.key] = record
