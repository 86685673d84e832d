"""Rules for jobs: allocations on other devices than hosts, with an end before the start, or overlapping on a host."""

from collections import defaultdict
from collections.abc import Iterator

from streams.fabric.checks.problem import Problem
from streams.fabric.checks.tables import Tables
from streams.fabric.inventory_rows import Job


def unknown_device(tables: Tables) -> Iterator[Problem]:
    """Report each job on a device that the table of devices does not contain."""
    for index, job in enumerate(tables.inventory.jobs):
        if not tables.is_known(job.device):
            message = f"{job.device} is not among the devices ({job.job})"
            yield Problem("jobs", (tables.row("jobs", index),), "unknown-device", message, is_error=True)


def on_a_switch(tables: Tables) -> Iterator[Problem]:
    """Report each job on a device that is not a host."""
    for index, job in enumerate(tables.inventory.jobs):
        device = tables.find_device(job.device)
        if device is not None and device.kind != "host":
            message = f"{job.job} runs on {job.device}, a {device.kind}"
            yield Problem("jobs", (tables.row("jobs", index),), "job-on-a-switch", message)


def ends_before_it_starts(tables: Tables) -> Iterator[Problem]:
    """Report each job that ends before it starts."""
    for index, job in enumerate(tables.inventory.jobs):
        if job.end is not None and job.end < job.start:
            message = f"{_describe(job)} ends before it starts"
            yield Problem("jobs", (tables.row("jobs", index),), "job-ends-before-it-starts", message, is_error=True)


def overlapping(tables: Tables) -> Iterator[Problem]:
    """Report overlapping allocations of one job on one host; several jobs may share a host."""
    rows_by_job: dict[tuple[str, str], list[int]] = defaultdict(list)
    jobs = tables.inventory.jobs
    for index, job in enumerate(jobs):
        rows_by_job[job.job, job.device].append(index)
    for indexes in rows_by_job.values():
        if len(indexes) > 1:
            ordered = sorted(indexes, key=lambda index: jobs[index].start)
            longest = ordered[0]
            for index in ordered[1:]:
                end, begin = jobs[longest].end, jobs[index].start
                if end is None or begin < end:
                    message = f"{_describe(jobs[longest])} and {_describe(jobs[index])} overlap"
                    yield Problem("jobs", tables.rows("jobs", (longest, index)), "job-twice-on-a-host", message)
                other = jobs[index].end
                if end is not None and (other is None or other > end):
                    longest = index


def _describe(job: Job) -> str:
    until = "" if job.end is None else f" to {job.end.isoformat()}"
    return f"{job.job} on {job.device} from {job.start.isoformat()}{until}"
