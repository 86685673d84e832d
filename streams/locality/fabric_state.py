"""Applies impairments to the groups of an inventory, and computes the usable hosts and the remaining capacity.

The share of a switch towards a tier is the part of the traffic from below that its uplinks can carry there, at most 1.
It includes built oversubscription, lost uplinks, and losses further up. A host's ratio is the part of its built
capacity that reaches the tier. A change of impairments computes the whole fabric again, in milliseconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from streams.detect.detector import Placement
from streams.fabric.graph import Floats, Ints, Mask
from streams.fabric.inventory_rows import MANY_PLANES
from streams.fabric.topology import links_of_subject
from streams.locality.groups import Groups
from streams.locality.impairments import FABRIC, Impairment

MAX_ISSUES = 64
"""The limit of retained impairments per device, because a person reads only a few."""


class Usability(IntEnum):
    """The usability of a host for a job."""

    GOOD = 0
    DOUBTFUL = 1
    OUT = 2


class FabricState:
    """The state of one version of the inventory under a set of impairments."""

    def __init__(self, groups: Groups, impairments: Sequence[Impairment] = ()) -> None:
        self.groups = groups
        graph = self._graph = groups.graph
        self.impairments = tuple(impairments)
        self.alive: Mask = np.ones(len(graph.links), np.bool_)
        self.usability: Ints = np.zeros(len(graph.names), np.int64)
        """Device number -> the Usability of the host."""
        self._issues: dict[int, list[Impairment]] = defaultdict(list)
        for impairment in self.impairments:
            self._apply(impairment)
        self.alive &= ~self._ends_at(np.flatnonzero(self.usability == Usability.OUT))
        self._apply_lost_links()
        everything = np.ones(len(graph.links), np.bool_)
        self.share = tuple(self._share(place, self.alive) for place in range(len(groups.ranks)))
        """For each tier, the share of each switch towards it."""
        self.built_share = tuple(self._share(place, everything) for place in range(len(groups.ranks)))
        self.ratio = tuple(map(self._host_ratio, self.share))
        """For each tier, the share of each host's built capacity that reaches it."""

    def issues(self, device: int) -> tuple[Impairment, ...]:
        """Return the impairments of a device and its links."""
        return tuple(self._issues.get(device, ()))

    def reasons(self, host: int) -> tuple[str, ...]:
        """Return the impairments of a host as sentences, and its rails that miss some of three or more planes."""
        links = self._graph.uplinks_of(np.array([host], np.int64))
        links = links[self.groups.is_host_link[links]]
        found = [str(issue) for issue in self.issues(host)]
        for rail in np.unique(self._graph.rail[links]).tolist():
            alive = self.alive[links[self._graph.rail[links] == rail]]
            if len(alive) >= MANY_PLANES and not alive.all():
                found.append(f"rail {rail} keeps {int(alive.sum()) or 'none'} of {len(alive)} planes")
        return tuple(found)

    def _apply(self, impairment: Impairment) -> None:
        links, devices = self._affected(impairment)
        is_host = self._graph.is_host[devices]
        hosts = devices[is_host]
        for device in devices.tolist():
            self._add_issue(device, impairment)
        self.usability[hosts] = np.maximum(self.usability[hosts], impairment.effect)
        if impairment.effect is Placement.OUT:
            self.alive[links] = False
        host_links = links[self.groups.is_host_link[links]]
        if impairment.effect is Placement.OUT or not len(devices):
            below = np.setdiff1d(self._graph.lower[host_links], hosts)
            self.usability[below] = np.maximum(self.usability[below], Usability.DOUBTFUL)
            for host in below.tolist():
                self._add_issue(host, impairment)
        if not len(devices):
            for switch in np.unique(self._graph.upper[links]).tolist():
                self._add_issue(switch, impairment)

    def _affected(self, impairment: Impairment) -> tuple[Ints, Ints]:
        """Return the links and the devices of a subject; a name without a kind is a device or a pod."""
        topology, graph = self.groups.topology, self._graph
        kind, separator, name = impairment.subject_id.partition(":")
        if impairment.subject_id == FABRIC:
            return np.arange(len(graph.links)), np.arange(len(graph.names))
        if not separator:
            kind, name = ("device" if impairment.subject_id in graph.number else "pod"), impairment.subject_id
        links = links_of_subject(topology, f"{kind}:{name}")
        if kind == "device":
            number = graph.number.get(name)
            return links, np.array([] if number is None else [number], np.int64)
        if kind == "pod":
            members = [number for number, each in enumerate(topology.devices.values()) if each.pod == name != ""]
            return links, np.array(members, np.int64)
        return links, np.zeros(0, np.int64)

    def _add_issue(self, device: int, impairment: Impairment) -> None:
        issues = self._issues[device]
        if len(issues) < MAX_ISSUES:
            issues.append(impairment)

    def _ends_at(self, devices: Ints) -> Mask:
        found: Mask = np.isin(self._graph.lower, devices) | np.isin(self._graph.upper, devices)
        return found

    def _apply_lost_links(self) -> None:
        """Mark hosts with lost links; without any link of a rail, it is OUT, because a job on all rails stops."""
        graph = self._graph
        links = np.flatnonzero(self.groups.is_host_link)
        rails = graph.rail[links]
        width = int(rails.max(initial=0)) + 2  # ABSENT is the first
        cell = graph.lower[links] * width + rails + 1
        cells = len(graph.names) * width
        had, has = np.bincount(cell, minlength=cells), np.bincount(cell, self.alive[links], minlength=cells)
        lost = ((had > 0) & (has == 0)).reshape(-1, width).any(axis=1)
        self.usability[lost] = Usability.OUT

    def _share(self, place: int, alive: Mask) -> Floats:
        graph, groups = self._graph, self.groups
        count = len(graph.names)
        speed = graph.speed * alive
        share: Floats = np.ones(count)
        inside = groups.is_fabric_link | groups.is_host_link
        demand = np.bincount(graph.upper[inside], speed[inside], minlength=count)
        target = groups.ranks[place]
        up = groups.is_fabric_link & graph.is_up & (graph.rank[graph.upper] <= target)
        lower, upper, up_speed = graph.lower[up], graph.upper[up], speed[up]
        for rank in reversed(groups.ranks[:place]):
            supply = np.bincount(lower, up_speed * share[upper], minlength=count)
            here = ~graph.is_host & (graph.rank == rank)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(demand > 0, np.minimum(1.0, supply / demand), np.minimum(1.0, supply))
            share[here] = ratio[here]
        return share

    def _host_ratio(self, share: Floats) -> Floats:
        graph, count = self._graph, len(self._graph.names)
        links = np.flatnonzero(self.groups.is_host_link)
        lower, speed = graph.lower[links], graph.speed[links]
        built = np.bincount(lower, speed, minlength=count)
        now = np.bincount(lower, speed * self.alive[links] * share[graph.upper[links]], minlength=count)
        return np.divide(now, built, out=np.zeros(count), where=built > 0)

    def usable(self, worst: Usability = Usability.GOOD, without: Iterable[int] = ()) -> Ints:
        """Return the hosts in a unit with a usability of at most `worst`, except `without`."""
        hosts = self.groups.hosts
        selected = (self.usability[hosts] <= worst) & (self.groups.units.group[hosts] >= 0)
        left: Ints = np.setdiff1d(hosts[selected], np.fromiter(without, np.int64))
        return left
