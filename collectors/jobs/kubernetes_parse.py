"""Finds jobs in the pods of Kubernetes that have GPUs. Pure.

A pod belongs to the job that its labels name: of a JobSet, of Kubeflow, Ray, Volcano, a LeaderWorkerSet, a pod group of
Kueue, Spark, Dask, Grove, or a Job, in this order, because some of them make Jobs of their own; else to its gang. A pod
without any of these belongs to its controller; without one it is its own job.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from collectors.jobs.ledger import MAX_NUMBER, MAX_SECONDS, Snapshot, bounded, text
from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Reject
from streams.wire.models import Job

_JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "ray.io/originated-from-cr-name",  # of a RayJob, whose clusters have a name for each attempt
    "ray.io/cluster",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "kueue.x-k8s.io/pod-group-name",
    "sparkoperator.k8s.io/app-name",
    "spark-app-selector",
    "dask.org/cluster-name",
    "grove.io/podgang",
    "batch.kubernetes.io/job-name",
    "job-name",  # of a Job before Kubernetes 1.27
    "scheduling.x-k8s.io/pod-group",
    "scheduling.k8s.io/group-name",
    "pod-group-name",
)
"""Labels and annotations, best first; the last three are the gangs of coscheduling, Volcano and KAI."""
_RESTARTS_LABEL = "jobset.sigs.k8s.io/restart-attempt"
_TEAM_LABEL = "kueue.x-k8s.io/queue-name"
_NO_JOBS = frozenset({"Node", "DaemonSet"})
"""Controllers whose pods do not work together."""
_FINISHED = ("Succeeded", "Failed")
_STARTED = ("Running", "Unknown")
_QUANTITY = re.compile(r"(\d{1,12})(k|M|G|T|Ki|Mi|Gi|Ti)?", re.ASCII)
_FACTORS: Mapping[str, int] = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod with GPUs; a pod without a host or a start time is waiting. `gpus` is None if their number is unknown."""

    job: str
    run: int
    host: str
    gpus: int | None
    start_ns: int | None
    end_ns: int | None
    state: str
    user: str
    team: str


def gpu_pod(pod: Mapping[str, Any], params: KubernetesParams, at_ns: int) -> GpuPod | None:
    """Return a pod from the API's description; None for a pod without GPUs, and on an excluded node.

    Raises Reject for an unreadable pod.
    """
    try:
        spec = pod.get("spec") or {}
        has_gpus, gpus = _gpus(spec, params.gpus)
        if not has_gpus or params.is_excluded(spec.get("nodeName") or ""):
            return None
        return _pod(pod, params, gpus, at_ns)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Reject(f"pod: {error!r}") from error


def job_of(pod: Mapping[str, Any], params: KubernetesParams) -> str:
    """Return the id of the job of a pod; raises Reject if it has none."""
    try:
        metadata = pod["metadata"]
        tags = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
        known = (*params.labels.get("job", ()), *_JOB_LABELS)
        own = next((tags[label] for label in known if tags.get(label)), None) or _native_group(pod.get("spec") or {})
        name = own or _owner(metadata) or metadata["name"]
        return text(f"{params.prefix}{metadata.get('namespace') or 'default'}/{name}")
    except (KeyError, TypeError, AttributeError) as error:
        raise Reject(f"pod: {error!r}") from error


def job_of_unreadable(pod: Mapping[str, Any], params: KubernetesParams) -> str:
    """Return the id of the job of an unreadable pod; empty if that is unreadable, too."""
    try:
        return job_of(pod, params)
    except Reject:
        return ""


def _native_group(spec: Mapping[str, Any]) -> str:
    """Return the pod group of Kubernetes 1.36, or the workload of 1.35; empty without one."""
    return (spec.get("schedulingGroup") or {}).get("podGroupName") or (spec.get("workloadRef") or {}).get("name") or ""


def _owner(metadata: Mapping[str, Any]) -> str:
    """Return the name of the controller of a pod; empty without one."""
    owners = (owner for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    return next((str(owner["name"]) for owner in owners if owner.get("kind") not in _NO_JOBS), "")


def snapshot(
    pods: Iterable[GpuPod],
    params: KubernetesParams,
    unreadable: Iterable[str] = (),
    unreadable_jobs: Iterable[str] = (),
) -> Snapshot:
    """Return the jobs of these pods: the pods of one job on one host are one stay, until the last of them ends."""
    runs: dict[str, int] = {}
    placed: dict[tuple[str, str, int], list[GpuPod]] = defaultdict(list)
    for pod in pods:
        runs[pod.job] = max(pod.run, runs.get(pod.job, 0))
        if pod.host and pod.start_ns is not None:
            placed[pod.job, pod.host, pod.run].append(pod)
    jobs = tuple(_stay(*stay, own, params) for stay, own in placed.items())
    known = frozenset(unreadable_jobs)
    return Snapshot(jobs, runs, tuple(unreadable), frozenset() if "" in known else known)


def snapshot_of(pods: Iterable[Mapping[str, Any]], params: KubernetesParams, at_ns: int) -> Snapshot:
    """Return the jobs of a list of pods as the API describes them."""
    found, unreadable = [], []
    for pod in pods:
        try:
            made = gpu_pod(pod, params, at_ns)
        except Reject as error:
            metadata = pod.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            unreadable.append((f"{name}: {error}", job_of_unreadable(pod, params)))
        else:
            found += [made] if made is not None else []
    reasons, jobs = zip(*unreadable, strict=True) if unreadable else ((), ())
    return snapshot(found, params, reasons, jobs)


def _pod(pod: Mapping[str, Any], params: KubernetesParams, gpus: int | None, at_ns: int) -> GpuPod:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labels = metadata.get("labels") or {}
    tags = {**(metadata.get("annotations") or {}), **labels}
    phase = status.get("phase") or "Unknown"
    team = _first(tags, params.labels.get("team", (_TEAM_LABEL,)))
    return GpuPod(
        job_of(pod, params),
        bounded(int(labels.get(_RESTARTS_LABEL) or 0)),
        text(params.host(spec.get("nodeName") or "")),
        gpus,
        _start_ns(metadata, status, phase, at_ns),
        _end_ns(metadata, status, at_ns) if phase in _FINISHED else None,
        text(f"{phase} ({status['reason']})" if status.get("reason") else phase),
        text(_first(tags, params.labels.get("user", ()))),
        text(params.team(team or metadata.get("namespace") or "default")),
    )


def _first(tags: Mapping[str, Any], labels: Iterable[str]) -> str:
    return next((str(tags[label]) for label in labels if tags.get(label)), "")


def _gpus(spec: Mapping[str, Any], resources: tuple[str, ...]) -> tuple[bool, int | None]:
    """Return whether a pod has GPUs, and their number.

    A limit without a request is a request. An init container that always restarts is a sidecar; the others run earlier.
    A resource claim may be a GPU (dynamic resource allocation): the claim has the number, the pod does not.
    """
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    whole, parts = 0, 0
    for container in (*(spec.get("containers") or ()), *sidecars):
        own = container.get("resources") or {}
        for name, count in {**(own.get("limits") or {}), **(own.get("requests") or {})}.items():
            if name in resources:
                whole += _quantity(count)
            elif any(fnmatchcase(name, pattern) for pattern in resources):
                parts += _quantity(count)
    if parts or spec.get("resourceClaims"):
        return True, None
    return whole > 0, bounded(whole)


def _quantity(value: object) -> int:
    """Return a quantity of devices, which are whole numbers; raises Reject for another."""
    found = _QUANTITY.fullmatch(str(value))
    if found is None:
        raise Reject(f"quantity {value!r}")
    return int(found[1]) * _FACTORS[found[2] or ""]


def _start_ns(metadata: Mapping[str, Any], status: Mapping[str, Any], phase: str, at_ns: int) -> int | None:
    """Return the time when the kubelet started a pod; None for a waiting pod.

    A running pod without a start time (a static pod, or a virtual kubelet's) began with its first container, else when
    it was bound to its node or created.
    """
    states = [state for one in status.get("containerStatuses") or () for state in (one.get("state") or {}).values()]
    started = [at for state in states if (at := state.get("startedAt"))]
    known = [status["startTime"]] if status.get("startTime") else started
    if not known and phase in _STARTED:
        conditions = [one for one in status.get("conditions") or () if one.get("type") == "PodScheduled"]
        bound = [change for one in conditions if (change := one.get("lastTransitionTime"))]
        known = bound or [created for created in (metadata.get("creationTimestamp"),) if created]
        return min(map(_ns, known), default=at_ns)
    return min(map(_ns, known), default=None)


def _end_ns(metadata: Mapping[str, Any], status: Mapping[str, Any], at_ns: int) -> int:
    """Return the time when the last container of a finished pod ended.

    A pod without containers was evicted: it ended at the last change of its conditions, or at its deletion, else at an
    unknown time after its start. The same pod has the same end at each list.
    """
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    ends = [end for state in states if (end := (state.get("terminated") or {}).get("finishedAt"))]
    changes = [change for one in status.get("conditions") or () if (change := one.get("lastTransitionTime"))]
    known = ends or changes or [at for at in (metadata.get("deletionTimestamp"), status.get("startTime")) if at]
    return max(map(_ns, known), default=at_ns)


def _ns(moment: str) -> int:
    seconds = int(datetime.fromisoformat(moment).timestamp())
    if not 0 <= seconds <= MAX_SECONDS:
        raise Reject(f"time {moment!r} is beyond its bounds")
    return seconds * 1_000_000_000


def _stay(job: str, host: str, run: int, pods: list[GpuPod], params: KubernetesParams) -> Job:
    running = [pod for pod in pods if pod.end_ns is None]
    start_ns = min(pod.start_ns for pod in pods if pod.start_ns is not None)
    end_ns = None if running else max(start_ns + 1, *(pod.end_ns for pod in pods if pod.end_ns is not None))
    newest = max(running or pods, key=lambda pod: pod.start_ns or 0)
    # A replaced pod has released its GPUs to the next pod.
    together = running or [pod for pod in pods if (pod.end_ns or 0) > (newest.start_ns or 0) or pod is newest]
    return Job(
        job, host, start_ns, end_ns, text(job.rpartition("/")[2]), newest.user, newest.team,
        text(params.tenant_of(newest.team)), _sum(pod.gpus for pod in together), run, newest.state, params.name,
    )  # fmt: skip


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if one is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return min(total, MAX_NUMBER)
