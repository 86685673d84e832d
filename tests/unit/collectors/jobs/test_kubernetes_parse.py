"""Tests which jobs are found in the pods of Kubernetes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from collectors.jobs.kubernetes_parse import GpuPod, gpu_pod, snapshot
from collectors.jobs.ledger import Snapshot
from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Reject
from streams.wire.models import Job
from tests.fixtures.kubernetes_pods import LABELS, finished, pod, running

S = 10**9
BEGIN_NS = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * S
NOW_NS = BEGIN_NS + 3600 * S


def read(body: dict[str, Any], status: dict[str, Any], **params: Any) -> GpuPod | None:
    """Return a pod of the namespace `ml`."""
    body["metadata"].setdefault("namespace", "ml")
    return gpu_pod(body | {"status": status}, KubernetesParams(**params), NOW_NS)


def jobs(*pods: GpuPod | None, **params: Any) -> Snapshot:
    """Return the jobs of pods, all of which have GPUs."""
    return snapshot([each for each in pods if each is not None], KubernetesParams(**params))


@pytest.mark.parametrize("kind", LABELS)
def test_the_pods_of_a_job_of_each_kind_are_one_job(kind: str) -> None:
    """Two pods on one host are one stay with the GPUs of both."""
    pods = [read(pod(f"p{number}", LABELS[kind], node=node, gpus=4), running())
            for number, node in enumerate(("h0", "h0", "h1"))]  # fmt: skip
    own: dict[str, Any] = {"team": "ml", "state": "Running", "scheduler": "kubernetes", "name": "train"}
    assert jobs(*pods) == Snapshot(
        (Job("ml/train", "h0", BEGIN_NS, None, gpus=8, **own), Job("ml/train", "h1", BEGIN_NS, None, gpus=4, **own)),
        {"ml/train": 0},
    )  # fmt: skip


def test_a_pod_without_a_job_is_one_and_one_without_gpus_is_none() -> None:
    """A launcher, a daemon and a sidecar have no GPUs; other resources are a setting."""
    assert jobs(read(pod("notebook", node="h0"), running())).runs == {"ml/notebook": 0}
    assert read(pod("launcher", LABELS["mpijob"], node="h0", gpus=0), running()) is None
    assert read(pod("p", node="h0"), running(), gpus=("example.com/gpu",)) is None


def test_a_waiting_pod_has_no_stay_and_a_finished_one_ends_with_its_last_container() -> None:
    """Neither a pod without a node nor one that its kubelet has not started runs; an evicted one has no containers."""
    waiting = read(pod("p0", LABELS["job"]), {"phase": "Pending"})
    bound = read(pod("p1", LABELS["job"], node="h0"), {"phase": "Pending"})
    assert jobs(waiting, bound) == Snapshot((), {"ml/train": 0})
    (done,) = jobs(read(pod("p0", LABELS["job"], node="h0"), finished())).jobs
    assert (done.end_ns, done.state, done.gpus) == (BEGIN_NS + 600 * S, "Succeeded", 8)
    evicted = {"phase": "Failed", "reason": "Evicted", "startTime": "2026-03-01T00:00:00Z"}
    (gone,) = jobs(read(pod("p0", LABELS["job"], node="h0"), evicted)).jobs
    assert (gone.end_ns, gone.state) == (NOW_NS, "Failed (Evicted)")


def test_a_stay_ends_with_the_last_pod_of_its_host() -> None:
    """A pod that was replaced leaves its GPUs to the next one, which goes on."""
    first = read(pod("p0", LABELS["job"], node="h0"), finished("Failed"))
    second = read(pod("p1", LABELS["job"], node="h0"), running("2026-03-01T00:20:00Z"))
    (stay,) = jobs(first, second).jobs
    assert (stay.start_ns, stay.end_ns, stay.gpus, stay.state) == (BEGIN_NS, None, 8, "Running")
    again = read(
        pod("p1", LABELS["job"], node="h0"),
        finished(end="2026-03-01T00:30:00Z") | running("2026-03-01T00:20:00Z") | {"phase": "Failed"},
    )
    (stay,) = jobs(first, again).jobs
    assert (stay.end_ns, stay.gpus) == (BEGIN_NS + 1800 * S, 8)
    together = [read(pod(f"p{n}", LABELS["job"], node="h0", gpus=4), finished()) for n in range(2)]
    assert [stay.gpus for stay in jobs(*together).jobs] == [8]


def test_a_restart_of_a_jobset_is_another_run() -> None:
    """Its controller writes the attempt on the pods."""
    labels = LABELS["jobset"] | {"jobset.sigs.k8s.io/restart-attempt": "2"}
    found = jobs(read(pod("p0", labels, node="h0"), running()))
    assert found.runs == {"ml/train": 2} and [stay.run for stay in found.jobs] == [2]


def test_users_teams_tenants_and_hosts_are_named_by_the_settings() -> None:
    """The queue of Kueue is the team, else the namespace."""
    params: dict[str, Any] = {
        "user_label": "example.com/user", "tenants": {"vision": "blue"}, "nodes": {"pod1-host1": "h0"},
        "teams": {"queue-7": "vision"}, "prefix": "k/",
    }  # fmt: skip
    labels = LABELS["job"] | {"kueue.x-k8s.io/queue-name": "queue-7"}
    own = read(pod("p", labels, node="h0", annotations={"example.com/user": "anna"}), running(), **params)
    (stay,) = jobs(own, **params).jobs
    assert (stay.job, stay.device, stay.user, stay.team, stay.tenant) == (
        "k/ml/train", "pod1-host1", "anna", "vision", "blue",
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"jobset.sigs.k8s.io/restart-attempt": "x"}, "name": "p"}},
        {"metadata": {}},
        {"status": {"phase": "Running", "startTime": "yesterday"}},
        {"status": {"phase": "Running", "startTime": "9999-01-01T00:00:00Z"}},
        {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "99999999999"}}}]}},
        {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "many"}}}]}},
    ],
)
def test_a_pod_of_another_form_is_rejected(change: dict[str, Any]) -> None:
    """It is no pod without GPUs."""
    with pytest.raises(Reject):
        gpu_pod(pod("p", node="h0") | {"status": running()} | change, KubernetesParams(), NOW_NS)
