"""Computes paths to the top of the fabric within a domain: a set of switches that share links above them."""

from typing import NamedTuple

import numpy as np

from streams.fabric.graph import ABSENT, Floats, Graph, Ints, Mask


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
