"""Jobs whose stays cannot be: on devices that are no hosts, ended before they start, or twice on one host at a time."""

from collections import defaultdict
from collections.abc import Iterator

from streams.fabric.checks.problem import Problem
from streams.fabric.checks.tables import Tables
from streams.fabric.inventory_rows import Job


def unknown_device(tables: Tables) -> Iterator[Problem]:
    """Jobs run on devices that the table of devices has."""
    for index, job in enumerate(tables.inventory.jobs):
        if not tables.is_known(job.device):
            says = f"{job.device} is not among the devices ({job.job})"
            yield Problem("jobs", (tables.row("jobs", index),), "unknown-device", says, is_error=True)


def on_a_switch(tables: Tables) -> Iterator[Problem]:
    """Jobs run on hosts."""
    for index, job in enumerate(tables.inventory.jobs):
        device = tables.find_device(job.device)
        if device is not None and device.kind != "host":
            says = f"{job.job} runs on {job.device}, a {device.kind}"
            yield Problem("jobs", (tables.row("jobs", index),), "job-on-a-switch", says)


def ends_before_it_starts(tables: Tables) -> Iterator[Problem]:
    """Time passes forwards."""
    for index, job in enumerate(tables.inventory.jobs):
        if job.end is not None and job.end < job.start:
            says = f"{_describe(job)} ends before it starts"
            yield Problem("jobs", (tables.row("jobs", index),), "job-ends-before-it-starts", says, is_error=True)


def overlapping(tables: Tables) -> Iterator[Problem]:
    """A job is on a host once at a time; several jobs may share a host."""
    stays: dict[tuple[str, str], list[int]] = defaultdict(list)
    jobs = tables.inventory.jobs
    for index, job in enumerate(jobs):
        stays[job.job, job.device].append(index)
    for indexes in stays.values():
        if len(indexes) > 1:
            ordered = sorted(indexes, key=lambda index: jobs[index].start)
            longest = ordered[0]
            for index in ordered[1:]:
                end, begin = jobs[longest].end, jobs[index].start
                if end is None or begin < end:
                    says = f"{_describe(jobs[longest])} and {_describe(jobs[index])} overlap"
                    yield Problem("jobs", tables.rows("jobs", (longest, index)), "job-twice-on-a-host", says)
                other = jobs[index].end
                if end is not None and (other is None or other > end):
                    longest = index


def _describe(job: Job) -> str:
    until = "" if job.end is None else f" to {job.end.isoformat()}"
    return f"{job.job} on {job.device} from {job.start.isoformat()}{until}"
