"""Groups hosts by the switches that connect them: scalable units, and the hosts that each tier connects.

A unit has the hosts with the same leaves. A group of a tier has the hosts that switches up to this tier connect. So
groups are nested: units in groups of T1, groups of T1 in groups of T2. The name of a group is its first switch of the
tier, that of a unit its first leaf, in natural order, so that it stays when hosts are added or removed.
Groups are built once per inventory; 131,072 GPUs take about a second.
"""

import copy
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from streams.fabric.graph import Graph, Ints, Mask
from streams.fabric.ids import UNKNOWN_RANK
from streams.fabric.topology import Topology

NVLINK = "nvlink"
"""The tier of NVLink domains, which lie beside the tiers of switches."""
NO_GROUP = -1
"""The group of a host without a link to a switch of the hierarchy."""
_NUMBER = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that compares the numbers in names by value: leaf2 before leaf10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(name))


@dataclass(frozen=True, eq=False)
class Level:
    """One partition of the hosts; `group` has the number of each host's group, and NO_GROUP for other devices."""

    tier: str
    """The tier that connects the hosts; units have the lowest."""
    names: tuple[str, ...]
    group: Ints
    members: tuple[Ints, ...]
    """The hosts of each group, in the order of the inventory."""


class Groups:
    """The units and the groups of the tiers of one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        graph = self.graph = topology.graph
        is_switch = ~graph.is_host & (graph.rank < UNKNOWN_RANK)
        self.hosts: Ints = np.flatnonzero(graph.is_host)
        self.is_host_link: Mask = graph.is_host[graph.lower] & is_switch[graph.upper]
        """The links from a host to a leaf; storage and links between hosts are not part of the hierarchy."""
        self.is_fabric_link: Mask = is_switch[graph.lower] & is_switch[graph.upper]
        self.ranks: tuple[int, ...] = tuple(np.unique(graph.rank[is_switch]).tolist())
        """The ranks of the tiers of switches, from the lowest."""
        self.tiers: tuple[str, ...] = tuple(_tier_of_rank(topology, graph)[rank] for rank in self.ranks)
        self._used = set[str]()
        self.leaves = {host: self._leaves(host) for host in self.hosts.tolist()}
        self.components: tuple[Ints, ...] = tuple(
            _components(
                graph, self.is_fabric_link & (graph.rank[graph.upper] <= rank) & (graph.rank[graph.lower] <= rank)
            )
            for rank in self.ranks
        )
        """For each tier, the component of each switch; switches of a component reach each other within the tier."""
        self.units = self._units()
        self.domains = self._domains()
        """The NVLink domains, in the order of the inventory: a new one does not move the others."""
        self.tier_groups = tuple(self._tier_groups(place) for place in range(len(self.ranks)))
        """For each tier, the groups of hosts that it connects."""

    def with_jobs_of(self, topology: Topology) -> "Groups":
        """Return the groups of the same fabric with other jobs."""
        derived = copy.copy(self)
        derived.topology = topology
        return derived

    def _leaves(self, host: int) -> tuple[int, ...]:
        first, last = self.graph.first_uplink[host : host + 2].tolist()
        links = slice(first, last)
        return tuple(np.unique(self.graph.upper[links][self.is_host_link[links]]).tolist())

    def _units(self) -> Level:
        by_leaves: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for host, leaves in self.leaves.items():
            if leaves:
                by_leaves[leaves].append(host)
        names = self._unique(by_leaves)
        return self._level(self.tiers[0] if self.tiers else "", names, list(by_leaves.values()))

    def _domains(self) -> Level:
        members: dict[str, list[int]] = defaultdict(list)
        for host in self.hosts.tolist():
            if domain := self.topology.devices[self.graph.names[host]].domain:
                members[domain].append(host)
        return self._level(NVLINK, tuple(members), list(members.values()))

    def in_one_domain(self, hosts: Sequence[int]) -> bool:
        """Return whether all of these hosts are of one NVLink domain."""
        domains = set(self.domains.group[hosts].tolist())
        return len(domains) == 1 and NO_GROUP not in domains

    def _tier_groups(self, place: int) -> Level:
        """Return the groups of hosts that tiers up to this one connect; a host joins the components of its leaves."""
        graph, rank = self.graph, self.ranks[place]
        within = (self.is_fabric_link | self.is_host_link) & (graph.rank[graph.upper] <= rank)
        label = _components(graph, within)
        members: dict[int, list[int]] = defaultdict(list)
        for host in self.hosts[[bool(self.leaves[host]) for host in self.hosts.tolist()]].tolist():
            members[int(label[host])].append(host)
        tops: dict[int, list[int]] = defaultdict(list)
        for switch in np.flatnonzero(~graph.is_host & (graph.rank == rank)).tolist():
            tops[int(label[switch])].append(switch)
        # A group without a switch of the tier has the name of its first leaf.
        chosen = [tops.get(one) or self.leaves[hosts[0]] for one, hosts in members.items()]
        return self._level(self.tiers[place], self._unique(chosen), list(members.values()))

    def _level(self, tier: str, names: tuple[str, ...], members: Sequence[Sequence[int]]) -> Level:
        group = np.full(len(self.graph.names), NO_GROUP, np.int64)
        arrays = tuple(np.array(hosts, np.int64) for hosts in members)
        for number, hosts in enumerate(arrays):
            group[hosts] = number
        return Level(tier, names, group, arrays)

    def _unique(self, groups: Iterable[Iterable[int]]) -> tuple[str, ...]:
        """Return the name of each group's first switch, with a number if another group has that name.

        Hosts that share only some leaves form separate units, possibly with the same first leaf.
        """
        found = []
        for switches in groups:
            first = name = min((self.graph.names[switch] for switch in switches), key=natural_key)
            number = 1
            while name in self._used or (number > 1 and name in self.graph.number):
                number += 1
                name = f"{first}-{number}"
            self._used.add(name)
            found.append(name)
        return tuple(found)

    def levels(self) -> tuple[Level, ...]:
        """Return the partitions for a scheduler, from the units up.

        Omits the groups of the lowest tier if they equal the units, as in a complete fabric.
        """
        coarser = [
            level for place, level in enumerate(self.tier_groups) if place or len(level.names) < len(self.units.names)
        ]
        return self.units, *coarser


def _tier_of_rank(topology: Topology, graph: Graph) -> dict[int, str]:
    return {
        rank: device.tier
        for rank, device in zip(graph.rank.tolist(), topology.devices.values(), strict=True)
        if device.kind != "host"
    }


def _components(graph: Graph, links: Mask) -> Ints:
    """Return a number for each device, equal for devices that these links connect (the smallest device number)."""
    lower, upper = graph.lower[links], graph.upper[links]
    labels = np.arange(len(graph.names))
    while True:
        smallest = np.minimum(labels[lower], labels[upper])
        spread = labels.copy()
        np.minimum.at(spread, lower, smallest)
        np.minimum.at(spread, upper, smallest)
        spread = spread[spread]
        if np.array_equal(spread, labels):
            return labels
        labels = spread
