"""Makes the inventory of a rail-optimised Clos fabric of any size: hosts, switches, cables and jobs, without chance.

Rails: a host has `rails` NICs, numbered from 0; each serves `gpus_per_host / rails` GPUs. NIC r of every host of a pod
is cabled to the T0 switches of rail r and to no other, so that GPUs of one rank are one hop apart ("rail-optimised":
NVIDIA's DGX SuperPOD, Meta's RoCE clusters of 2024).
Planes: a NIC has one port for each plane, and each plane is a fabric of switches of its own, joined to the others only
at the NICs (Alibaba HPN's two planes; NICs broken out to four or eight). All planes have the same shape. Every port,
the switches' too, has `nic_bps / planes`, and `radix` counts ports of that speed: a switch of 128 ports of 800G is
radix 512 where NICs are broken out to four planes.
Pods: a pod is what hangs together below the top tier, so hosts and T0s, with three tiers their T1s as well. Hosts are
spread evenly over the fewest pods that hold them.
Tiers: as few as `radix` allows. One: a switch for each plane takes all rails. Two: a T0 has half of its ports down to
hosts, half up, spread over all T1s of its plane. Three: the T1s of a pod do for its T0s what the top does with two
tiers, and T1 number j of every pod is cabled to group j of the T2s, as Meta's F16 stacks its fabric.
Non-blocking: a T0 has as many paths up as the fullest T0 has hosts, a T1 as many as its T0s bring.
131,072 GPUs at radix 128 in one plane: 32 pods of 64 T0s and 64 T1s, 1,024 T2s, and no port of 5,120 switches is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.rows import HOST_LINK

GPUS_PER_JOB = 1024
"""Where the number of jobs is not said: 16 racks of 64 GPUs, a common size for a tenant's job."""


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
    """Jobs that share the hosts, each on hosts side by side; default: one for each `GPUS_PER_JOB` GPUs."""
    jobs_start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    nic_bps: int = Field(default=400_000_000_000, ge=1)


class ImpossibleFabric(ValueError):
    """No such fabric can be built; the message is one line that says which numbers do not go together."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of what: of a pod the T0s of one rail and the T1s, of a plane the T1s without a pod and the T2s."""

    tiers: int
    pod_hosts: tuple[int, ...]
    """Hosts of each pod."""
    leaves: int
    """T0s of a rail of a pod, in each plane."""
    leaf_rails: int
    """1, but for a single switch that takes all rails."""
    leaf_up: int
    """Paths up of a T0."""
    aggs: int = 0
    """T1s of a pod with three tiers, of a plane with two."""
    agg_up: int = 0
    tops: int = 0
    """T2s of a group; there are as many groups as T1s in a pod."""


def shape_of(params: GenerateParams) -> Shape:
    """The shape with the fewest tiers; raises ImpossibleFabric."""
    if params.gpus % params.gpus_per_host:
        raise ImpossibleFabric(f"{params.gpus} GPUs do not fill hosts of {params.gpus_per_host}")
    if params.gpus_per_host % params.rails:
        raise ImpossibleFabric(f"{params.gpus_per_host} GPUs of a host cannot share {params.rails} rails evenly")
    hosts, half = params.gpus // params.gpus_per_host, params.radix // 2
    if hosts * params.rails <= params.radix:
        return Shape(1, (hosts,), leaves=1, leaf_rails=params.rails, leaf_up=0)
    if params.radix % 2:
        raise ImpossibleFabric(f"radix {params.radix} is odd: more than one tier needs as many ports up as down")
    if -(-hosts // half) * params.rails <= params.radix:
        pod_hosts = _shares(hosts, -(-hosts // half))
        aggs = -(-len(pod_hosts) * params.rails * pod_hosts[0] // params.radix)
        return Shape(2, pod_hosts, leaves=1, leaf_rails=1, leaf_up=pod_hosts[0], aggs=aggs)
    return _three_tiers(params, hosts)


def _three_tiers(params: GenerateParams, hosts: int) -> Shape:
    half = params.radix // 2
    if params.rails > half:
        raise ImpossibleFabric(f"{params.rails} rails need a T0 each in a pod; radix {params.radix} has {half} at most")
    largest_pod = half * (half // params.rails)
    if hosts > params.radix * largest_pod:
        most = params.radix * largest_pod * params.gpus_per_host
        raise ImpossibleFabric(f"{params.gpus} GPUs need more than three tiers of radix {params.radix}: {most} at most")
    pod_hosts = _shares(hosts, -(-hosts // largest_pod))
    leaves = -(-pod_hosts[0] // half)
    leaf_up = -(-pod_hosts[0] // leaves)
    aggs = -(-params.rails * leaves * leaf_up // half)
    agg_up = -(-params.rails * leaves * leaf_up // aggs)
    return Shape(3, pod_hosts, leaves, 1, leaf_up, aggs, agg_up, -(-len(pod_hosts) * agg_up // params.radix))


def generate(params: GenerateParams) -> Inventory:
    """The fabric: the same parameters make the same inventory; raises ImpossibleFabric."""
    shape = shape_of(params)
    links = [*_host_links(params, shape)]
    for plane in range(params.planes):
        links += _links_of_leaves(params, shape, plane)
        links += _links_of_aggs(params, shape, plane)
    return Inventory(
        devices=(*_hosts(params, shape), *_switches(params, shape)), links=tuple(links), jobs=tuple(_jobs(params))
    )


def _shares(total: int, parts: int) -> tuple[int, ...]:
    """`total` in `parts` that differ by one at most, the larger first."""
    least, larger = divmod(total, parts)
    return (least + 1,) * larger + (least,) * (parts - larger)


def _host(number: int) -> str:
    return f"host-{number + 1:05d}"


def _pod(number: int) -> str:
    return f"pod-{number + 1:02d}"


def _port(number: int) -> str:
    """A switch's port, `number` from 0."""
    return f"Ethernet1/{number + 1}"


def _leaf(shape: Shape, plane: int, pod: int, rail: int, number: int) -> str:
    of = "" if shape.leaf_rails > 1 else f"-r{rail}"
    return f"{_pod(pod)}-t0-p{plane}{of}-{number + 1:02d}"


def _agg(shape: Shape, plane: int, pod: int, number: int) -> str:
    of = f"{_pod(pod)}-" if shape.tiers == 3 else ""
    return f"{of}t1-p{plane}-{number + 1:02d}"


def _top(plane: int, group: int, number: int) -> str:
    return f"t2-p{plane}-g{group + 1:02d}-{number + 1:02d}"


def _leaves_of(params: GenerateParams, shape: Shape, plane: int, pod: int) -> list[str]:
    rails = range(0, params.rails, shape.leaf_rails)
    return [_leaf(shape, plane, pod, rail, number) for rail in rails for number in range(shape.leaves)]


def _hosts(params: GenerateParams, shape: Shape) -> Iterator[Device]:
    number = 0
    for pod, hosts in enumerate(shape.pod_hosts):
        for _ in range(hosts):
            yield Device(_host(number), "host", "host", _pod(pod), gpus=params.gpus_per_host)
            number += 1


def _switches(params: GenerateParams, shape: Shape) -> Iterator[Device]:
    for plane in range(params.planes):
        for pod in range(len(shape.pod_hosts)):
            for name in _leaves_of(params, shape, plane, pod):
                yield Device(name, "switch", "T0", _pod(pod), plane)
            if shape.tiers == 3:
                for number in range(shape.aggs):
                    yield Device(_agg(shape, plane, pod, number), "switch", "T1", _pod(pod), plane)
        if shape.tiers == 2:
            for number in range(shape.aggs):
                yield Device(_agg(shape, plane, 0, number), "switch", "T1", "", plane)
        for group in range(shape.aggs if shape.tops else 0):
            for number in range(shape.tops):
                yield Device(_top(plane, group, number), "switch", "T2", "", plane)


def _host_links(params: GenerateParams, shape: Shape) -> Iterator[Link]:
    """NIC r of a host to the T0 of rail r in each plane; hosts side by side are on one T0."""
    speed = params.nic_bps // params.planes
    host = 0
    for pod, hosts in enumerate(shape.pod_hosts):
        for leaf, members in enumerate(_shares(hosts, shape.leaves)):
            for slot in range(members):
                for rail in range(params.rails):
                    port = _port(slot * params.rails + rail if shape.leaf_rails > 1 else slot)
                    for plane in range(params.planes):
                        nic = f"mlx5_{rail * params.planes + plane}"
                        to = _leaf(shape, plane, pod, rail, leaf)
                        yield Link(_host(host), nic, to, port, HOST_LINK, rail, plane, speed)
                host += 1


def _links_of_leaves(params: GenerateParams, shape: Shape, plane: int) -> Iterator[Link]:
    """The paths up of all T0s, dealt to the T1s one after the other: all T1s get the same, and each T0 meets all."""
    if shape.tiers == 1:
        return
    speed, half = params.nic_bps // params.planes, params.radix // 2
    dealt = 0
    for pod in range(len(shape.pod_hosts)):
        if shape.tiers == 3:
            dealt = 0
        for leaf in _leaves_of(params, shape, plane, pod):
            for up in range(shape.leaf_up):
                port, agg = divmod(dealt, shape.aggs)
                to = _agg(shape, plane, pod, agg)
                yield Link(leaf, _port(half + up), to, _port(port), "fabric-link", None, plane, speed)
                dealt += 1


def _links_of_aggs(params: GenerateParams, shape: Shape, plane: int) -> Iterator[Link]:
    """The paths up of T1 number j of every pod, dealt to the T2s of group j."""
    speed, half = params.nic_bps // params.planes, params.radix // 2
    for pod in range(len(shape.pod_hosts) if shape.tiers == 3 else 0):
        for agg in range(shape.aggs):
            for up in range(shape.agg_up):
                port, top = divmod(pod * shape.agg_up + up, shape.tops)
                ends = (_agg(shape, plane, pod, agg), _port(half + up), _top(plane, agg, top), _port(port))
                yield Link(*ends, "fabric-link", None, plane, speed)


def _jobs(params: GenerateParams) -> Iterator[Job]:
    hosts = params.gpus // params.gpus_per_host
    jobs = -(-params.gpus // GPUS_PER_JOB) if params.jobs is None else params.jobs
    if jobs > hosts:
        raise ImpossibleFabric(f"{jobs} jobs cannot share {hosts} hosts")
    host = 0
    for job, members in enumerate(_shares(hosts, jobs) if jobs else ()):
        for _ in range(members):
            yield Job(f"job-{job + 1:03d}", _host(host), params.jobs_start)
            host += 1
