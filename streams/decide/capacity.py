"""Computes the capacity that survives without given links: per switch, and per plane, rail and pod.

A switch survives with the ratio of its paths to the top of the fabric that still carry traffic (CorrOpt counts the same
paths, SIGCOMM 2017). A plane, rail or pod survives with the ratio of its links. A link counts only if it is proven to
carry; a link without an observation is lost. Host links are not counted here: their guard compares the planes of one
rail of a host.

A domain is a set of switches that share links above them, for example the T0s and T1s of a pod with three tiers, or one
T0 with two. A link changes no paths outside its domain, so a decision computes one domain: 8,192 links of 393,216 in
the largest fabric. The counts of planes, rails and pods are incremental.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from streams.decide.state import TargetKind
from streams.fabric.graph import ABSENT, Floats, Graph, Ints, Mask
from streams.fabric.topology import Topology, TopologyLink


class _Tier(NamedTuple):
    """The uplinks of the switches of one tier; `lower` has each switch once, `starts` its first uplink."""

    links: Ints
    upper: Ints
    lower: Ints
    starts: Ints


class Domain:
    """The uplinks of the switches of one domain, tier by tier from the top down.

    A switch outside the domain is a top of the fabric and has one path.
    """

    def __init__(self, graph: Graph, links: Ints) -> None:
        self.switches: Ints = np.unique(graph.lower[links])
        self.pods: Ints = np.unique(graph.pod[links])
        self._lower_of: Ints = graph.lower
        ranks = graph.rank[graph.lower[links]]
        self._tiers = [self._tier(graph, links[ranks == rank]) for rank in np.unique(ranks)[::-1]]
        self._paths = self._count(np.ones(len(graph.links), np.bool_))

    def _tier(self, graph: Graph, links: Ints) -> _Tier:
        links = np.sort(links)  # sorted by lower end
        lower = np.searchsorted(self.switches, graph.lower[links])
        upper = np.searchsorted(self.switches, graph.upper[links])
        is_inside = self.switches[np.minimum(upper, len(self.switches) - 1)] == graph.upper[links]
        starts = np.flatnonzero(np.diff(lower, prepend=ABSENT))
        return _Tier(links, np.where(is_inside, upper, len(self.switches)), lower[starts], starts)

    def _count(self, carrying: Mask) -> Ints:
        """Return the number of paths of each switch over the links that carry."""
        paths = np.ones(len(self.switches) + 1, np.int64)
        for tier in self._tiers:
            paths[tier.lower] = np.add.reduceat(paths[tier.upper] * carrying[tier.links], tier.starts)
        return paths[:-1]

    def path_ratios(self, carrying: Mask) -> Floats:
        """Return the ratio of paths to the top that each switch retains over the links that carry."""
        return self._count(carrying) / self._paths

    def affected(self, links: Ints, is_dead: Mask) -> Mask:
        """Return the switches with a path through any of these links that crosses no dead link.

        These links themselves count as not dead.
        """
        affected = np.zeros(len(self.switches) + 1, np.bool_)
        affected[np.searchsorted(self.switches, self._lower_of[links])] = True
        for tier in self._tiers:
            reached = affected[tier.upper] & ~is_dead[tier.links]
            affected[tier.lower] |= np.logical_or.reduceat(reached, tier.starts)
        return affected[:-1]


def domain_numbers(graph: Graph, is_fabric: Mask) -> Ints:
    """Return the number of each switch's domain; switches connected by links below the tops share a domain.

    `is_fabric` selects the links between switches. A top is a switch without such a link upwards.
    """
    links = np.flatnonzero(is_fabric)
    has_uplinks = np.zeros(len(graph.names), np.bool_)
    has_uplinks[graph.lower[links]] = True
    inner = links[has_uplinks[graph.upper[links]]]
    lower, upper = graph.lower[inner], graph.upper[inner]
    labels = np.arange(len(graph.names))
    while True:
        before = labels.copy()
        np.minimum.at(labels, lower, labels[upper])
        np.minimum.at(labels, upper, labels[lower])
        labels = labels[labels]
        if np.array_equal(labels, before):
            numbers: Ints = np.unique(labels, return_inverse=True)[1]
            return numbers


ROUNDING = 1e-9
"""A ratio that is below the floor by less than this counts as equal to the floor."""

SWITCH = "switch"


class Group(NamedTuple):
    """One group of links with a floor: a switch with its paths to the top, or a plane, rail or pod with its links."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Surviving(NamedTuple):
    """The ratio of a group's capacity that still carries traffic."""

    group: Group
    ratio: float


class _Removal(NamedTuple):
    """Holds the losses of one set of links, for the next call with the same set."""

    links: bytes
    decrease: Counter[int]
    """Group -> how many of its links are lost."""
    ratios: dict[int, Floats]
    """Domain -> the ratio of each of its switches."""


class Capacity:
    """Counts the links that carry traffic in one topology; links are given by their numbers in its graph.

    No link counts as carrying before `refresh` sets it.
    """

    def __init__(self, topology: Topology) -> None:
        graph = self.graph = topology.graph
        self._is_fabric: Mask = graph.is_up & ~graph.is_host[graph.lower]
        self._carrying: Mask = np.zeros(len(graph.links), np.bool_)
        self._groups, self._names, self._sizes = _link_groups(graph, self._is_fabric)
        self._counts = [0] * len(self._sizes)
        self._domain_of = domain_numbers(graph, self._is_fabric)[graph.lower]
        fabric_links = np.flatnonzero(self._is_fabric)
        self._by_pod = _split(fabric_links, graph.pod, len(graph.pods))
        by_domain = _split(fabric_links, self._domain_of, int(self._domain_of.max(initial=-1)) + 1)
        self._domains = [Domain(graph, members) if len(members) else None for members in by_domain]
        self._numbers = [{graph.links.id_of(number): number for number in numbers.tolist()} for numbers in self._by_pod]
        self._lost = [set(numbers.values()) for numbers in self._numbers]
        """The links of each pod that are not proven to carry."""
        self._is_dead: Mask = np.zeros(len(graph.links), np.bool_)
        """The links of switches that are proven dead; no path goes through them."""
        self._dead: list[set[int]] = [set() for _ in self._numbers]
        """The links of `_is_dead` by pod."""
        self._removal: _Removal | None = None
        self._population = _population(topology)
        self.maintenance = tuple(
            (device.name, topology.maintenance_until_ns((device.name,)))
            for device in topology.devices.values()
            if device.maintenance_until is not None
        )
        """The devices that the inventory has in maintenance, and the end of each maintenance."""
        self._links_of = topology.links_of
        self._pod_numbers = {name: number for number, pod in enumerate(graph.pods) for name in (pod, f"pod:{pod}")}

    def population(self, kind: TargetKind, pod: str | None = None) -> int:
        """Return the number of links or of hosts in a pod, or in the fabric."""
        return self._population.get((kind, pod), 0)

    def links_named(self, name: str) -> set[str]:
        """Return a name as the id of a link, with the links of the device, pod, plane or rail that has the name."""
        graph, (kind, _, part) = self.graph, name.partition(":")
        host, _, rail = part.rpartition("/")
        found = {name, *(link.id for link in self._links_of.get(name.removeprefix("device:"), ()))}
        if kind == "rail":
            found.update(link.id for link in self._links_of.get(host, ()) if str(link.rail) == rail)
        columns = {"plane": graph.plane, "rail": graph.rail}
        masks = [columns[kind] == int(part)] if kind in columns and part.isdecimal() else []
        if (pod := self._pod_numbers.get(name)) is not None:
            masks.append(graph.pod == pod)
        found.update(graph.links.id_of(number) for mask in masks for number in np.flatnonzero(mask).tolist())
        return found

    def number_of(self, link: TopologyLink) -> int | None:
        """Return the number of a link between two tiers of switches; None for any other link."""
        try:
            number = self.graph.number_of(link)
        except (KeyError, ValueError):
            return None
        return number if self._is_fabric[number] else None

    def pods_of(self, link: int) -> frozenset[int]:
        """Return the numbers of the pods whose links a decision on this link counts."""
        return frozenset({int(self.graph.pod[link]), *self._domain(link).pods.tolist()})

    def refresh(self, pod: int, *lost: AbstractSet[str]) -> None:
        """Set the carrying links between switches of a pod: all links that are in none of these sets of ids.

        The cost is proportional to the smaller of the pod and each set, and to the number of links that change.
        """
        numbers = self._numbers[pod]
        current = {numbers[identity] for ids in lost for identity in numbers.keys() & ids}
        changed = np.array(list(current ^ self._lost[pod]), np.int64)
        self._lost[pod] = current
        if len(changed):
            self._removal = None
            self._carrying[changed] ^= True
            groups, places = np.unique(self._groups[changed], return_inverse=True)
            steps = np.where(self._carrying[changed], 1, -1)[:, np.newaxis]
            sums = np.bincount(places.ravel(), np.broadcast_to(steps, self._groups[changed].shape).ravel())
            for group, change in zip(groups.tolist(), sums.tolist(), strict=True):
                if group != ABSENT:
                    self._counts[group] += round(change)

    def set_dead(self, pod: int, dead: AbstractSet[str]) -> None:
        """Set the links between switches of a pod that belong to a switch that is proven dead."""
        numbers = self._numbers[pod]
        current = {numbers[link] for link in numbers.keys() & dead}
        for link in current ^ self._dead[pod]:
            self._is_dead[link] = link in current
        self._dead[pod] = current

    def surviving(self, links: Collection[int], lost: Collection[int] = ()) -> list[Surviving]:
        """Return the surviving ratio of every group of these links, without them and without the `lost` links.

        The groups of a link are its lower switch, the switches below it with a path through it, and its plane, rail and
        pod. A dead switch has no path to lose; an unobserved switch may have one.
        """
        gone = np.unique(np.fromiter((*links, *lost), np.int64))
        gone_carrying = gone[self._carrying[gone]]
        removal = self._removal
        if removal is None or removal.links != gone.tobytes():
            groups = (group for link in gone_carrying.tolist() for group in self._groups_of(link))
            removal = self._removal = _Removal(gone.tobytes(), Counter(groups), {})
        self._carrying[gone_carrying] = False
        try:
            switches = list(self._switches(links, removal.ratios))
        finally:
            self._carrying[gone_carrying] = True
        return switches + [
            Surviving(self._names[group], (self._counts[group] - removal.decrease[group]) / self._sizes[group])
            for group in dict.fromkeys(group for link in links for group in self._groups_of(link))
        ]

    def least(self, links: Collection[int], lost: Collection[int] = ()) -> Surviving:
        """Return the group of these links that survives with the lowest ratio."""
        return min(self.surviving(links, lost), key=lambda one: one.ratio)

    def below(self, links: Collection[int], floor: float, lost: Collection[int] = ()) -> set[Group]:
        """Return the groups of these links that would be below the floor."""
        return {one.group for one in self.surviving(links, lost) if one.ratio < floor - ROUNDING}

    def groups_of(self, link: int) -> set[Group]:
        """Return the groups that lose capacity if this link carries nothing."""
        domain = self._domain(link)
        switches = domain.switches[domain.affected(np.array([link], np.int64), self._is_dead)].tolist()
        return {Group(SWITCH, self.graph.names[switch]) for switch in switches} | {
            self._names[group] for group in self._groups_of(link)
        }

    def _switches(self, links: Collection[int], ratios_of: dict[int, Floats]) -> Iterator[Surviving]:
        by_domain: dict[int, list[int]] = {}
        for link in links:
            by_domain.setdefault(int(self._domain_of[link]), []).append(link)
        for number, in_domain in by_domain.items():
            domain = self._domain(in_domain[0])
            if number not in ratios_of:
                ratios_of[number] = domain.path_ratios(self._carrying)
            affected = domain.affected(np.array(in_domain, np.int64), self._is_dead)
            ratios = ratios_of[number][affected]
            for switch, ratio in zip(domain.switches[affected].tolist(), ratios.tolist(), strict=True):
                yield Surviving(Group(SWITCH, self.graph.names[switch]), ratio)

    def _domain(self, link: int) -> Domain:
        domain: Domain | None = self._domains[int(self._domain_of[link])]
        assert domain is not None  # a link between switches has a domain
        return domain

    def _groups_of(self, link: int) -> list[int]:
        return [group for group in self._groups[link].tolist() if group != ABSENT]


def _link_groups(graph: Graph, is_fabric: Mask) -> tuple[Ints, list[Group], list[int]]:
    """Return the numbers of each link's plane, rail and pod, and the name and size of each group."""
    links = np.flatnonzero(is_fabric)
    rail = np.where(graph.rail == ABSENT, _rails_of_switches(graph)[graph.lower], graph.rail)
    groups: Ints = np.full((len(graph.links), 3), ABSENT, np.int64)
    names: list[Group] = []
    sizes: list[int] = []
    for column, (kind, values) in enumerate((("plane", graph.plane), ("rail", rail), ("pod", np.zeros_like(rail)))):
        members = links[values[links] != ABSENT]
        width = int(values[members].max(initial=0)) + 1
        keys, places = np.unique(graph.pod[members] * width + values[members], return_inverse=True)
        groups[members, column] = len(names) + places
        sizes += np.bincount(places, minlength=len(keys)).tolist()
        for key in keys.tolist():
            pod, value = divmod(key, width)
            names.append(Group(kind, graph.pods[pod] if kind == "pod" else f"{value} of pod {graph.pods[pod]}"))
    return groups, names, sizes


def _rails_of_switches(graph: Graph) -> Ints:
    """Return the rail of each switch that serves hosts of one rail only; ABSENT for all others."""
    links = np.flatnonzero(graph.is_host[graph.lower])
    least = np.full(len(graph.names), np.iinfo(np.int64).max, np.int64)
    most = np.full(len(graph.names), ABSENT, np.int64)
    np.minimum.at(least, graph.upper[links], graph.rail[links])
    np.maximum.at(most, graph.upper[links], graph.rail[links])
    return np.where(least == most, most, ABSENT)


def _split(links: Ints, column: Ints, groups: int) -> list[Ints]:
    """Return the links of each group, in their order."""
    by_group = links[np.argsort(column[links], kind="stable")]
    return np.split(by_group, np.cumsum(np.bincount(column[links], minlength=groups))[:-1])


def _population(topology: Topology) -> dict[tuple[TargetKind, str | None], int]:
    """Count the links and the hosts of each pod, and of the fabric as pod None."""
    graph = topology.graph
    links = np.bincount(graph.pod, minlength=len(graph.pods)).tolist()
    hosts = Counter(topology.pod_of(device.name) for device in topology.devices.values() if device.kind == "host")
    counts: dict[tuple[TargetKind, str | None], int] = {
        (TargetKind.LINK, pod): count for pod, count in zip(graph.pods, links, strict=True)
    }
    counts |= {(TargetKind.HOST, pod): count for pod, count in hosts.items()}
    return counts | {(TargetKind.LINK, None): len(topology.links), (TargetKind.HOST, None): hosts.total()}
