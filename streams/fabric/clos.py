"""Generates the inventory of a rail-optimised Clos fabric of any size: hosts, switches, links and jobs.

Rails: a host has `rails` NICs, numbered from 0; each serves `gpus_per_host / rails` GPUs. NIC r of every host of a pod
is connected to the T0 switches of rail r and to no other, so that GPUs of one rank are one hop apart ("rail-optimised":
NVIDIA's DGX SuperPOD, Meta's RoCE clusters of 2024).
Planes: a NIC has one port for each plane, and each plane is a fabric of switches of its own, joined to the others only
at the NICs (Alibaba HPN's two planes; NICs broken out to four or eight). All planes have the same shape. Every port,
the switches' too, has `nic_bps / planes`, and `radix` counts ports of that speed: a switch of 128 ports of 800G is
radix 512 where NICs are broken out to four planes.
Pods: a pod is everything connected below the top tier: hosts and T0s, with three tiers also T1s. Hosts are spread
evenly over the fewest pods that have room for them.
Tiers: as few as `radix` allows. One: a switch for each plane takes all rails. Two: a T0 has half of its ports down to
hosts, half up, spread over all T1s of its plane. Three: the T1s of a pod do for its T0s what the top does with two
tiers, and T1 number j of every pod is connected to group j of the T2s, as Meta's F16 stacks its fabric.
Non-blocking: a T0 has as many uplinks as the fullest T0 has hosts, a T1 as many as its T0s have.
131,072 GPUs at radix 128 in one plane: 32 pods of 64 T0s and 64 T1s, 1,024 T2s, and no free port on 5,120 switches.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from streams.fabric.clos_builder import ClosShape, build, even_shares
from streams.fabric.inventory import Device, Inventory, Job

GPUS_PER_JOB = 1024
"""Used where the number of jobs is not given: 16 racks of 64 GPUs, a common size for a tenant's job."""


class GenerateParams(BaseModel):
    """The size and the shape of a fabric."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpus: int = Field(ge=1)
    radix: int = Field(default=128, ge=2)
    """Ports of a switch, at the speed of a NIC's port."""
    planes: int = Field(default=1, ge=1)
    rails: int = Field(default=8, ge=1)
    """NICs of a host."""
    gpus_per_host: int = Field(default=8, ge=1)
    jobs: int | None = Field(default=None, ge=0)
    """Jobs that share the hosts, each on adjacent hosts; default: one for each `GPUS_PER_JOB` GPUs."""
    jobs_start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    nic_bps: int = Field(default=400_000_000_000, ge=1)


class ImpossibleFabric(ValueError):
    """Raised for a fabric that cannot be built; the message is one line that names the numbers in conflict."""


def shape_of(params: GenerateParams) -> ClosShape:
    """Return the shape with the fewest tiers; raise ImpossibleFabric."""
    if params.gpus % params.gpus_per_host:
        raise ImpossibleFabric(f"{params.gpus} GPUs do not fill hosts of {params.gpus_per_host}")
    if params.gpus_per_host % params.rails:
        raise ImpossibleFabric(f"{params.gpus_per_host} GPUs of a host cannot share {params.rails} rails evenly")
    hosts, half = params.gpus // params.gpus_per_host, params.radix // 2
    if hosts * params.rails <= params.radix:
        return ClosShape(
            1, (hosts,), params.rails, params.planes, params.nic_bps, half, leaves=1, leaf_rails=params.rails
        )
    if params.radix % 2:
        raise ImpossibleFabric(f"radix {params.radix} is odd: more than one tier needs as many ports up as down")
    if -(-hosts // half) * params.rails <= params.radix:
        pod_hosts = even_shares(hosts, -(-hosts // half))
        aggs = -(-len(pod_hosts) * params.rails * pod_hosts[0] // params.radix)
        return ClosShape(
            2, pod_hosts, params.rails, params.planes, params.nic_bps, half, leaf_up=pod_hosts[0], aggs=aggs
        )
    return _three_tiers(params, hosts)


def _three_tiers(params: GenerateParams, hosts: int) -> ClosShape:
    half = params.radix // 2
    if params.rails > half:
        raise ImpossibleFabric(f"{params.rails} rails need a T0 each in a pod; radix {params.radix} has {half} at most")
    largest_pod = half * (half // params.rails)
    if hosts > params.radix * largest_pod:
        most = params.radix * largest_pod * params.gpus_per_host
        raise ImpossibleFabric(f"{params.gpus} GPUs need more than three tiers of radix {params.radix}: {most} at most")
    pod_hosts = even_shares(hosts, -(-hosts // largest_pod))
    leaves = -(-pod_hosts[0] // half)
    leaf_up = -(-pod_hosts[0] // leaves)
    aggs = -(-params.rails * leaves * leaf_up // half)
    agg_up = -(-params.rails * leaves * leaf_up // aggs)
    return ClosShape(
        3, pod_hosts, params.rails, params.planes, params.nic_bps, half, leaves, 1, leaf_up, aggs, agg_up,
        -(-len(pod_hosts) * agg_up // params.radix),
    )  # fmt: skip


def generate(params: GenerateParams) -> Inventory:
    """Return the fabric: the same parameters give the same inventory; raise ImpossibleFabric."""
    shape = shape_of(params)
    devices, links = build(shape, _Naming(shape, params.gpus_per_host))
    return Inventory(devices=devices, links=links, jobs=tuple(_jobs(params)))


class _Naming:
    """Names devices by pod, tier, plane, rail and number."""

    def __init__(self, shape: ClosShape, gpus_per_host: int) -> None:
        self._gpus = gpus_per_host
        self._one_leaf = shape.leaf_rails > 1

    def host(self, pod: int, number: int, in_fabric: int) -> Device:
        return Device(_host(in_fabric), "host", "host", _pod(pod), gpus=self._gpus)

    def leaf(self, pod: int, plane: int | None, rail: int, number: int) -> Device:
        rail_part = "" if self._one_leaf else f"-r{rail}"
        return Device(f"{_pod(pod)}-t0-p{plane}{rail_part}-{number + 1:02d}", "switch", "T0", _pod(pod), plane)

    def agg(self, pod: int | None, plane: int, number: int) -> Device:
        prefix = "" if pod is None else f"{_pod(pod)}-"
        return Device(f"{prefix}t1-p{plane}-{number + 1:02d}", "switch", "T1", "" if pod is None else _pod(pod), plane)

    def top(self, plane: int, group: int, number: int) -> Device:
        return Device(f"t2-p{plane}-g{group + 1:02d}-{number + 1:02d}", "switch", "T2", "", plane)

    def port(self, number: int) -> str:
        return f"Ethernet1/{number + 1}"


def _host(in_fabric: int) -> str:
    return f"host-{in_fabric + 1:05d}"


def _pod(number: int) -> str:
    return f"pod-{number + 1:02d}"


def _jobs(params: GenerateParams) -> Iterator[Job]:
    hosts = params.gpus // params.gpus_per_host
    jobs = -(-params.gpus // GPUS_PER_JOB) if params.jobs is None else params.jobs
    if jobs > hosts:
        raise ImpossibleFabric(f"{jobs} jobs cannot share {hosts} hosts")
    host = 0
    for job, members in enumerate(even_shares(hosts, jobs) if jobs else ()):
        for _ in range(members):
            yield Job(f"job-{job + 1:03d}", _host(host), params.jobs_start)
            host += 1
