"""The distance between two hosts or two GPUs: tier, switches and capacity by rail, and the neighbors of a host.

A path is between the ports of one rail and plane of both hosts. Its capacity is that of the slower host link, times the
smaller share of the two leaves towards the tier where they meet (fabric_state.py): what each host gets while all hosts
below these leaves send there. GPUs of unlike rails meet by the switches above their leaves, or by the host's own links
between its GPUs and then on one rail (PXN).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streams.fabric.graph import ABSENT, Ints
from streams.locality.fabric_state import FabricState, Usability
from streams.locality.groups import NO_GROUP

_FULL = 1 - 1e-9


class UnknownHost(LookupError):
    """The name is no host of the inventory."""


@dataclass(frozen=True, slots=True)
class RailPath:
    """The path between the ports of one rail and plane of two hosts; without a tier they do not reach each other."""

    rail: int | None
    plane: int | None
    leaves: tuple[str, str]
    tier: str
    switches: int | None
    """Switches on the path: 1 on one leaf."""
    ratio: float
    """Of the built capacity of the slower host link that is left now."""
    capacity_bps: float | None
    """None where the inventory lacks speeds."""
    bottleneck: str
    """The part that limits it, empty if nothing does."""


@dataclass(frozen=True)
class HostDistance:
    """The distance between two hosts; `tier` and `switches` are those of the farthest path."""

    a: str
    z: str
    same_unit: bool
    same_pod: bool
    tier: str
    """The tier that connects all common rails; empty if a rail has no path."""
    switches: int | None
    paths: tuple[RailPath, ...]

    @cached_property
    def ratio(self) -> float:
        """The capacity of all paths now, of that built."""
        return sum(path.ratio for path in self.paths) / len(self.paths) if self.paths else 0.0

    @property
    def capacity_bps(self) -> float | None:
        """The capacity of all paths now; None where the inventory lacks speeds."""
        found = [path.capacity_bps for path in self.paths if path.capacity_bps is not None]
        return sum(found) if len(found) == len(self.paths) else None


@dataclass(frozen=True, slots=True)
class GpuDistance:
    """The distance between two GPUs, by host and number from 0."""

    a: tuple[str, int]
    z: tuple[str, int]
    rails: tuple[int, int]
    same_host: bool
    switches: int | None
    """On the shortest path through the switches between their own rails; 0 within a host."""
    switches_by_rail: int | None
    """On one rail, after the links between the GPUs of a host."""


@dataclass(frozen=True, slots=True)
class HostNeighbor:
    """A host near another one."""

    host: str
    unit: str
    pod: str
    tier: str
    switches: int
    ratio: float
    """Of its built capacity with which it reaches the tier where both meet."""
    usability: Usability
    reasons: tuple[str, ...]


class Distances:
    """Distances in one state of the fabric."""

    def __init__(self, state: FabricState) -> None:
        self.state = state
        self._groups, self._graph = state.groups, state.groups.graph

    def host_number(self, name: str) -> int:
        """Return the number of a host; raises UnknownHost."""
        number = self._graph.number.get(name)
        if number is None or not self._graph.is_host[number]:
            what = "no device of the inventory" if number is None else "a switch"
            raise UnknownHost(f"{name} is {what}; name a host of the inventory")
        return number

    def between(self, a: str, z: str) -> HostDistance:
        """Return the distance between two hosts; raises UnknownHost."""
        first, second = self.host_number(a), self.host_number(z)
        topology = self._groups.topology
        unit = self._groups.units.group
        paths = tuple(self._paths(first, second)) if first != second else ()
        # The inventory may lack the links of a host: no path is not near.
        worst = max((path.switches if path.switches is not None else 1 << 30 for path in paths), default=0)
        reached = bool(paths) and all(path.tier for path in paths)
        return HostDistance(
            a, z,
            same_unit=bool(unit[first] == unit[second] != NO_GROUP),
            same_pod=topology.pod_of(a) == topology.pod_of(z),
            tier="host" if first == second else next((p.tier for p in paths if p.switches == worst and reached), ""),
            switches=0 if first == second else worst if reached else None,
            paths=paths,
        )  # fmt: skip

    def _host_links(self, host: int) -> dict[tuple[int, int], int]:
        graph = self._graph
        first, last = graph.first_uplink[host : host + 2].tolist()
        links = [link for link in range(first, last) if self._groups.is_host_link[link]]
        return {(int(graph.rail[link]), int(graph.plane[link])): link for link in links}

    def _paths(self, a: int, z: int) -> Iterator[RailPath]:
        """Yield a path for each pair of rail and plane that both hosts have."""
        theirs = self._host_links(z)
        for key, link in self._host_links(a).items():
            if key in theirs:
                yield self._path(key, link, theirs[key])

    def _meeting(self, a_leaf: int, z_leaf: int) -> int | None:
        """Return the place of the tier where two leaves meet, from 0; None if they do not."""
        if a_leaf == z_leaf:
            return self._groups.ranks.index(int(self._graph.rank[a_leaf]))
        return next(
            (place for place, found in enumerate(self._groups.components) if found[a_leaf] == found[z_leaf]), None
        )

    def _switches(self, place: int) -> int:
        return 2 * place + 1

    def _path(self, key: tuple[int, int], a_link: int, z_link: int) -> RailPath:
        graph, names = self._graph, self._graph.names
        a_leaf, z_leaf = int(graph.upper[a_link]), int(graph.upper[z_link])
        place = self._meeting(a_leaf, z_leaf)
        rail, plane = (None if number == ABSENT else number for number in key)
        leaves = (names[a_leaf], names[z_leaf])
        if place is None:
            return RailPath(rail, plane, leaves, "", None, 0.0, self._bps(0.0), "no path: unlike parts of the fabric")
        ratio, bottleneck = self._limit(a_link, z_link, place)
        speed = float(min(graph.speed[a_link], graph.speed[z_link]))
        return RailPath(
            rail,
            plane,
            leaves,
            self._groups.tiers[place],
            self._switches(place),
            ratio,
            self._bps(speed * ratio),
            bottleneck,
        )

    def _limit(self, a_link: int, z_link: int, place: int) -> tuple[float, str]:
        """Return the ratio of a path between two host links, and the part that limits it."""
        graph, state, names = self._graph, self.state, self._graph.names
        a_leaf, z_leaf = int(graph.upper[a_link]), int(graph.upper[z_link])
        for link, leaf in ((a_link, a_leaf), (z_link, z_leaf)):
            if not state.alive[link]:
                return 0.0, f"{names[int(graph.lower[link])]} has no link in service to {names[leaf]}"
        share, leaf = min((float(state.share[place][leaf]), leaf) for leaf in (a_leaf, z_leaf))
        if a_leaf == z_leaf or share >= _FULL:
            return 1.0, ""
        built = float(state.built_share[place][leaf])
        return share, (
            f"uplinks of {names[leaf]} carry {share:.0%} of the traffic from below, {built:.0%} as built, shared by"
            f" {self._hosts_below(leaf)} hosts"
        )

    def _bps(self, speed: float) -> float | None:
        return speed if self._has_speeds else None

    @cached_property
    def _has_speeds(self) -> bool:
        return bool(np.any(self._graph.speed > 1))

    def _hosts_below(self, leaf: int) -> int:
        links = self._graph.downlinks_of(np.array([leaf]))
        return len(np.unique(self._graph.lower[links[self._groups.is_host_link[links]]]))

    def between_gpus(self, a: tuple[str, int], z: tuple[str, int]) -> GpuDistance:
        """Return the distance between two GPUs, each a host and its number; raises UnknownHost."""
        (first, a_rail, a_leaves), (second, z_rail, z_leaves) = (self._gpu(*end) for end in (a, z))
        if first == second:
            return GpuDistance(a, z, (a_rail, z_rail), True, 0, 0)
        direct = self._fewest(a_leaves.get(a_rail, ()), z_leaves.get(z_rail, ()))
        by_rail = [self._fewest(a_leaves.get(rail, ()), z_leaves.get(rail, ())) for rail in {a_rail, z_rail}]
        found = [switches for switches in by_rail if switches is not None]
        return GpuDistance(a, z, (a_rail, z_rail), False, direct, min(found, default=None))

    def _gpu(self, host: str, gpu: int) -> tuple[int, int, dict[int, list[int]]]:
        """Return the host's number, the GPU's rail, and the leaves of each rail; GPUs are spread evenly over rails."""
        number = self.host_number(host)
        gpus = int(self._graph.gpus[number])
        if not 0 <= gpu < gpus:
            raise UnknownHost(f"{host} has {gpus} GPUs, numbered from 0; it has no GPU {gpu}")
        leaves: dict[int, list[int]] = {}
        for (rail, _), link in sorted(self._host_links(number).items()):
            leaves.setdefault(rail, []).append(int(self._graph.upper[link]))
        rails = sorted(leaves)
        return number, rails[gpu * len(rails) // gpus] if rails else ABSENT, leaves

    def _fewest(self, a_leaves: "list[int] | tuple[()]", z_leaves: "list[int] | tuple[()]") -> int | None:
        places = [place for a in a_leaves for z in z_leaves if (place := self._meeting(a, z)) is not None]
        return self._switches(min(places)) if places else None

    def near(self, host: str, limit: int = 20) -> list[HostNeighbor]:
        """Return the hosts nearest to one: its unit first, then what each tier connects, usable ones first."""
        own = self.host_number(host)
        seen = np.array([own], np.int64)
        found: list[HostNeighbor] = []
        for place, level in ((0, self._groups.units), *enumerate(self._groups.tier_groups)):
            group = int(level.group[own])
            if group == NO_GROUP or len(found) >= limit:
                continue
            members = np.setdiff1d(level.members[group], seen)
            seen = np.union1d(seen, members)
            found += self._neighbors(members, place, limit - len(found))
        return found

    def _neighbors(self, hosts: Ints, place: int, limit: int) -> list[HostNeighbor]:
        state, groups, names = self.state, self._groups, self._graph.names
        ratio = state.ratio[place][hosts]
        order = hosts[np.lexsort((hosts, -ratio, state.usability[hosts]))][:limit]
        return [
            HostNeighbor(
                names[host], groups.units.names[int(groups.units.group[host])], groups.topology.pod_of(names[host]),
                groups.tiers[place], self._switches(place), float(state.ratio[place][host]),
                Usability(int(state.usability[host])), tuple(map(str, state.issues(host))),
            )
            for host in order.tolist()
        ]  # fmt: skip
