"""What hosts lose when links go: shares of capacity, rails that are down, and the paths that a switch keeps upwards.

A link up carries its share of what its lower end has upwards; a switch that lost half of its paths to the top brings
half to each port below it (CorrOpt counts the same paths; SIGCOMM 2017). So one plane of two is a loss of 50 % to each
host and no rail is down, the only plane is all of it, and one of 64 spines is 1.6 % to a pod.
Only what lies below the links that went is computed: microseconds for a cable, milliseconds for a plane of the largest
fabric.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from streams.fabric.graph import ABSENT, NO_LINKS, Floats, Graph, Ints, Mask
from streams.fabric.topology import Topology

_ROUNDING = 1e-12
"""Below this a share is what rounding left."""


class Impact(Enum):
    """How a loss stands: nobody has less, some have less, or a rail of a host has no plane left."""

    NONE = "none"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, eq=False)
class CapacityLoss:
    """What going links take from hosts, by their numbers.

    `share` is what each loses of what it was built with, `left` what it keeps of that.
    `rails_down` are pairs of a host's number and a rail that keeps no plane (or a link without a rail, as ABSENT).
    """

    graph: Graph
    host: Ints
    share: Floats
    remaining: Floats
    rails_down: Ints
    capacity: Floats
    """Of each of these hosts, in bits a second, or in links."""
    fabric_capacity: float
    links: Ints
    """The links upwards of these hosts."""
    link_loss: Floats
    """What each of them lost of what it carries in health."""

    @property
    def impact(self) -> Impact:
        """DOWN where a host's rail keeps nothing: what runs over all rails stops."""
        if len(self.rails_down):
            return Impact.DOWN
        return Impact.DEGRADED if len(self.host) else Impact.NONE

    def hosts(self, min_share: float = 0.0) -> tuple[str, ...]:
        """The hosts that lose something, and at least this share, sorted."""
        return tuple(sorted(self.graph.names[number] for number in self.host[self.share >= min_share].tolist()))

    @property
    def isolated_hosts(self) -> tuple[str, ...]:
        """The hosts that lost something and keep nothing, sorted."""
        return tuple(sorted(self.graph.names[number] for number in self.host[self.remaining <= _ROUNDING].tolist()))

    @property
    def lost_rails(self) -> tuple[tuple[str, int], ...]:
        """The hosts' rails that keep no plane, sorted."""
        return tuple(sorted((self.graph.names[host], rail) for host, rail in self.rails_down.tolist()))

    @property
    def gpus(self) -> int:
        """In the hosts that lose something."""
        return int(self.graph.gpus[self.host].sum())

    def ratio_by(self, name: Literal["rail", "plane"]) -> dict[int, float]:
        """By rail or plane, what these hosts lose of what they have there; those that lose nothing are left out."""
        of = getattr(self.graph, name)[self.links] + 1  # ABSENT is the first
        speed = self.graph.speed[self.links]
        had = np.bincount(of, speed)
        lost = np.bincount(of, speed * self.link_loss)
        return {int(n) - 1: float(lost[n] / had[n]) for n in np.flatnonzero(lost > _ROUNDING * had)}

    @property
    def affected_ratio(self) -> float:
        """The share of the capacity of these hosts."""
        total = float(self.capacity.sum())
        return float((self.share * self.capacity).sum()) / total if total else 0.0

    @property
    def fabric_ratio(self) -> float:
        """The share of the capacity of all hosts."""
        return float((self.share * self.capacity).sum()) / self.fabric_capacity if self.fabric_capacity else 0.0


def capacity_loss(graph: Graph, links: Ints, broken: Ints = NO_LINKS) -> CapacityLoss:
    """What hosts lose when these links go; what `broken` ones took already is not counted again."""
    was_there = np.ones(len(graph.links), np.bool_)
    was_there[broken] = False
    is_there = was_there.copy()
    is_there[links] = False
    before = _remaining_shares(graph, was_there, broken)
    after = _remaining_shares(graph, is_there, np.concatenate((links, broken)))
    lost = before - after
    hosts = np.flatnonzero((lost > _ROUNDING) & graph.is_host)
    above, starts, _ = _uplinks(graph, hosts)
    kept = before[graph.upper[above]] * was_there[above]
    keeps = after[graph.upper[above]] * is_there[above]
    down = _lost_rails(graph, hosts, above, starts, kept, keeps)
    capacity = np.add.reduceat(graph.speed[above], starts) if len(above) else np.zeros(0)
    return CapacityLoss(
        graph, hosts, lost[hosts], after[hosts], down, capacity, graph.host_capacity, above, kept - keeps
    )  # fmt: skip


def jobs_affected(topology: Topology, loss: CapacityLoss, at_ns: int, min_share: float = 0.0) -> tuple[str, ...]:
    """The jobs on hosts that lose at least this share, at a time, sorted."""
    return topology.jobs_on(loss.hosts(min_share), at_ns)


def uplink_paths(graph: Graph, device: str, missing: Ints = NO_LINKS) -> tuple[int, int]:
    """How many ways there are from a device to the top of the fabric without these links, and with all of them.

    A device with nothing above it is the top, with one way. Unknown devices have none of none.
    """
    number = graph.number.get(device)
    if number is None:
        return 0, 0
    cone = _with_ancestors(graph, np.array([number], np.int64))
    left, built = (np.ones(len(graph.names), np.int64) for _ in range(2))
    is_there = np.ones(len(graph.links), np.bool_)
    is_there[missing] = False
    for rank in np.unique(graph.rank[cone])[::-1]:
        devices = cone[graph.rank[cone] == rank]
        links, starts, devices = _uplinks(graph, devices)
        if len(devices):
            left[devices] = np.add.reduceat(left[graph.upper[links]] * is_there[links], starts)
            built[devices] = np.add.reduceat(built[graph.upper[links]], starts)
    return int(left[number]), int(built[number])


def devices_above(graph: Graph, devices: Iterable[str]) -> tuple[str, ...]:
    """All that lies on the ways from these devices to the top, sorted; not they themselves."""
    own = np.array([number for name in devices if (number := graph.number.get(name)) is not None], np.int64)
    return tuple(sorted(graph.names[number] for number in np.setdiff1d(_with_ancestors(graph, own), own).tolist()))


def _with_ancestors(graph: Graph, devices: Ints) -> Ints:
    """These devices and all above them."""
    found = edge = np.unique(devices)
    while len(edge):
        links = graph.uplinks_of(edge)
        edge = np.setdiff1d(graph.upper[links[graph.is_up[links]]], found)
        found = np.union1d(found, edge)
    return found


def _uplinks(graph: Graph, devices: Ints) -> tuple[Ints, Ints, Ints]:
    """The links up of devices, where those of each begin, and the devices that have any."""
    links = graph.uplinks_of(devices)
    links = links[graph.is_up[links]]
    lower = graph.lower[links]  # one device after the other
    starts = np.flatnonzero(np.diff(lower, prepend=ABSENT))
    return links, starts, lower[starts]


def _remaining_shares(graph: Graph, is_there: Mask, gone: Ints) -> Floats:
    """Of each device the share of its ways upwards that is left; computed from the top for those below what went."""
    shares = np.ones(len(graph.names))
    waiting: dict[int, list[Ints]] = {}
    _enqueue_lower_ends(graph, waiting, gone)
    while waiting:
        rank = max(waiting)
        links, starts, devices = _uplinks(graph, np.unique(np.concatenate(waiting.pop(rank))))
        speed = graph.speed[links]
        left = np.add.reduceat(speed * is_there[links] * shares[graph.upper[links]], starts)
        shares[devices] = left / np.add.reduceat(speed, starts)
        _enqueue_lower_ends(graph, waiting, graph.downlinks_of(devices))
    return shares


def _enqueue_lower_ends(graph: Graph, waiting: dict[int, list[Ints]], links: Ints) -> None:
    """Put the lower ends of links among the devices to compute, by rank: a cable touches a few of thousands."""
    lower = np.unique(graph.lower[links[graph.is_up[links]]])
    ranks = graph.rank[lower]
    for rank in np.unique(ranks).tolist():
        waiting.setdefault(rank, []).append(lower[ranks == rank])


def _lost_rails(graph: Graph, hosts: Ints, links: Ints, starts: Ints, kept: Floats, keeps: Floats) -> Ints:
    """The pairs of host and rail that kept something before and keep nothing after, by the hosts' links upwards."""
    if not len(links):
        return np.zeros((0, 2), np.int64)
    place = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(links)))
    rails = graph.rail[links]
    width = int(rails.max()) + 2  # ABSENT is the first
    cell = place * width + rails + 1
    had, has = np.bincount(cell, kept), np.bincount(cell, keeps)
    host, rail = np.divmod(np.flatnonzero((had > _ROUNDING) & (has <= _ROUNDING)), width)
    return np.stack((hosts[host], rail - 1), axis=1)
