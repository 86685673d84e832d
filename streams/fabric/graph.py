"""Holds the fabric as arrays for queries over many links: ends, rail, plane, pod and role by link number.

The numbers are those of the LinkTable, so that the uplinks of a device are one range. The graph is built on first use,
once for all topologies that differ only in their jobs. An index for peers is built at the first query of its kind.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streams.fabric.ids import tier_rank
from streams.fabric.inventory_rows import Device
from streams.fabric.link_table import ABSENT, Ints, LinkTable, Mask, TopologyLink

__all__ = ["ABSENT", "NO_LINKS", "EquivalenceKey", "Floats", "Graph", "Ints", "Mask", "TopologyLink"]


Floats = NDArray[np.float64]

EquivalenceKey = Literal["role", "tier", "pod", "plane", "rail", "lower"]
"""The columns in which links may be equal; `tier` and `lower` are the tier and the name of the lower end."""

NO_LINKS: Ints = np.zeros(0, np.int64)


class Graph:
    """Columns over links (`lower`, `upper`, …) and over devices (`rank`, `is_host`, …)."""

    def __init__(self, devices: Mapping[str, Device], links: LinkTable) -> None:
        self.names = tuple(devices)
        self.number = links.number
        self._devices = tuple(devices.values())
        self.links = links
        self.first_uplink = links.first
        self.lower, self.upper, self.rail, self.plane = links.lower, links.upper, links.rail, links.plane
        self.role, self.roles, self.pod, self.pods = links.role, links.roles, links.pod, links.pods
        speeds = links.bps_of_speed
        self.speed: Floats = (speeds if speeds.all() else np.ones(len(speeds)))[links.speed]
        """Bits per second; 1 for every link if the speed of any link is unknown."""
        self.rank: Ints = np.array([tier_rank(device.tier) for device in self._devices], np.int64)
        self.is_host: Mask = np.array([device.kind == "host" for device in self._devices], np.bool_)
        self.gpus: Ints = np.array([device.gpus for device in self._devices], np.int64)
        self.is_up: Mask = (self.rank[self.upper] > self.rank[self.lower]) & ~self.is_host[self.upper]
        """True for a link to a higher tier, False for a link within a tier."""
        self._orders: dict[tuple[EquivalenceKey, ...], tuple[Ints, Ints, Ints]] = {}

    @cached_property
    def _downlinks(self) -> tuple[Ints, Ints]:
        """Return the links sorted by their upper end, and the start index of each device."""
        order = np.argsort(self.upper, kind="stable")
        return order, _starts(np.bincount(self.upper, minlength=len(self.names)))

    @cached_property
    def host_capacity(self) -> float:
        """Return the uplink capacity of all hosts."""
        return float(self.speed[self.is_up & self.is_host[self.lower]].sum())

    def number_of(self, link: TopologyLink) -> int:
        """Return the number of a link; raises ValueError if the fabric does not contain it."""
        number = self.links.number_at(link.lower)
        if number is None or self.links[number] != link:
            raise ValueError(f"not in this fabric: {link.id}")
        return number

    def numbers_of(self, links: Iterable[TopologyLink]) -> Ints:
        """Return the numbers of links, in their order."""
        return np.fromiter(map(self.number_of, links), np.int64)

    def links_at(self, links: Ints) -> tuple[TopologyLink, ...]:
        """Return the links of these numbers."""
        return tuple(map(self.links.__getitem__, links.tolist()))

    def uplinks_of(self, devices: Ints) -> Ints:
        """Return the links whose lower end is on these devices, grouped by device."""
        return concatenated_ranges(self.first_uplink[devices], self.first_uplink[devices + 1])

    def downlinks_of(self, devices: Ints) -> Ints:
        """Return the links whose upper end is on these devices."""
        order, starts = self._downlinks
        links: Ints = order[concatenated_ranges(starts[devices], starts[devices + 1])]
        return links

    def links_of(self, devices: Ints) -> Ints:
        """Return the links that end at these devices, each once."""
        return np.unique(np.concatenate((self.uplinks_of(devices), self.downlinks_of(devices))))

    def links_of_hosts(self, hosts: Iterable[str], rail: int | None = None) -> Ints:
        """Return the uplinks of these hosts, of one rail if given; unknown hosts have none."""
        known = [number for host in hosts if (number := self.number.get(host)) is not None]
        links = self.uplinks_of(np.array(known, np.int64))
        return links if rail is None else links[self.rail[links] == rail]

    def equivalent_links(self, link: int, equal_in: Collection[EquivalenceKey]) -> Ints:
        """Return the other links with equal values in these columns, in their order."""
        keys, order, ordered = self._order(tuple(sorted(set(equal_in))))
        first = int(np.searchsorted(ordered, keys[link]))
        found = order[first : int(np.searchsorted(ordered, keys[link], side="right"))]
        others: Ints = found[found != link]
        return others

    def _order(self, by: tuple[EquivalenceKey, ...]) -> tuple[Ints, Ints, Ints]:
        """Return a key for each link, equal for equal columns; the links sorted by key; and the sorted keys."""
        if by not in self._orders:
            keys = np.zeros(len(self.links), np.int64)
            for name in by:
                column = self.rank[self.lower] if name == "tier" else getattr(self, name)
                keys = keys * (int(column.max(initial=0)) + 2) + column + 1
            order = np.argsort(keys, kind="stable")
            self._orders[by] = (keys, order, keys[order])
        return self._orders[by]


def concatenated_ranges(starts: Ints, stops: Ints) -> Ints:
    """Return the concatenated numbers of all ranges from a start up to its stop."""
    lengths = stops - starts
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))


def _starts(lengths: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
