"""Lists and watches the pods of Kubernetes by the official client. I/O only; every call blocks its thread."""

from collections.abc import Iterator
from typing import Any

import orjson

from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Misconfigured, Retry

_PAGE = 500
_GONE = 410


class Expired(Exception):
    """The version from which a watch began is no longer in the server: all pods must be listed again."""


class Pods:
    """The pods of all namespaces, as JSON."""

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
        """Yield the kind and the object of each change since a version, for so long; raises Expired and Retry."""
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
