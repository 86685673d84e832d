"""Tests the jobs of Kubernetes by the official client, with the rights that the page of the collector names.

All run over a server in memory, and over a real API server where kube-apiserver and etcd are on PATH.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.core.context import CollectorContext
from collectors.jobs.collector import collect
from collectors.jobs.kubernetes import Expired, Pods
from collectors.jobs.params import KubernetesParams, Params
from lab.constants import with_constants
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Job
from tests.fakes.kubernetes_server import kubernetes_server
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.certificates import certificate
from tests.fixtures.kubernetes_api import KubernetesApi, kubernetes_api
from tests.fixtures.kubernetes_pods import LABELS, finished, pod, running
from tests.fixtures.running_task import run_beside

pytestmark = pytest.mark.timeout(240)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module", params=["in-memory", "kube-apiserver"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """Yield an API server, and a user that may list and watch pods."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with ExitStack() as stack:
        if request.param == "in-memory":
            cert, key = certificate(folder, "api")
            yield KubernetesApi(stack.enter_context(kubernetes_server(cert, key)), cert)
        else:
            running_api = stack.enter_context(kubernetes_api(folder))
            rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
            running_api.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "jobs"}, "rules": rules})
            running_api.call("POST", f"{RBAC}/clusterrolebindings", {
                "metadata": {"name": "jobs"}, "subjects": [{"kind": "User", "name": "netbot"}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jobs"},
            })  # fmt: skip
            yield running_api


def params(api: KubernetesApi, folder: Path, user: str = "netbot") -> KubernetesParams:
    """Return the settings of a user."""
    path = str(api.kubeconfig(folder / f"{user}.json", user))
    return with_constants(KubernetesParams, settle_s=0.05, watch_s=1, timeout_s=5)(kubeconfig=path)


@asynccontextmanager
async def collecting(own: KubernetesParams) -> AsyncIterator[RecordingPublisher]:
    """Run the collector."""
    publisher = RecordingPublisher()
    async with run_beside(collect(Params(kubernetes=own), CollectorContext(publisher, "jobs"))):
        yield publisher


@pytest.mark.parametrize("kind", LABELS)
async def test_jobs_of_each_kind_appear_and_end(api: KubernetesApi, tmp_path: Path, kind: str) -> None:
    """From the pod's creation to its deletion, on the host of its node."""
    name = f"{kind}-0"
    labels = {key: f"{kind}-{value}" if value == "train" else value for key, value in LABELS[kind].items()}

    async def call(method: str, path: str, body: object = None) -> None:
        await asyncio.to_thread(api.call, method, path, body)

    async with collecting(params(api, tmp_path)) as published:

        def newest() -> Job | None:
            return next((job for job in reversed(published.of(Job)) if job.job == f"default/{kind}-train"), None)

        def is_newest(**fields: Any) -> bool:
            job = newest()
            return job is not None and all(getattr(job, field) == value for field, value in fields.items())

        await call("POST", PODS, pod(name, labels, node="gpu-0", gpus=4))
        await call("PATCH", f"{PODS}/{name}/status", {"status": running()})
        await published.until(lambda: is_newest(device="gpu-0", end_ns=None, gpus=4, state="Running"), 30)
        await call("PATCH", f"{PODS}/{name}/status", {"status": finished()})
        await published.until(lambda: is_newest(state="Succeeded"), 30)
        ended = newest()
        assert ended is not None and ended.end_ns is not None and ended.end_ns - ended.start_ns == 600 * 10**9
        count = len(published.of(Job))
        await call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        await asyncio.sleep(0.2)
        assert len(published.of(Job)) == count, "the end of a pod that is deleted later stays"


async def test_a_pod_that_is_deleted_while_it_runs_ends_its_job(api: KubernetesApi, tmp_path: Path) -> None:
    """`kubectl delete` of a job."""
    async with collecting(params(api, tmp_path)) as published:
        await asyncio.to_thread(api.call, "POST", PODS, pod("solo", node="gpu-1"))
        await asyncio.to_thread(api.call, "PATCH", f"{PODS}/solo/status", {"status": running()})
        await published.until(lambda: any(job.job == "default/solo" for job in published.of(Job)), 30)
        await asyncio.to_thread(api.call, "DELETE", f"{PODS}/solo", {"gracePeriodSeconds": 0})
        await published.until(
            lambda: any(job.job == "default/solo" and job.end_ns is not None for job in published.of(Job)), 30
        )


async def test_errors_of_the_api_are_named(api: KubernetesApi, tmp_path: Path) -> None:
    """A token that the server refuses, a server that is away, a version that is too old, a kubeconfig that is none."""
    with pytest.raises(Retry, match="401 Unauthorized"):
        Pods(params(api, tmp_path, "stranger")).list_all()
    away = KubernetesApi("https://127.0.0.1:1", api.ca)
    with pytest.raises(Retry, match="Connection refused"):
        Pods(params(away, tmp_path, "away")).list_all()
    with pytest.raises(Retry, match="Connection refused"):
        next(Pods(params(away, tmp_path, "away")).watch("1", 1))
    with pytest.raises(Misconfigured, match="kubeconfig"):
        Pods(KubernetesParams(kubeconfig=str(tmp_path / "absent")))
    with pytest.raises(Misconfigured, match="kubeconfig"):
        Pods(KubernetesParams())


async def test_a_watch_from_a_version_that_the_server_has_no_longer_is_expired(tmp_path: Path) -> None:
    """The server in memory has lost version 0; a real one loses a version after some minutes."""
    cert, key = certificate(tmp_path, "api")
    with kubernetes_server(cert, key) as url, pytest.raises(Expired, match="too old"):
        next(Pods(params(KubernetesApi(url, cert), tmp_path)).watch("0", 5))
