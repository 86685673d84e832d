"""Computes the distance between two hosts or GPUs (tier, switches, capacity by rail), and the neighbors of a host.

A path connects the ports of one rail and plane of both hosts. Its capacity is the slower host link's, multiplied by the
smaller of both leaves' shares towards the tier that connects them (fabric_state.py): the capacity of each host while
all hosts below these leaves send there. GPUs of different rails are connected by the switches above their leaves, or by
a host's links between its GPUs and then one rail (PXN).
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from streams.fabric.graph import ABSENT, Ints
from streams.locality.answers import DistanceAnswer, GpuDistanceAnswer, NeighborAnswer, RailPathAnswer
from streams.locality.fabric_state import FabricState, Usability
from streams.locality.groups import NO_GROUP

_FULL = 1 - 1e-9


class UnknownHost(LookupError):
    """Raised for a name that is no host of the inventory."""


class Distances:
    """Computes distances in one state of the fabric."""

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

    def between(self, a: str, z: str) -> DistanceAnswer:
        """Return the distance between two hosts; raises UnknownHost."""
        first, second = self.host_number(a), self.host_number(z)
        topology = self._groups.topology
        unit = self._groups.units.group
        paths = tuple(self._paths(first, second)) if first != second else ()
        # The inventory may lack the links of a host; a rail without a path counts as the farthest.
        worst = max((path.switches if path.switches is not None else 1 << 30 for path in paths), default=0)
        reached = bool(paths) and all(path.tier for path in paths)
        speeds = [path.capacity_bps for path in paths if path.capacity_bps is not None]
        return DistanceAnswer(
            a=a, z=z,
            same_unit=bool(unit[first] == unit[second] != NO_GROUP),
            same_pod=topology.pod_of(a) == topology.pod_of(z),
            tier="host" if first == second else next((p.tier for p in paths if p.switches == worst and reached), ""),
            switches=0 if first == second else worst if reached else None,
            same_domain=self._groups.in_one_domain([first, second]),
            ratio=sum(path.ratio for path in paths) / len(paths) if paths else 0.0,
            capacity_bps=sum(speeds) if len(speeds) == len(paths) else None,
            paths=paths,
        )  # fmt: skip

    def _host_links(self, host: int) -> dict[tuple[int, int], int]:
        graph = self._graph
        first, last = graph.first_uplink[host : host + 2].tolist()
        links = [link for link in range(first, last) if self._groups.is_host_link[link]]
        return {(int(graph.rail[link]), int(graph.plane[link])): link for link in links}

    def _paths(self, a: int, z: int) -> Iterator[RailPathAnswer]:
        """Yield a path for each combination of rail and plane that both hosts have."""
        theirs = self._host_links(z)
        for key, link in self._host_links(a).items():
            if key in theirs:
                yield self._path(key, link, theirs[key])

    def _meeting(self, a_leaf: int, z_leaf: int) -> int | None:
        """Return the index of the tier that connects two leaves, or None without one."""
        if a_leaf == z_leaf:
            return self._groups.ranks.index(int(self._graph.rank[a_leaf]))
        return next(
            (place for place, found in enumerate(self._groups.components) if found[a_leaf] == found[z_leaf]), None
        )

    def _switches(self, place: int) -> int:
        return 2 * place + 1

    def _path(self, key: tuple[int, int], a_link: int, z_link: int) -> RailPathAnswer:
        graph, names = self._graph, self._graph.names
        a_leaf, z_leaf = int(graph.upper[a_link]), int(graph.upper[z_link])
        place = self._meeting(a_leaf, z_leaf)
        rail, plane = (None if number == ABSENT else number for number in key)
        ratio, bottleneck = 0.0, "no path: unlike parts of the fabric"
        if place is not None:
            ratio, bottleneck = self._limit(a_link, z_link, place)
        speed = float(min(graph.speed[a_link], graph.speed[z_link])) * ratio
        return RailPathAnswer(
            rail=rail, plane=plane, leaves=(names[a_leaf], names[z_leaf]),
            tier="" if place is None else self._groups.tiers[place],
            switches=None if place is None else self._switches(place),
            ratio=ratio, capacity_bps=speed if self._has_speeds else None, bottleneck=bottleneck,
        )  # fmt: skip

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

    @cached_property
    def _has_speeds(self) -> bool:
        return bool(np.any(self._graph.speed > 1))

    def _hosts_below(self, leaf: int) -> int:
        links = self._graph.downlinks_of(np.array([leaf]))
        return len(np.unique(self._graph.lower[links[self._groups.is_host_link[links]]]))

    def between_gpus(self, a: tuple[str, int], z: tuple[str, int]) -> GpuDistanceAnswer:
        """Return the distance between two GPUs, each a host and its number; raises UnknownHost."""
        (first, a_rail, a_leaves), (second, z_rail, z_leaves) = (self._gpu(*end) for end in (a, z))
        rails = (a_rail, z_rail)
        if first == second:
            return GpuDistanceAnswer(a=a, z=z, rails=rails, same_host=True, switches=0, switches_by_rail=0)
        direct = self._fewest(a_leaves.get(a_rail, ()), z_leaves.get(z_rail, ()))
        by_rail = [self._fewest(a_leaves.get(rail, ()), z_leaves.get(rail, ())) for rail in {a_rail, z_rail}]
        found = [switches for switches in by_rail if switches is not None]
        fewest = min(found, default=None)
        return GpuDistanceAnswer(a=a, z=z, rails=rails, same_host=False, switches=direct, switches_by_rail=fewest)

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

    def near(self, host: str, limit: int = 20) -> list[NeighborAnswer]:
        """Return the hosts nearest to `host`: its NVLink domain, its unit, then each tier; usable ones first."""
        own = self.host_number(host)
        groups, domains = self._groups, self._groups.domains
        levels = (groups.units, *groups.tier_groups)
        domain = int(domains.group[own])
        first = domains.members[domain] if domain != NO_GROUP else np.empty(0, np.int64)
        seen = np.array([own], np.int64)
        found: list[NeighborAnswer] = []
        for within in (first, None):
            for number, level in enumerate(levels):
                group = int(level.group[own])
                if group == NO_GROUP or len(found) >= limit:
                    continue
                members = level.members[group] if within is None else np.intersect1d(level.members[group], within)
                members = np.setdiff1d(members, seen)
                seen = np.union1d(seen, members)
                found += self._neighbors(members, max(0, number - 1), limit - len(found), within is not None)
        return found

    def _neighbors(self, hosts: Ints, place: int, limit: int, same_domain: bool) -> list[NeighborAnswer]:
        state, groups, names = self.state, self._groups, self._graph.names
        ratio = state.ratio[place][hosts]
        order = hosts[np.lexsort((hosts, -ratio, state.usability[hosts]))][:limit]
        return [
            NeighborAnswer(
                host=names[host], unit=groups.units.names[int(groups.units.group[host])],
                pod=groups.topology.pod_of(names[host]), tier=groups.tiers[place], switches=self._switches(place),
                same_domain=same_domain, ratio=float(state.ratio[place][host]),
                usability=Usability(int(state.usability[host])), reasons=state.reasons(host),
            )
            for host in order.tolist()
        ]  # fmt: skip
