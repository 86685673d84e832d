"""Holds the fabric as arrays for queries over many links: ends, rail, plane, pod and role by link number.

Links are numbered by their lower end, in the order of the table of devices, so that the uplinks of a device are one
range. The graph is built on first use, once for all topologies that differ only in their jobs: 0.3 s for the largest
fabric (`python -m tests.bench.inventory_cost`). An index for peers is built at the first query of its kind.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.fabric.ids import Port, tier_rank
from streams.fabric.inventory_rows import Device


class TopologyLink(NamedTuple):
    """A link of the topology: `lower` is the end nearer to the hosts (ties by name)."""

    id: str
    lower: Port
    upper: Port
    role: str
    rail: int | None
    plane: int | None
    pod: str
    speed_bps: int | None
    is_uplink: bool = True
    """True if the upper end is in a higher tier; False within a tier, and to a device of no tier, such as storage."""

    def far_end(self, port: Port) -> Port:
        """Return the other end."""
        return self.upper if port == self.lower else self.lower


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

EquivalenceKey = Literal["role", "tier", "pod", "plane", "rail", "lower"]
"""The columns in which links may be equal; `tier` and `lower` are the tier and the name of the lower end."""

ABSENT = -1
"""The rail or plane of a link for which the inventory specifies none."""

NO_LINKS: Ints = np.zeros(0, np.int64)


class Graph:
    """Columns over links (`lower`, `upper`, …) and over devices (`rank`, `is_host`, …)."""

    def __init__(self, devices: Mapping[str, Device], uplinks_of: Mapping[str, Sequence[TopologyLink]]) -> None:
        self.names = tuple(devices)
        self.number: dict[str, int] = {name: number for number, name in enumerate(self.names)}
        self._devices = tuple(devices.values())
        ups = [uplinks_of.get(name, ()) for name in self.names]
        self.links: tuple[TopologyLink, ...] = tuple(chain.from_iterable(ups))
        self.first_uplink = _starts(np.fromiter(map(len, ups), np.int64, len(ups)))
        _, _, uppers, roles, rails, planes, pods, speeds = (list(map(itemgetter(n), self.links)) for n in range(8))
        self.lower: Ints = np.repeat(np.arange(len(self.names)), np.diff(self.first_uplink))
        self.upper: Ints = _encoded(list(map(itemgetter(0), uppers)), self.number)
        self.role, self.roles = _distinct(roles)
        self.pod, self.pods = _distinct(pods)
        self.rail, self.plane = _numbers(rails), _numbers(planes)
        distinct = set(speeds)
        values = {speed: float(speed) if all(distinct) else 1.0 for speed in distinct}
        self.speed: Floats = np.fromiter(map(values.__getitem__, speeds), np.float64, len(speeds))
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
        """Return the number of a link; raises ValueError or KeyError if the fabric does not contain it."""
        device = self.number[link.lower.device]
        return self.links.index(link, int(self.first_uplink[device]), int(self.first_uplink[device + 1]))

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

    def links_of_hosts(self, hosts: Iterable[str], rail: int | None = None, plane: int | None = None) -> Ints:
        """Return the uplinks of these hosts, of one rail or plane if given; unknown hosts have none."""
        known = [number for host in hosts if (number := self.number.get(host)) is not None]
        links = self.uplinks_of(np.array(known, np.int64))
        selected = np.ones(len(links), np.bool_)
        if rail is not None:
            selected &= self.rail[links] == rail
        if plane is not None:
            selected &= self.plane[links] == plane
        return links[selected]

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


def _encoded(values: Sequence[Any], number: Mapping[Any, int]) -> Ints:
    return np.fromiter(map(number.__getitem__, values), np.int64, len(values))


def _distinct(values: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    names = tuple(dict.fromkeys(values))
    return _encoded(values, {name: number for number, name in enumerate(names)}), names


def _numbers(values: Sequence[int | None]) -> Ints:
    return _encoded(values, {value: ABSENT if value is None else value for value in set(values)})
