"""Tests how the pods of Kubernetes are followed: lists, changes, an expired version, and an API that is away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from queue import Queue
from typing import Any

from collectors.core.context import CollectorContext
from collectors.jobs.kubernetes import Event, Expired, KubernetesFollower
from collectors.jobs.ledger import JobFeed, Ledger
from collectors.jobs.params import KubernetesParams
from lab.constants import with_constants
from streams.wire.errors import Retry
from streams.wire.models import Job
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.kubernetes_pods import LABELS, finished, pod, running
from tests.fixtures.waiting import until

S = 10**9
PARAMS = with_constants(KubernetesParams, settle_s=0)()


class Api:
    """An API whose lists and watches a test feeds; a watch ends with None, or with an error."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.lists = 0
        self.away = ""
        self.watched: list[str] = []
        self.events: Queue[Event | BaseException | None] = Queue()

    def list_all(self) -> tuple[list[dict[str, Any]], str]:
        if self.away:
            raise Retry(self.away)
        self.lists += 1
        return list(self.pods), f"list-{self.lists}"

    def watch(self, version: str, for_s: int) -> Iterator[Event]:
        self.watched.append(version)
        while (event := self.events.get(timeout=20)) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event


class Clock:
    """A clock that a test sets."""

    at_ns = 1_772_400_000 * S

    def now_ns(self) -> int:
        return self.at_ns


@asynccontextmanager
async def following(api: Api, clock: Clock) -> AsyncIterator[RecordingPublisher]:
    """Run the follower."""
    publisher = RecordingPublisher()
    context = CollectorContext(publisher, "jobs", clock=clock)
    feed = JobFeed("kubernetes", Ledger(0, 3600 * S), context, 30 * S)
    work = asyncio.create_task(KubernetesFollower(PARAMS, api, feed, context, retry_s=0.01).run())
    try:
        yield publisher
    finally:
        api.events.put(None)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


def described(version: int, status: dict[str, Any], uid: str = "u1", node: str = "h0") -> dict[str, Any]:
    """Return a pod of the job `train` in a version."""
    body = pod(uid, LABELS["job"], node=node, uid=uid, namespace="ml", resourceVersion=str(version))
    return body | {"status": status}


async def test_changes_are_published_and_the_next_watch_begins_after_them() -> None:
    """A new pod, its end, a bookmark, and the end of the watch."""
    api, clock = Api(), Clock()
    async with following(api, clock) as published:
        api.events.put(("ADDED", described(5, running())))
        await published.until(lambda: len(published.of(Job)) == 1)
        api.events.put(("MODIFIED", described(6, finished())))
        await published.until(lambda: len(published.of(Job)) == 2)
        api.events.put(("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
        api.events.put(None)
        await until(lambda: len(api.watched) == 2)
    first, second = published.of(Job)
    assert (first.job, first.device, first.end_ns, first.gpus) == ("ml/train", "h0", None, 8)
    assert second.end_ns is not None and second.state == "Succeeded"
    assert api.watched == ["list-1", "9"] and api.lists == 1


async def test_a_deleted_pod_ends_its_stay() -> None:
    """On one of two hosts the job goes on."""
    api, clock = Api(), Clock()
    api.pods = [described(1, running()), described(2, running(), "u2", "h1")]
    async with following(api, clock) as published:
        await published.until(lambda: len(published.of(Job)) == 2)
        api.events.put(("DELETED", described(3, running(), "u2", "h1")))
        await published.until(lambda: len(published.of(Job)) == 3)
    assert [(job.device, job.end_ns, job.state) for job in published.of(Job)][2:] == [("h1", clock.at_ns, "LEFT")]


async def test_an_expired_version_is_listed_again() -> None:
    """The list has all that was missed; the pod that it does not have has ended."""
    api, clock = Api(), Clock()
    api.pods = [described(1, running())]
    async with following(api, clock) as published:
        await published.until(lambda: len(published.of(Job)) == 1)
        api.pods = [described(8, running(), "u2", "h1")]
        api.events.put(Expired("too old resource version"))
        await published.until(lambda: len(published.of(Job)) == 3)
        await until(lambda: len(api.watched) == 2)
    assert {(job.device, job.end_ns) for job in published.of(Job)} == {
        ("h0", None), ("h1", None), ("h0", clock.at_ns),
    }  # fmt: skip
    assert api.watched == ["list-1", "list-2"]


async def test_an_api_that_is_away_ends_nothing_and_marks_the_jobs() -> None:
    """After the limit, and until it answers again."""
    api, clock = Api(), Clock()
    api.pods = [described(1, running())]
    async with following(api, clock) as published:
        await published.until(lambda: len(published.of(Job)) == 1)
        answered_ns = clock.at_ns
        api.away = "kubernetes: connection refused"
        api.events.put(Retry("kubernetes: the connection was closed"))
        await asyncio.sleep(0.05)
        assert len(published.of(Job)) == 1
        clock.at_ns += 31 * S
        await published.until(lambda: len(published.of(Job)) == 2)
        api.away = ""
        await published.until(lambda: len(published.of(Job)) == 3)
    running_job, stale, again = published.of(Job)
    assert stale == replace(running_job, stale_since_ns=answered_ns) and again == running_job


async def test_an_unreadable_pod_ends_no_other_job() -> None:
    """With it in the list, a pod that is missing may be this one."""
    api, clock = Api(), Clock()
    api.pods = [described(1, running())]
    async with following(api, clock) as published:
        await published.until(lambda: len(published.of(Job)) == 1)
        api.pods = [described(2, {"phase": "Running", "startTime": "yesterday"})]
        api.events.put(Expired("too old"))
        await until(lambda: len(api.watched) == 2)
    assert len(published.of(Job)) == 1
