"""Lists and watches the pods of Kubernetes with the official client, and follows their changes."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import orjson

from collectors.core.context import CollectorContext
from collectors.jobs.kubernetes_parse import GpuPod, gpu_pod, job_of_unreadable, snapshot
from collectors.jobs.ledger import JobFeed
from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Misconfigured, Reject, Retry

_PAGE = 500
_GONE = 410


class Expired(Exception):
    """Raised if the server no longer has the version from which a watch started: all pods must be listed again."""


class Pods:
    """Reads the pods of all namespaces, as JSON."""

    def __init__(self, params: KubernetesParams) -> None:
        try:
            from kubernetes import client, config
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise Misconfigured(
                "collect.jobs.kubernetes needs its client: pip install railsight[kubernetes]"
            ) from error
        settings = client.Configuration()
        try:
            if params.kubeconfig:
                config.load_kube_config(params.kubeconfig, params.context or None, settings)
            else:
                config.load_incluster_config(settings)
        except (config.ConfigException, OSError) as error:
            raise Misconfigured(f"collect.jobs.kubernetes: kubeconfig: {error}") from error
        settings.retries = False  # failures are reported, and retried by the caller
        self._call = client.CoreV1Api(client.ApiClient(settings)).list_pod_for_all_namespaces
        self._errors = (client.ApiException, HTTPError, OSError)
        self._timeout_s = params.timeout_s

    def list_all(self) -> tuple[list[dict[str, Any]], str]:
        """Return all pods, and the version of the list; raises Retry."""
        pods: list[dict[str, Any]] = []
        more = ""
        while True:
            page = self._get(limit=_PAGE, **({"_continue": more} if more else {}))
            pods += page.get("items") or []
            if not (more := page["metadata"].get("continue", "")):
                return pods, page["metadata"]["resourceVersion"]

    def watch(self, version: str, for_s: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the kind and the object of each change since a version, for `for_s`; raises Expired and Retry."""
        try:
            response = self._call(
                watch=True, resource_version=version, allow_watch_bookmarks=True, timeout_seconds=for_s,
                _preload_content=False, _request_timeout=(self._timeout_s, for_s + self._timeout_s),
            )  # fmt: skip
            try:
                for line in response:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        self._raise(int(event["object"].get("code") or 0), event["object"].get("message", ""))
                    yield event["type"], event["object"]
            finally:
                response.close()
        except (orjson.JSONDecodeError, KeyError) as error:
            raise Retry(f"kubernetes: the watch ended in the middle of an event: {error!r}") from error
        except self._errors as error:
            self._raise(int(getattr(error, "status", 0) or 0), str(getattr(error, "reason", None) or error), error)

    def _get(self, **options: Any) -> dict[str, Any]:
        try:
            response = self._call(_preload_content=False, _request_timeout=self._timeout_s, **options)
            page = orjson.loads(response.data)
        except orjson.JSONDecodeError as error:
            raise Retry(f"kubernetes: the list of pods is no JSON: {error}") from error
        except self._errors as error:
            status = int(getattr(error, "status", 0) or 0)
            raise Retry(f"kubernetes: {status or ''} {getattr(error, 'reason', None) or error}") from error
        if not isinstance(page, dict) or "metadata" not in page:
            raise Retry("kubernetes: the answer is no list of pods")
        return page

    def _raise(self, status: int, why: str, cause: BaseException | None = None) -> None:
        if status == _GONE:
            raise Expired(why) from cause
        raise Retry(f"kubernetes: {status or ''} {why}") from cause


Unreadable = tuple[str, str]
"""The reason why a pod is unreadable, and its job."""
Event = tuple[str, dict[str, Any]]
Item = Event | BaseException | None
"""A change, the error that ended a watch, or its end."""


class PodSource(Protocol):
    """The two API calls that are used; both block."""

    def list_all(self) -> tuple[list[dict[str, Any]], str]: ...

    def watch(self, version: str, for_s: int) -> Iterator[Event]: ...


class KubernetesFollower:
    """Follows the pods with GPUs, by uid, as of the newest version that was read."""

    def __init__(
        self,
        params: KubernetesParams,
        source: PodSource,
        feed: JobFeed,
        context: CollectorContext,
        retry_s: float = 1.0,
    ) -> None:
        self._params = params
        self._source = source
        self._feed = feed
        self._context = context
        self._retry_s = retry_s
        self._pods: dict[str, GpuPod] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._version = ""

    async def run(self) -> None:
        """Follow until cancelled; a failed request is retried and leaves the known jobs unchanged."""
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
                await asyncio.sleep(self._retry_s * (1 + self._context.rng.random()))

    async def list_once(self) -> None:
        """Replace the known pods by the pods of a list."""
        pods, self._version = await asyncio.to_thread(self._source.list_all)
        self._pods, self._unreadable = {}, {}
        for pod in pods:
            self._put(pod)
        self._publish()

    async def _watch_once(self) -> None:
        """Apply the changes of one watch; a watch that ends without an error shows that the API responds."""
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

        # A daemon thread, not the executor's: the process waits for the executor's threads, and a watch may be silent.
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
        """Apply changes and publish the jobs; return True if the watch has ended. Raises the error that ended it."""
        events = [item for item in batch if isinstance(item, tuple)]
        changed = [self._change(*event) for event in events]
        last = batch[-1]
        if any(changed) or last is None:
            self._publish()
        if isinstance(last, BaseException):
            raise last
        return last is None

    def _change(self, kind: str, pod: dict[str, Any]) -> bool:
        """Apply one change; return True if it may change a job."""
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
            self._unreadable[uid] = f"{pod['metadata'].get('name')}: {error}", job_of_unreadable(pod, self._params)
            return
        if made is not None:
            self._pods[uid] = made

    def _publish(self) -> None:
        reasons, jobs = zip(*self._unreadable.values(), strict=True) if self._unreadable else ((), ())
        self._feed.observe(snapshot(self._pods.values(), self._params, reasons, jobs))
