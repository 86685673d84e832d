"""Tests which jobs are found in the pods of Kubernetes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from collectors.jobs.kubernetes_parse import GpuPod, gpu_pod, snapshot, snapshot_of
from collectors.jobs.ledger import Ledger, Snapshot
from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Reject
from streams.wire.models import Job
from tests.fixtures.kubernetes_pods import LABELS, finished, pod, running
from tests.recordings import field_report

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


CREATED = {"creationTimestamp": "2026-03-01T00:00:00Z"}
STARTED = {"state": {"running": {"startedAt": "2026-03-01T00:02:00Z"}}}
BOUND = {"type": "PodScheduled", "lastTransitionTime": "2026-03-01T00:01:00Z"}


@pytest.mark.parametrize(
    ("status", "metadata", "start_s"),
    [
        ({"phase": "Running", "containerStatuses": [STARTED], "conditions": [BOUND]}, CREATED, 120),
        ({"phase": "Running", "conditions": [BOUND]}, CREATED, 60),
        ({"phase": "Running"}, CREATED, 0),
        ({"phase": "Unknown"}, {}, 3600),
        ({"phase": "Pending"}, CREATED, None),
        ({"phase": "Failed"}, CREATED, None),
    ],
)
def test_a_running_pod_without_a_start_time_is_a_job(
    status: dict[str, Any], metadata: dict[str, Any], start_s: int | None
) -> None:
    """It began with its container, else when it was bound or created, else when it was seen."""
    found = jobs(read(pod("p", LABELS["job"], node="h0", **metadata), status)).jobs
    assert [job.start_ns for job in found] == ([] if start_s is None else [BEGIN_NS + start_s * S])


def test_a_waiting_pod_has_no_stay_and_a_finished_one_ends_with_its_last_container() -> None:
    """Neither a pod without a node nor one that its kubelet has not started runs; an evicted one has no containers."""
    waiting = read(pod("p0", LABELS["job"]), {"phase": "Pending"})
    bound = read(pod("p1", LABELS["job"], node="h0"), {"phase": "Pending"})
    assert jobs(waiting, bound) == Snapshot((), {"ml/train": 0})
    (done,) = jobs(read(pod("p0", LABELS["job"], node="h0"), finished())).jobs
    assert (done.end_ns, done.state, done.gpus) == (BEGIN_NS + 600 * S, "Succeeded", 8)
    evicted = {"phase": "Failed", "reason": "Evicted", "startTime": "2026-03-01T00:00:00Z"}
    (gone,) = jobs(read(pod("p0", LABELS["job"], node="h0"), evicted)).jobs
    assert (gone.end_ns, gone.state) == (BEGIN_NS + 1, "Failed (Evicted)")
    changed = evicted | {"conditions": [{"type": "DisruptionTarget", "lastTransitionTime": "2026-03-01T00:07:00Z"}]}
    (gone,) = jobs(read(pod("p0", LABELS["job"], node="h0"), changed)).jobs
    assert gone.end_ns == BEGIN_NS + 420 * S


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
        "labels": {"user": ("example.com/user",)}, "tenants": {"vision": "blue"}, "nodes": {"pod1-host1": "h0"},
        "teams": {"queue-7": "vision"}, "prefix": "k/",
    }  # fmt: skip
    labels = LABELS["job"] | {"kueue.x-k8s.io/queue-name": "queue-7"}
    own = read(pod("p", labels, node="h0", annotations={"example.com/user": "anna"}), running(), **params)
    (stay,) = jobs(own, **params).jobs
    assert (stay.job, stay.device, stay.user, stay.team, stay.tenant) == (
        "k/ml/train", "pod1-host1", "anna", "vision", "blue",
    )  # fmt: skip


def with_resources(resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod of one container with these resources."""
    body = pod("p", LABELS["job"], node="h0", gpus=0)
    body["spec"]["containers"][0]["resources"] = resources
    body["spec"] |= spec
    return body


@pytest.mark.parametrize(
    ("body", "gpus"),
    [
        (with_resources({"limits": {"nvidia.com/gpu": "8"}}), 8),
        (with_resources({"requests": {"amd.com/gpu": "1k"}}), 1000),
        (with_resources({"limits": {"nvidia.com/mig-3g.40gb": "2"}}), None),
        (with_resources({"limits": {"nvidia.com/gpu.shared": "1"}}), None),
        (with_resources({"limits": {"habana.ai/gaudi": "8"}}), 8),
        (
            with_resources(
                {"claims": [{"name": "g"}]}, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "x"}]
            ),
            None,
        ),
        (
            with_resources(
                {}, initContainers=[{"restartPolicy": "Always", "resources": {"limits": {"amd.com/gpu": 4}}}]
            ),
            4,
        ),
    ],
    ids=["limit", "quantity", "mig", "time-sliced", "other vendor", "resource claim", "sidecar"],
)
def test_every_way_to_get_a_gpu_makes_a_job(body: dict[str, Any], gpus: int | None) -> None:
    """The number is unknown where the pod does not have it as whole GPUs."""
    (stay,) = jobs(read(body, running())).jobs
    assert (stay.job, stay.device, stay.gpus) == ("ml/train", "h0", gpus)


GROUPS: dict[str, dict[str, Any]] = {
    "RayJob": {"labels": {"ray.io/cluster": "train-x7", "ray.io/originated-from-cr-name": "train"}},
    "RayCluster": {"labels": {"ray.io/cluster": "train", "ray.io/node-type": "worker"}},
    "Volcano": {"labels": {"volcano.sh/job-name": "train"}},
    "LeaderWorkerSet": {"labels": {"leaderworkerset.sigs.k8s.io/name": "train"}},
    "pod group of Kueue": {"labels": {"kueue.x-k8s.io/pod-group-name": "train"}},
    "Spark": {"labels": {"sparkoperator.k8s.io/app-name": "train"}},
    "Dask": {"labels": {"dask.org/cluster-name": "train", "dask.org/component": "worker"}},
    "gang of Grove": {"labels": {"grove.io/podgang": "train", "grove.io/podclique": "train-prefill"}},
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
    "pod group of Volcano": {"annotations": {"scheduling.k8s.io/group-name": "train"}},
    "pod group of KAI": {"annotations": {"pod-group-name": "train"}},
    "any controller": {
        "ownerReferences": [{"kind": "X", "name": "other"}, {"kind": "Y", "name": "train", "controller": True}]
    },
    "a label of the site": {"annotations": {"example.com/job": "train"}},
}


@pytest.mark.parametrize("kind", GROUPS)
def test_the_pods_of_a_group_are_one_job_of_all_its_hosts(kind: str) -> None:
    """Not a job for each pod."""
    params: dict[str, Any] = {"labels": {"job": ("example.com/job",)}}
    found = [read(pod(f"p{n}", node=f"h{n}", **GROUPS[kind]), running(), **params) for n in range(3)]
    assert {(stay.job, stay.device) for stay in jobs(*found).jobs} == {("ml/train", f"h{n}") for n in range(3)}


@pytest.mark.parametrize(
    "spec", [{"schedulingGroup": {"podGroupName": "train"}}, {"workloadRef": {"name": "train", "podGroup": "workers"}}]
)
def test_the_pods_of_a_native_group_are_one_job(spec: dict[str, Any]) -> None:
    """The field of Kubernetes 1.36, and that of 1.35; a label of a job has precedence."""
    bodies = [pod(f"p{n}", node=f"h{n}") for n in range(2)]
    for body in bodies:
        body["spec"] |= spec
    assert {stay.job for stay in jobs(*(read(body, running()) for body in bodies)).jobs} == {"ml/train"}
    labelled = pod("p", LABELS["job"], node="h0")
    labelled["spec"] |= {"schedulingGroup": {"podGroupName": "other"}}
    assert jobs(read(labelled, running())).jobs[0].job == "ml/train"


def test_a_daemon_is_no_job_of_many_hosts_and_an_excluded_node_has_none() -> None:
    """Its pods do not work together."""
    owners = [{"kind": "DaemonSet", "name": "burn", "controller": True}]
    assert jobs(read(pod("burn-1", node="h0", ownerReferences=owners), running())).runs == {"ml/burn-1": 0}
    assert read(pod("p", node="cpu-7"), running(), exclude=("cpu-*",)) is None


def test_an_unreadable_pod_hides_neither_the_others_nor_the_end_of_other_jobs() -> None:
    """Only its own job may be the missing one."""
    odd = pod("odd", LABELS["job"], node="h0", namespace="ml") | {"status": running("yesterday")}
    good = pod("p", node="h1", namespace="ml") | {"status": running()}
    answer = snapshot_of([odd, good], KubernetesParams(), NOW_NS)
    assert [stay.job for stay in answer.jobs] == ["ml/p"] and answer.unreadable[0].startswith("odd: ")
    known = Ledger(0, 86_400 * S)
    known.restore(Job(name, "h9", BEGIN_NS, scheduler="kubernetes") for name in ("ml/train", "ml/deleted"))
    assert {job.job: job.state for job in known.observe(answer, NOW_NS)} == {"ml/p": "Running", "ml/deleted": "GONE"}


def test_a_pod_without_even_a_name_holds_back_every_end() -> None:
    """It may be of any job."""
    answer = snapshot_of([pod("p") | {"metadata": {}}, pod("p") | {"metadata": None}], KubernetesParams(), NOW_NS)
    assert len(answer.unreadable) == 2
    known = Ledger(0, 86_400 * S)
    known.restore([Job("ml/deleted", "h9", BEGIN_NS, scheduler="kubernetes")])
    assert known.observe(answer, NOW_NS) == []


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("20-k8s-dra/pods.json", {"ml/llm": ["h1", "h2"], "ml/old": ["h3"]}),
        (
            "21-k8s-groups/pods.json",
            {"ml/group-a": ["h10", "h9"], "ml/mpi": ["h11", "h12"], "ml/rj": ["h1", "h2", "h3"],
             "ml/serve": ["h7", "h8"], "ml/vj": ["h4", "h5", "h6"]},
        ),
        (
            "23-k8s-pod-states/pods.json",
            {"ml/ev": ["h3"], "ml/ga": ["h10"], "ml/li": ["h7"], "ml/lost": ["h1", "h2"], "ml/mig": ["h5"],
             "ml/oo": ["h11"], "ml/sh": ["h6"], "ml/si": ["h8"], "ml/un": ["h9"]},
        ),
        ("23-k8s-pod-states/pods-quantity.json", {"ml/do": ["h12"], "ml/lost": ["h2"]}),
    ],
)  # fmt: skip
def test_the_pods_of_field_reports(case: str, expected: dict[str, list[str]]) -> None:
    """The hosts of each job; two lists of the same pods publish nothing the second time."""
    pods = json.loads((field_report("host/" + case.partition("/")[0]) / case.partition("/")[2]).read_text())["items"]
    found: dict[str, list[str]] = {}
    for stay in snapshot_of(pods, KubernetesParams(), NOW_NS).jobs:
        found.setdefault(stay.job, []).append(stay.device)
    assert {job: sorted(hosts) for job, hosts in found.items()} == expected
    known = Ledger(0, 86_400 * S)
    known.observe(snapshot_of(pods, KubernetesParams(), NOW_NS), NOW_NS)
    assert known.observe(snapshot_of(pods, KubernetesParams(), NOW_NS + 300 * S), NOW_NS + 300 * S) == []


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
