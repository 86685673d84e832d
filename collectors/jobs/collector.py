"""The jobs collector writes the schedulers' jobs to the topic of jobs, which is its only state."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from collectors.core.context import CollectorContext
from collectors.core.poll import Pace, poll
from collectors.core.spec import Spec
from collectors.jobs.kubernetes import KubernetesFollower, Pods
from collectors.jobs.kubernetes_parse import snapshot_of
from collectors.jobs.ledger import JobFeed, Ledger, Snapshot, hidden_problem
from collectors.jobs.params import Params, SchedulerParams, SlurmParams
from collectors.jobs.slurm_parse import allocated_hosts, parse
from collectors.jobs.slurm_read import read_jobs, read_nodes
from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import Job
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.standalone_consumer import AWAY, open_consumer, read_compacted
from streams.wire.topics import JOBS, SCHEDULERS, Access

_log = structlog.get_logger("railsight.jobs")

_RETRY = Backoff.constant(1.0)


async def published_jobs(options: Mapping[str, Any]) -> list[Job]:
    """Return the newest message of each key; raises Retry while Kafka does not answer.

    A key whose newest message is unreadable is left out: another version wrote it, and the next message replaces it.
    """
    try:
        async with open_consumer(options) as consumer:
            content = await read_compacted(consumer, JOBS)
    except AWAY as error:
        raise Retry(f"{JOBS.name}: {error or type(error).__name__}") from error
    return [job for job in content.readable().values() if isinstance(job, Job)]


async def slurm_snapshot(params: SlurmParams, context: CollectorContext) -> Snapshot:
    """Return the jobs of Slurm; raises Retry, Reject and Misconfigured."""
    try:
        async with asyncio.timeout(params.deadline_s):
            data = await read_jobs(params)
    except TimeoutError as error:
        raise Retry(f"slurmctld does not answer within {params.deadline_s:g} s") from error
    return await asyncio.to_thread(parse, data, params, context.clock.now_ns())


async def with_nodes(snapshot: Snapshot, params: SlurmParams) -> Snapshot:
    """Return the snapshot with the allocated hosts; unchanged if `command` has no place for sinfo.

    Raises Retry, Reject and Misconfigured.
    """
    try:
        async with asyncio.timeout(params.deadline_s):
            data = await read_nodes(params)
    except TimeoutError as error:
        raise Retry(f"slurmctld does not report its nodes within {params.deadline_s:g} s") from error
    return snapshot if data is None else replace(snapshot, allocated=allocated_hosts(data, params))


_NODES_EVERY_S = 60.0
"""The interval at which it is checked that each allocated node has a job."""


async def follow_slurm(params: SlurmParams, feed: JobFeed, context: CollectorContext) -> None:
    """Poll until cancelled; the nodes are read at intervals, and where a job is missing: without them none ends."""
    nodes_s = -math.inf

    async def read() -> None:
        nonlocal nodes_s
        snapshot = await slurm_snapshot(params, context)
        now_s = asyncio.get_running_loop().time()
        is_missing = feed.is_missing(snapshot)
        if is_missing or now_s - nodes_s >= _NODES_EVERY_S:
            nodes_s = now_s
            try:
                snapshot = await with_nodes(snapshot, params)
            except (Retry, Reject) as error:
                if is_missing:
                    raise
                _log.warning("the nodes of Slurm are unknown", why=str(error))
        feed.observe(snapshot)

    await poll(params.name, read, Pace(params.cadence_s), context.metrics, context.rng, feed.failed)


async def collect(params: Params, context: CollectorContext) -> None:
    """Follow every configured scheduler until cancelled, starting from the published jobs."""
    checked(params)
    published = await _published(context)
    async with asyncio.TaskGroup() as tasks:
        if params.slurm is not None:
            feed = _feed(params, params.slurm, published, context, absent_s=params.slurm.absent_s)
            tasks.create_task(follow_slurm(params.slurm, feed, context))
        if params.kubernetes is not None:
            feed = _feed(params, params.kubernetes, published, context, absent_s=0)
            follower = KubernetesFollower(params.kubernetes, Pods(params.kubernetes), feed, context)
            tasks.create_task(follower.run())


def checked(params: Params) -> None:
    """Raise Misconfigured if no scheduler is configured, or two have the same name."""
    schedulers = params.schedulers()
    if not schedulers:
        raise Misconfigured("collect.jobs: no scheduler; add a section collect.jobs.slurm or collect.jobs.kubernetes")
    names = [each.name for each in schedulers]
    if len(set(names)) < len(names):
        raise Misconfigured(f"collect.jobs: two schedulers are named {names[0]}; set name")
    if params.kubernetes is not None and params.kubernetes.watch_s >= params.stale_s:
        raise Misconfigured("collect.jobs: kubernetes.watch_s must be less than stale_s")


def _feed(
    params: Params, scheduler: SchedulerParams, published: Iterable[Job], context: CollectorContext, *, absent_s: float
) -> JobFeed:
    ledger = Ledger(_ns(absent_s), _ns(params.retain_s))
    ledger.restore(job for job in published if job.scheduler == scheduler.name)
    return JobFeed(scheduler.name, ledger, context, _ns(params.stale_s))


async def _published(context: CollectorContext) -> list[Job]:
    """Return the published jobs, as soon as Kafka returns them: without them, missed ends would stay open."""
    options = context.core.client_options
    if options is None:
        return []

    def warn(failure: Failure) -> None:
        _log.warning("cannot read the published jobs, retrying", why=str(failure.error))

    return await retry(lambda _: published_jobs(options), Retry, _RETRY, before_wait=warn)


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[str]:
    """Yield one line of JSON for each job on each host; raises Retry if a scheduler does not answer."""
    checked(params)
    if params.slurm is not None:
        for job in _reported(await with_nodes(await slurm_snapshot(params.slurm, context), params.slurm)):
            yield codec.to_json(job).decode()
    if params.kubernetes is not None:
        pods, _ = await asyncio.to_thread(Pods(params.kubernetes).list_all)
        for job in _reported(snapshot_of(pods, params.kubernetes, context.clock.now_ns())):
            yield codec.to_json(job).decode()


def _reported(snapshot: Snapshot) -> tuple[Job, ...]:
    """Return the jobs of a snapshot, after a warning for each that cannot be read and for hidden ones."""
    for reason in snapshot.unreadable:
        _log.warning("job unreadable", why=reason)
    if problem := hidden_problem(snapshot.hidden()):
        _log.warning(problem)
    return snapshot.jobs


SPEC = Spec(
    "jobs", Params, collect, read_once, part="jobs", access=lambda _: Access(reads=(JOBS,), writes=(JOBS, SCHEDULERS)),
    example="--set slurm.team_by=user --once --print",
)  # fmt: skip
"""Its principal reads its own jobs back, and may not write telemetry."""
