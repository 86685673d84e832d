"""Generates the inventory of a rail-optimised Clos fabric of any size: hosts, switches, links and jobs.

Rails: a host has `rails` NICs, numbered from 0; each serves `gpus_per_host / rails` GPUs. NIC r of every host of a pod
connects only to the T0 switches of rail r, so that GPUs of one rank are one hop apart ("rail-optimised": NVIDIA's DGX
SuperPOD, Meta's RoCE clusters of 2024).
Planes: a NIC has one port for each plane. Each plane has its own switches and meets the others only at the NICs
(Alibaba HPN's two planes; NICs broken out to four or eight). All planes have the same shape. Every port, also of the
switches, has `nic_bps / planes`, and `radix` counts ports of that speed: a switch with 128 ports of 800G has radix 512
if NICs are broken out to four planes.
Pods: a pod is everything connected below the top tier: hosts and T0s, with three tiers also T1s. Hosts are spread
evenly over the fewest pods that have room for them.
Tiers: as few as `radix` allows. One: each plane has a single switch for all rails. Two: a T0 has half of its ports to
hosts and half to all T1s of its plane. Three: the T1s of a pod connect its T0s as the top does with two tiers, and T1
number j of every pod connects to group j of the T2s, as in Meta's F16.
Non-blocking: a T0 has as many uplinks as the fullest T0 has hosts, a T1 as many as its T0s have.
131,072 GPUs at radix 128 in one plane: 32 pods of 64 T0s and 64 T1s, 1,024 T2s, and no free port on 5,120 switches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.inventory_rows import HOST_LINK, MANY_PLANES


class PlanesAt(Enum):
    """Defines the tier at which a fabric divides into planes."""

    NICS = "nics"
    """Each NIC has one port for each plane, and each plane has its own T0s, T1s and T2s."""
    SPINES = "spines"
    """All planes share the T0s; each T0 has uplinks to the T1s of every plane. Only with two tiers."""


@dataclass(frozen=True, slots=True)
class ClosShape:
    """Counts the parts of a fabric: T0s and T1s of a pod, or T1s of a plane, and T2s."""

    tiers: int
    pod_hosts: tuple[int, ...]
    """Hosts of each pod."""
    rails: int
    planes: int
    nic_bps: int
    """Divided among the planes if they begin at the NICs."""
    first_uplink: int
    """Number of a switch's first uplink port, from 0."""
    leaves: int = 1
    """T0s of a rail of a pod, in each plane."""
    leaf_rails: int = 1
    """1, except for a single switch that takes all rails."""
    leaf_up: int = 0
    """Uplinks of a T0."""
    aggs: int = 0
    """T1s of a pod with three tiers, of a plane with two tiers."""
    agg_up: int = 0
    tops: int = 0
    """T2s of a group; there are as many groups as T1s in a pod."""
    planes_at: PlanesAt = PlanesAt.NICS
    adjacent_uplinks: bool = False
    """True if a T0's uplinks to one T1 have adjacent ports; False if the T1s alternate."""

    @property
    def leaf_planes(self) -> tuple[int | None, ...]:
        """Return the planes with their own T0s; a single None if all planes share the T0s."""
        return tuple(range(self.planes)) if self.planes_at is PlanesAt.NICS else (None,)

    @property
    def link_bps(self) -> int:
        """Return the speed of every port."""
        return self.nic_bps // len(self.leaf_planes)

    def spine_planes(self, leaf_plane: int | None) -> tuple[int, ...]:
        """Return the planes to which the T0s of a plane have uplinks."""
        return tuple(range(self.planes)) if leaf_plane is None else (leaf_plane,)


class Naming(Protocol):
    """Names the devices and ports of a fabric and completes their rows; all numbers begin at 0."""

    def host(self, pod: int, number: int, in_fabric: int) -> Device: ...
    def leaf(self, pod: int, plane: int | None, rail: int, number: int) -> Device: ...
    def agg(self, pod: int | None, plane: int, number: int) -> Device: ...
    def top(self, plane: int, group: int, number: int) -> Device: ...
    def port(self, number: int) -> str: ...


def nic_port(rail: int, plane: int, planes: int) -> str:
    """Return the name of a NIC's port.

    A NIC of two ports has an RDMA device for each. One of more planes has a single RDMA device, so its ports have the
    names of their netdevs, which NVIDIA's nic-configuration-operator assigns by rail and plane.
    """
    return f"mlx5_{rail * planes + plane}" if planes < MANY_PLANES else f"eth_r{rail}_p{plane}"


def nic_bps(planes: int) -> int:
    """Return the usual speed of a NIC: 400 Gb/s; with many planes 800 Gb/s (ConnectX-8 and 9)."""
    return 400_000_000_000 if planes < MANY_PLANES else 800_000_000_000


def build(shape: ClosShape, naming: Naming) -> tuple[tuple[Device, ...], tuple[Link, ...]]:
    """Return the devices, hosts first, and the links, host links first."""
    builder = _Builder(shape, naming)
    links = [*builder.host_links()]
    for plane in shape.leaf_planes:
        links += builder.leaf_uplinks(plane)
        links += builder.agg_uplinks(plane)
    return (*builder.hosts(), *builder.switches()), tuple(links)


class _Builder:
    """Builds the rows of one fabric."""

    def __init__(self, shape: ClosShape, naming: Naming) -> None:
        self._shape, self._naming = shape, naming
        self._pods = range(len(shape.pod_hosts))

    def hosts(self) -> Iterator[Device]:
        """Yield the hosts, pod by pod."""
        in_fabric = 0
        for pod in self._pods:
            for number in range(self._shape.pod_hosts[pod]):
                yield self._naming.host(pod, number, in_fabric)
                in_fabric += 1

    def switches(self) -> Iterator[Device]:
        """Yield the switches plane by plane, and within a plane from the lowest tier up."""
        shape, naming = self._shape, self._naming
        for leaf_plane in shape.leaf_planes:
            for pod in self._pods:
                yield from self._leaves(leaf_plane, pod)
                if shape.tiers == 3:
                    assert leaf_plane is not None
                    yield from (naming.agg(pod, leaf_plane, number) for number in range(shape.aggs))
            for plane in shape.spine_planes(leaf_plane):
                if shape.tiers == 2:
                    yield from (naming.agg(None, plane, number) for number in range(shape.aggs))
                for group in range(shape.aggs if shape.tops else 0):
                    yield from (naming.top(plane, group, number) for number in range(shape.tops))

    def host_links(self) -> Iterator[Link]:
        """Yield the links from NIC r of each host to the T0 of rail r in each plane; adjacent hosts share a T0."""
        shape, naming = self._shape, self._naming
        planes = shape.leaf_planes
        in_fabric = 0
        for pod in self._pods:
            number = 0
            for leaf, members in enumerate(even_shares(shape.pod_hosts[pod], shape.leaves)):
                for slot in range(members):
                    host = naming.host(pod, number, in_fabric).name
                    for rail in range(shape.rails):
                        port = naming.port(slot * shape.rails + rail if shape.leaf_rails > 1 else slot)
                        for i, plane in enumerate(planes):
                            nic = nic_port(rail, i, len(planes))
                            to = naming.leaf(pod, plane, rail, leaf).name
                            yield Link(host, nic, to, port, HOST_LINK, rail, plane, shape.link_bps)
                    number += 1
                    in_fabric += 1

    def leaf_uplinks(self, leaf_plane: int | None) -> Iterator[Link]:
        """Yield the uplinks of all T0s of a plane: every T1 gets the same number, and each T0 reaches all T1s."""
        shape, naming = self._shape, self._naming
        if shape.tiers == 1:
            return
        index = 0
        for pod in self._pods:
            if shape.tiers == 3:
                index = 0
            of_pod = pod if shape.tiers == 3 else None
            spines = [
                (plane, naming.agg(of_pod, plane, number).name)
                for plane in shape.spine_planes(leaf_plane)
                for number in range(shape.aggs)
            ]
            for leaf in self._leaves(leaf_plane, pod):
                for up in range(shape.leaf_up):
                    spine, port = self._end_of_uplink(index, up, len(spines))
                    plane, to = spines[spine]
                    ends = (leaf.name, naming.port(shape.first_uplink + up), to, naming.port(port))
                    yield Link(*ends, "fabric-link", None, plane, shape.link_bps)
                    index += 1

    def _end_of_uplink(self, index: int, up: int, spines: int) -> tuple[int, int]:
        """Return the T1 and its port for uplink `up` of a T0; `index` counts the uplinks of all T0s before it."""
        if not self._shape.adjacent_uplinks:
            port, spine = divmod(index, spines)
            return spine, port
        each = self._shape.leaf_up // spines
        spine, offset = divmod(up, each)
        return spine, index // self._shape.leaf_up * each + offset

    def agg_uplinks(self, plane: int | None) -> Iterator[Link]:
        """Yield the uplinks of T1 number j of every pod, distributed over the T2s of group j."""
        shape, naming = self._shape, self._naming
        if shape.tiers < 3:
            return
        assert plane is not None
        for pod in self._pods:
            for agg in range(shape.aggs):
                for up in range(shape.agg_up):
                    port, top = divmod(pod * shape.agg_up + up, shape.tops)
                    ends = (
                        naming.agg(pod, plane, agg).name, naming.port(shape.first_uplink + up),
                        naming.top(plane, agg, top).name, naming.port(port),
                    )  # fmt: skip
                    yield Link(*ends, "fabric-link", None, plane, shape.link_bps)

    def _leaves(self, plane: int | None, pod: int) -> list[Device]:
        rails = range(0, self._shape.rails, self._shape.leaf_rails)
        return [self._naming.leaf(pod, plane, rail, number) for rail in rails for number in range(self._shape.leaves)]


def even_shares(total: int, parts: int) -> tuple[int, ...]:
    """Return `total` divided into `parts` that differ by at most one, the larger parts first."""
    least, larger = divmod(total, parts)
    return (least + 1,) * larger + (least,) * (parts - larger)


GPUS_PER_JOB = 1024
"""The default number of GPUs in a job: 16 racks of 64 GPUs, a common size of a tenant's job."""


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
    fabric: Literal["ethernet", "infiniband"] = "ethernet"
    """The names of ports and the models of switches: `collect ib` converts waits by the model."""
    jobs_start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    nic_bps: int = Field(default_factory=lambda given: nic_bps(given.get("planes", 1)), ge=1)


_QUANTUM_2_PORTS = 64
"""Ports of 400 Gb/s of a Quantum-2 switch; a larger radix is of Quantum-3."""


class ImpossibleFabric(ValueError):
    """A fabric that cannot be built; the message is one line that names the conflicting numbers."""


def shape_of(params: GenerateParams) -> ClosShape:
    """Return the shape with the fewest tiers; raises ImpossibleFabric."""
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
    """Return the fabric; equal parameters give equal inventories. Raises ImpossibleFabric."""
    shape = shape_of(params)
    devices, links = build(shape, _Naming(shape, params))
    return Inventory(devices=devices, links=links, jobs=tuple(_jobs(params)))


class _Naming:
    """Names devices by pod, tier, plane, rail and number."""

    def __init__(self, shape: ClosShape, params: GenerateParams) -> None:
        self._gpus = params.gpus_per_host
        self._one_leaf = shape.leaf_rails > 1
        self._is_infiniband = params.fabric == "infiniband"
        self._vendor = self._model = ""
        if self._is_infiniband:
            self._vendor, self._model = "NVIDIA", "MQM9700" if params.radix <= _QUANTUM_2_PORTS else "Q3400-RA"

    def host(self, pod: int, number: int, in_fabric: int) -> Device:
        return Device(_host(in_fabric), "host", "host", _pod(pod), gpus=self._gpus)

    def leaf(self, pod: int, plane: int | None, rail: int, number: int) -> Device:
        rail_part = "" if self._one_leaf else f"-r{rail}"
        return Device(f"{_pod(pod)}-t0-p{plane}{rail_part}-{number + 1:02d}", "switch", "T0", _pod(pod), plane,
            self._vendor, self._model,
        )  # fmt: skip

    def agg(self, pod: int | None, plane: int, number: int) -> Device:
        prefix = "" if pod is None else f"{_pod(pod)}-"
        name, own = f"{prefix}t1-p{plane}-{number + 1:02d}", "" if pod is None else _pod(pod)
        return Device(name, "switch", "T1", own, plane, self._vendor, self._model)

    def top(self, plane: int, group: int, number: int) -> Device:
        name = f"t2-p{plane}-g{group + 1:02d}-{number + 1:02d}"
        return Device(name, "switch", "T2", "", plane, self._vendor, self._model)

    def port(self, number: int) -> str:
        return str(number + 1) if self._is_infiniband else f"Ethernet1/{number + 1}"


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
