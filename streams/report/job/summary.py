"""Summarizes a job by its scheduler's data: its tenant, its last run, and the time of the last report."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from streams.fabric.job_placement import FOREVER
from streams.instrument.text import format_duration, format_time
from streams.store.queries.jobs import JobStay

COLUMNS = ("JOB", "USER", "TEAM", "TENANT", "HOSTS", "GPUS", "START", "END", "STATE")


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job, with the hosts, GPUs and state of its last run."""

    job: str
    name: str
    user: str
    team: str
    tenant: str
    """The tenant; empty if the job has none and its hosts have different ones."""
    scheduler: str
    scheduler_ids: tuple[str, ...]
    array_job: str
    state: str
    hosts: tuple[str, ...]
    gpus: int | None
    """The number of GPUs; None if the scheduler does not report it."""
    requeues: int
    start_ns: int
    end_ns: int | None
    stale_since_ns: int | None


def summaries(stays: Iterable[JobStay]) -> list[JobSummary]:
    """Return one summary per job, sorted by name; the stays must be sorted by job and run."""
    return [_summary(list(own)) for _, own in groupby(stays, attrgetter("job"))]


def of_tenant(found: Iterable[JobSummary], tenant: str | None) -> list[JobSummary]:
    """Return the jobs of a tenant, or all jobs for None."""
    return [each for each in found if tenant in (None, each.tenant)]


def _summary(stays: list[JobStay]) -> JobSummary:
    last_run = stays[-1].run
    last = [stay for stay in stays if stay.run == last_run]
    end_ns = max(stay.end_ns for stay in last)
    gpus = [stay.gpus for stay in last]
    running = [stay for stay in last if stay.end_ns == FOREVER]
    one, tenants = (running or last)[-1], {stay.tenant for stay in stays}
    stale = [stay.stale_since_ns for stay in running if stay.stale_since_ns is not None]
    return JobSummary(
        one.job, one.name, one.user, one.team, tenants.pop() if len(tenants) == 1 else "", one.scheduler,
        one.scheduler_ids, one.array_job, one.state, tuple(stay.device for stay in last),
        None if None in gpus else sum(count for count in gpus if count is not None),
        last_run, min(stay.start_ns for stay in stays), None if end_ns == FOREVER else end_ns, min(stale, default=None),
    )  # fmt: skip


def summary_lines(summary: JobSummary, now_ns: int) -> Iterator[str]:
    """Yield the scheduler's data about one job; nothing for a job that only the inventory has."""
    if not summary.scheduler:
        if summary.tenant:
            yield f"tenant {summary.tenant}"
        return
    labels = [f"{label} {value}" for label, value in
             (("name", summary.name), ("user", summary.user), ("team", summary.team), ("tenant", summary.tenant))
             if value]  # fmt: skip
    gpus = "GPUs unknown" if summary.gpus is None else f"{summary.gpus} GPUs"
    requeues = f", requeued {summary.requeues} times" if summary.requeues > 1 else ", requeued once"
    state = f"{summary.scheduler}: {summary.state or 'state unknown'}{requeues if summary.requeues else ''}"
    yield "; ".join((", ".join(labels) or "no user reported", gpus, state))
    if summary.array_job:
        yield f"task of the array {summary.array_job}"
    if summary.stale_since_ns is not None:
        since = format_duration(max(0, now_ns - summary.stale_since_ns))
        yield (
            f"STALE: {summary.scheduler} last reported it at {format_time(summary.stale_since_ns)}, {since} ago;"
            " whether it still runs is not known"
        )


def cells(summary: JobSummary) -> tuple[str, ...]:
    """Return the row of a job in a table with COLUMNS."""
    end = "" if summary.end_ns is None else format_time(summary.end_ns)
    stale = " (stale)" if summary.stale_since_ns is not None else ""
    gpus = "" if summary.gpus is None else str(summary.gpus)
    return (
        summary.job, summary.user, summary.team, summary.tenant, str(len(summary.hosts)), gpus,
        format_time(summary.start_ns), end, summary.state + stale,
    )  # fmt: skip
