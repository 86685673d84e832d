"""Computes the capacity that hosts lose when links fail: shares of capacity, lost rails, and uplink paths of a switch.

An uplink carries its share of the uplink capacity of its lower end. A switch that lost half of its paths to the top
delivers half to each port below it (CorrOpt counts the same paths; SIGCOMM 2017). So the loss of one plane of two costs
each host 50 % and takes no rail down, the loss of the only plane is total, and the loss of one of 64 spines costs a pod
1.6 %. Only the devices below the failed links are computed: microseconds for a link, milliseconds for a plane of the
largest fabric.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from streams.fabric.graph import ABSENT, NO_LINKS, Floats, Graph, Ints, Mask

_ROUNDING = 1e-12
"""A share below this is a rounding error."""


class Impact(Enum):
    """The impact of a loss: no host loses capacity, some hosts do, or a rail of a host has no plane left."""

    NONE = "none"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, eq=False)
class CapacityLoss:
    """The capacity that hosts lose through failed links; hosts and links are given by number.

    `share` is the ratio of its built capacity that each host loses, `remaining` the ratio that it retains. `rails_down`
    has pairs of a host's number and a rail that retains no plane; ABSENT stands for a link without a rail.
    """

    graph: Graph
    host: Ints
    share: Floats
    remaining: Floats
    rails_down: Ints
    capacity: Floats
    """The capacity of each of these hosts, in bits per second, or in links."""
    fabric_capacity: float
    links: Ints
    """The uplinks of these hosts."""
    link_loss: Floats
    """The ratio of its healthy capacity that each uplink lost."""

    @property
    def impact(self) -> Impact:
        """Return the impact; DOWN if a rail of a host retains nothing, which stops a job that uses all rails."""
        if len(self.rails_down):
            return Impact.DOWN
        return Impact.DEGRADED if len(self.host) else Impact.NONE

    def hosts(self, min_share: float = 0.0) -> tuple[str, ...]:
        """Return the hosts that lose at least this share of their capacity, sorted."""
        return tuple(sorted(self.graph.names[number] for number in self.host[self.share >= min_share].tolist()))

    @property
    def lost_rails(self) -> tuple[tuple[str, int], ...]:
        """Return the pairs of host and rail that retain no plane, sorted."""
        return tuple(sorted((self.graph.names[host], rail) for host, rail in self.rails_down.tolist()))

    @property
    def gpus(self) -> int:
        """Return the number of GPUs in the hosts that lose capacity."""
        return int(self.graph.gpus[self.host].sum())

    def ratio_by(self, name: Literal["rail", "plane"]) -> dict[int, float]:
        """Return the ratio that these hosts lose of each rail or plane, without rails or planes that lose nothing."""
        group = getattr(self.graph, name)[self.links] + 1  # ABSENT is the first
        speed = self.graph.speed[self.links]
        had = np.bincount(group, speed)
        lost = np.bincount(group, speed * self.link_loss)
        return {int(n) - 1: float(lost[n] / had[n]) for n in np.flatnonzero(lost > _ROUNDING * had)}

    @property
    def affected_ratio(self) -> float:
        """Return the loss as a ratio of the capacity of these hosts."""
        total = float(self.capacity.sum())
        return float((self.share * self.capacity).sum()) / total if total else 0.0

    @property
    def fabric_ratio(self) -> float:
        """Return the loss as a ratio of the capacity of all hosts."""
        return float((self.share * self.capacity).sum()) / self.fabric_capacity if self.fabric_capacity else 0.0


def capacity_loss(graph: Graph, links: Ints, broken: Ints = NO_LINKS) -> CapacityLoss:
    """Return the capacity that hosts lose when these links fail, without the loss that `broken` links already cause."""
    was_there = np.ones(len(graph.links), np.bool_)
    was_there[broken] = False
    is_there = was_there.copy()
    is_there[links] = False
    before = _remaining_shares(graph, was_there, broken)
    after = _remaining_shares(graph, is_there, np.concatenate((links, broken)))
    lost = before - after
    hosts = np.flatnonzero((lost > _ROUNDING) & graph.is_host)
    uplinks, starts, _ = _uplinks(graph, hosts)
    built = before[graph.upper[uplinks]] * was_there[uplinks]
    remaining = after[graph.upper[uplinks]] * is_there[uplinks]
    down = _lost_rails(graph, hosts, uplinks, starts, built, remaining)
    capacity = np.add.reduceat(graph.speed[uplinks], starts) if len(uplinks) else np.zeros(0)
    return CapacityLoss(
        graph, hosts, lost[hosts], after[hosts], down, capacity, graph.host_capacity, uplinks, built - remaining
    )  # fmt: skip


def _uplinks(graph: Graph, devices: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the uplinks of devices, the start index of each device's uplinks, and the devices that have any."""
    links = graph.uplinks_of(devices)
    links = links[graph.is_up[links]]
    lower = graph.lower[links]  # grouped by device
    starts = np.flatnonzero(np.diff(lower, prepend=ABSENT))
    return links, starts, lower[starts]


def _remaining_shares(graph: Graph, is_there: Mask, gone: Ints) -> Floats:
    """Return the remaining uplink share of each device, computed downwards for the devices below failed links."""
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
    """Enqueue the lower ends of links for computation, by rank; a link affects few of thousands of devices."""
    lower = np.unique(graph.lower[links[graph.is_up[links]]])
    ranks = graph.rank[lower]
    for rank in np.unique(ranks).tolist():
        waiting.setdefault(rank, []).append(lower[ranks == rank])


def _lost_rails(graph: Graph, hosts: Ints, links: Ints, starts: Ints, built: Floats, remaining: Floats) -> Ints:
    """Return the pairs of host and rail that had capacity before and have none after, from the hosts' uplinks."""
    if not len(links):
        return np.zeros((0, 2), np.int64)
    place = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(links)))
    rails = graph.rail[links]
    width = int(rails.max()) + 2  # ABSENT is the first
    cell = place * width + rails + 1
    had, has = np.bincount(cell, built), np.bincount(cell, remaining)
    host, rail = np.divmod(np.flatnonzero((had > _ROUNDING) & (has <= _ROUNDING)), width)
    return np.stack((hosts[host], rail - 1), axis=1)
