"""Answers of schedulers: Slurm's jobs and host lists, and pods of Kubernetes. What is made of them must be readable."""

import json
from collections.abc import Iterator

import orjson

from collectors.jobs.kubernetes_parse import snapshot_of
from collectors.jobs.params import KubernetesParams, SlurmParams
from collectors.jobs.slurm_parse import allocated_hosts, expand, parse
from streams.wire.errors import Reject, Retry
from streams.wire.topics import JOBS, encode
from tests.fixtures.kubernetes_pods import LABELS, finished, pod, running
from tests.fixtures.slurm_json import RELEASES, answer, job
from tests.fuzz.target import Target
from tests.fuzz.targets.wire import read_back

_NOW_NS = 1_764_000_000 * 10**9


def _parse_jobs(data: bytes) -> None:
    for found in parse(data, SlurmParams(), _NOW_NS).jobs:
        read_back(encode(JOBS, found))


def _job_seeds() -> Iterator[bytes]:
    for release in RELEASES:
        yield answer(release, job(1), job(2, "COMPLETED", het_job_id=1), job(3, array_job_id=2, array_task_id=7))


def _parse_pod(data: bytes) -> None:
    params = KubernetesParams()
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Reject(str(error)) from error
    if not isinstance(body, dict):
        raise Reject("no object")
    for made in snapshot_of([body], params, _NOW_NS).jobs:
        read_back(encode(JOBS, made))


def _pod_seeds() -> Iterator[bytes]:
    for kind, labels in LABELS.items():
        for status in (running(), finished()):
            yield json.dumps(pod(kind, labels, node="h0", namespace="ml") | {"status": status}).encode()


TARGETS = (
    Target("slurm-jobs", _parse_jobs, (Reject, Retry), _job_seeds),
    Target(
        "slurm-hostlist", lambda data: expand(data.decode("utf-8", "replace")), (Reject,),
        lambda: (b"h[0-1,07],gpu-a1", b"r[1-2]n[01-02]", b"n[000-999]"),
    ),
    Target(
        "slurm-nodes", lambda data: allocated_hosts(data, SlurmParams()), (Reject,),
        lambda: (b"h0 alloc\nh1 mix*\n", b'{"nodes": [{"name": "h0", "state": ["MIXED", "DRAIN"]}]}'),
    ),
    Target("kubernetes-pod", _parse_pod, (Reject,), _pod_seeds),
)  # fmt: skip
