"""Finds jobs in the pods of Kubernetes that have GPUs. Pure.

A pod belongs to the JobSet, the Kubeflow job (PyTorchJob, MPIJob and others) or the Job that its labels name, in this
order, because a JobSet makes Jobs of its own. A pod without any of these labels is its own job.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from collectors.jobs.ledger import MAX_NUMBER, MAX_SECONDS, Snapshot, bounded, text
from collectors.jobs.params import KubernetesParams
from streams.wire.errors import Reject
from streams.wire.models import Job

_JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",  # of a Job before Kubernetes 1.27
)
_RESTARTS_LABEL = "jobset.sigs.k8s.io/restart-attempt"
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod with GPUs; a pod without a host or a start time is waiting."""

    job: str
    run: int
    host: str
    gpus: int
    start_ns: int | None
    end_ns: int | None
    state: str
    user: str
    team: str


def gpu_pod(pod: Mapping[str, Any], params: KubernetesParams, at_ns: int) -> GpuPod | None:
    """Return a pod from the API's description; None for a pod without GPUs. Raises Reject for an unreadable pod."""
    try:
        gpus = _gpus(pod.get("spec") or {}, params.gpus)
        return _pod(pod, params, gpus, at_ns) if gpus else None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Reject(f"pod: {error!r}") from error


def snapshot(pods: Iterable[GpuPod], params: KubernetesParams, unreadable: Iterable[str] = ()) -> Snapshot:
    """Return the jobs of these pods: the pods of one job on one host are one stay, until the last of them ends."""
    runs: dict[str, int] = {}
    placed: dict[tuple[str, str, int], list[GpuPod]] = defaultdict(list)
    for pod in pods:
        runs[pod.job] = max(pod.run, runs.get(pod.job, 0))
        if pod.host and pod.start_ns is not None:
            placed[pod.job, pod.host, pod.run].append(pod)
    jobs = tuple(_stay(*stay, own, params) for stay, own in placed.items())
    return Snapshot(jobs, runs, tuple(unreadable))


def _pod(pod: Mapping[str, Any], params: KubernetesParams, gpus: int, at_ns: int) -> GpuPod:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labels = metadata.get("labels") or {}
    tags = {**(metadata.get("annotations") or {}), **labels}
    namespace = metadata.get("namespace") or "default"
    name = next((labels[label] for label in _JOB_LABELS if labels.get(label)), metadata["name"])
    phase = status.get("phase") or "Unknown"
    start = status.get("startTime")
    return GpuPod(
        text(f"{params.prefix}{namespace}/{name}"),
        bounded(int(labels.get(_RESTARTS_LABEL) or 0)),
        text(params.host(spec.get("nodeName") or "")),
        gpus,
        _ns(start) if start else None,
        _end_ns(status, at_ns) if phase in _FINISHED else None,
        text(f"{phase} ({status['reason']})" if status.get("reason") else phase),
        text(tags.get(params.user_label)) if params.user_label else "",
        text(params.team(tags.get(params.team_label) or namespace)),
    )


def _gpus(spec: Mapping[str, Any], resources: Iterable[str]) -> int:
    """Return the GPUs of all containers; a limit without a request is a request. Init containers run earlier."""
    count = 0
    for container in spec.get("containers") or ():
        own = container.get("resources") or {}
        wanted = {**(own.get("limits") or {}), **(own.get("requests") or {})}
        count += sum(int(wanted[name]) for name in resources if name in wanted)
    return bounded(count)


def _end_ns(status: Mapping[str, Any], at_ns: int) -> int:
    """Return the time when the last container of a finished pod ended; now for a pod without containers (evicted)."""
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    ends = [end for state in states if (end := (state.get("terminated") or {}).get("finishedAt"))]
    return max(map(_ns, ends), default=at_ns)


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
        text(params.tenant_of(newest.team)), min(sum(pod.gpus for pod in together), MAX_NUMBER), run, newest.state,
        params.name,
    )  # fmt: skip
