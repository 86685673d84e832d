"""Builds the devices and links of a Clos fabric from its shape; the same shape gives the same rows.

Two modules choose shapes: clos.py sizes a fabric by its GPUs and the radix of its switches, demo_fabric.py receives the
number of hosts and spines. Names come from a Naming, so that both keep theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from streams.fabric.inventory import Device, Link
from streams.fabric.inventory_rows import HOST_LINK


class PlanesAt(Enum):
    """Defines the tier at which a fabric divides into planes."""

    NICS = "nics"
    """A NIC has one port for each plane, and each plane has T0s, T1s and T2s of its own."""
    SPINES = "spines"
    """All planes share the T0s; a T0 has uplinks to the T1s of every plane. Only with two tiers."""


@dataclass(frozen=True, slots=True)
class ClosShape:
    """Counts the parts of a fabric: T0s and T1s of a pod, or T1s of a plane, and T2s."""

    tiers: int
    pod_hosts: tuple[int, ...]
    """Hosts of each pod."""
    rails: int
    planes: int
    nic_bps: int
    """Divided among the planes if those begin at the NICs."""
    first_uplink: int
    """Number of a switch's first uplink port, from 0."""
    leaves: int = 1
    """T0s of a rail of a pod, in each plane."""
    leaf_rails: int = 1
    """1, except for a single switch that takes all rails."""
    leaf_up: int = 0
    """Uplinks of a T0."""
    aggs: int = 0
    """T1s of a pod with three tiers, of a plane with two."""
    agg_up: int = 0
    tops: int = 0
    """T2s of a group; there are as many groups as T1s in a pod."""
    planes_at: PlanesAt = PlanesAt.NICS
    adjacent_uplinks: bool = False
    """True if the uplinks of a T0 to one T1 have adjacent ports; otherwise the T1s take turns."""

    @property
    def leaf_planes(self) -> tuple[int | None, ...]:
        """Return the planes that have T0s of their own, None if all planes share them."""
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
        """Yield the switches, plane by plane and in each from the lowest tier up."""
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
                            nic = f"mlx5_{rail * len(planes) + i}"
                            to = naming.leaf(pod, plane, rail, leaf).name
                            yield Link(host, nic, to, port, HOST_LINK, rail, plane, shape.link_bps)
                    number += 1
                    in_fabric += 1

    def leaf_uplinks(self, leaf_plane: int | None) -> Iterator[Link]:
        """Yield the uplinks of all T0s of a plane: every T1 gets as many as the others, and each T0 reaches all T1s."""
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
        """Yield the uplinks of T1 number j of every pod, in turn to the T2s of group j."""
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
    """Return `total` divided into `parts` that differ by at most one, the larger ones first."""
    least, larger = divmod(total, parts)
    return (least + 1,) * larger + (least,) * (parts - larger)
