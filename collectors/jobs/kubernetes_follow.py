"""Follows the pods of Kubernetes: lists all, watches the changes, and lists again where a watch cannot go on."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from collectors.core.context import CollectorContext
from collectors.jobs.feed import JobFeed
from collectors.jobs.kubernetes_parse import GpuPod, gpu_pod, snapshot
from collectors.jobs.kubernetes_read import Expired
from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Reject, Retry

Event = tuple[str, dict[str, Any]]
Item = Event | BaseException | None
"""A change, the error that ended a watch, or its end."""

_RETRY_S = 1.0


class PodSource(Protocol):
    """The two calls of the API that are used; both block."""

    def list_all(self) -> tuple[list[dict[str, Any]], str]: ...

    def watch(self, version: str, for_s: int) -> Iterator[Event]: ...


class KubernetesFollower:
    """The pods with GPUs, by uid, as of the newest version that was read."""

    def __init__(self, params: KubernetesParams, source: PodSource, feed: JobFeed, context: CollectorContext) -> None:
        self._params = params
        self._source = source
        self._feed = feed
        self._context = context
        self._pods: dict[str, GpuPod] = {}
        self._unreadable: dict[str, str] = {}
        self._version = ""

    async def run(self) -> None:
        """Follow until cancelled; what the API does not answer is retried, and leaves the known jobs as they are."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self.list_once()
                relist_s = loop.time() + self._params.relist_s
                while loop.time() < relist_s:
                    await self._watch_once()
            except Expired:
                continue
            except Retry as error:
                self._feed.failed(str(error))
                await asyncio.sleep(_RETRY_S * (1 + self._context.rng.random()))

    async def list_once(self) -> None:
        """Replace the known pods by those of a list."""
        pods, self._version = await asyncio.to_thread(self._source.list_all)
        self._pods, self._unreadable = {}, {}
        for pod in pods:
            self._put(pod)
        self._publish()

    async def _watch_once(self) -> None:
        """Apply the changes of one watch; its end without an error shows that the API is there."""
        items: asyncio.Queue[Item] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        stopped = threading.Event()

        def put(item: Item) -> None:
            if not stopped.is_set():
                loop.call_soon_threadsafe(items.put_nowait, item)

        def read() -> None:
            try:
                for event in self._source.watch(self._version, self._params.watch_s):
                    put(event)
                    if stopped.is_set():
                        return
                put(None)
            except BaseException as error:  # noqa: BLE001 — raised by the loop, which waits for this thread
                put(error)

        # Not of the executor, whose threads the process waits for at its end: a watch may be silent until it is over.
        threading.Thread(target=read, name="kubernetes-watch", daemon=True).start()
        try:
            while True:
                batch = [await items.get()]
                if batch[0] is not None:
                    await asyncio.sleep(self._params.settle_s)
                while not items.empty():
                    batch.append(items.get_nowait())
                if self._apply(batch):
                    return
        finally:
            stopped.set()

    def _apply(self, batch: list[Item]) -> bool:
        """Apply changes and publish the jobs; return whether the watch has ended. Raises the error that ended it."""
        events = [item for item in batch if isinstance(item, tuple)]
        changed = [self._change(*event) for event in events]
        last = batch[-1]
        if any(changed) or last is None:
            self._publish()
        if isinstance(last, BaseException):
            raise last
        return last is None

    def _change(self, kind: str, pod: dict[str, Any]) -> bool:
        """Apply one change; return whether it may change a job."""
        self._version = pod["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return False
        uid = pod["metadata"]["uid"]
        before = self._pods.pop(uid, None), self._unreadable.pop(uid, None)
        if kind != "DELETED":
            self._put(pod)
        return before != (self._pods.get(uid), self._unreadable.get(uid))

    def _put(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        try:
            made = gpu_pod(pod, self._params, self._context.clock.now_ns())
        except Reject as error:
            self._unreadable[uid] = f"{pod['metadata'].get('name')}: {error}"
            return
        if made is not None:
            self._pods[uid] = made

    def _publish(self) -> None:
        self._feed.observe(snapshot(self._pods.values(), self._params, self._unreadable.values()))
