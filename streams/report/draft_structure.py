"""Derives tiers, pods, planes and rails from links alone, for drafts of an inventory; what is a guess is a Doubt.

Tiers come from the distance to the hosts, pods from the parts that are left without the highest tier, planes from the
parts of the switches that only hosts join, and rails from the order of a host's ports by name. Links have no names of
pods and no planes that begin above the leaves.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.locality.groups import natural_key

_SEPARATOR = re.compile(r"[-_.]")
_TABLE_ORDER = {"devices": 0, "links": 1}


class Doubt(NamedTuple):
    """A value of the draft that a person must check, or that is missing; an empty row is about the whole table."""

    table: str
    row: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft and its doubts, each once, by table and row."""

    inventory: Inventory
    doubts: tuple[Doubt, ...]


def sorted_doubts(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """Return each doubt once, by table, row and column."""
    return tuple(sorted(set(doubts), key=lambda d: (_TABLE_ORDER[d.table], natural_key(d.row), d.column, d.reason)))


class DraftStructure:
    """Derives one column at a time; `doubts` has the guesses of the columns that were asked for."""

    def __init__(self, names: Sequence[str], hosts: AbstractSet[str], edges: Sequence[tuple[Port, Port]]) -> None:
        self.doubts: list[Doubt] = []
        self._names, self._hosts, self._edges = names, hosts, edges
        self._neighbors: dict[str, set[str]] = defaultdict(set)
        for a, z in edges:
            self._neighbors[a.device].add(z.device)
            self._neighbors[z.device].add(a.device)

    def _doubt(self, table: str, row: str, column: str, reason: str) -> None:
        self.doubts.append(Doubt(table, row, column, reason))

    def tiers(self) -> dict[str, str]:
        """Return the tier of each device by its distance from the hosts."""
        distance = dict.fromkeys(self._hosts, 0)
        queue = deque(sorted(self._hosts, key=natural_key))
        while queue:
            name = queue.popleft()
            for peer in self._neighbors[name]:
                if peer not in distance:
                    distance[peer] = distance[name] + 1
                    queue.append(peer)
        for name in self._names:
            if name not in distance:
                self._doubt("devices", name, "tier", "no path to a host")
        return {
            name: "host" if name in self._hosts else f"T{distance[name] - 1}" if name in distance else "unknown"
            for name in self._names
        }

    def pods(self, tiers: Mapping[str, str]) -> dict[str, str]:
        """Return the pods: the parts without the highest tier, named by what the names of their switches share."""
        switch_tiers = sorted({tier for tier in tiers.values() if tier.startswith("T")})
        above = set() if len(switch_tiers) < 2 else {name for name in self._names if tiers[name] == switch_tiers[-1]}
        parts = _parts([name for name in self._names if name not in above], self._neighbors)
        pods: dict[str, str] = {}
        for part, pod in zip(parts, _pod_names([sorted(part - self._hosts) for part in parts]), strict=True):
            pods |= dict.fromkeys(part, pod)
            self._doubt("devices", min(part, key=natural_key), "pod", f"links have no names of pods: {pod} is a guess")
        return pods

    def planes(self, tiers: Mapping[str, str]) -> dict[str, int]:
        """Return the plane of each switch where only hosts join the parts of the switches."""
        switches = [name for name in self._names if name not in self._hosts and tiers[name] != "unknown"]
        parts = _parts(switches, self._neighbors)
        if len({tiers[name] for part in parts for name in part}) < 2 or len(parts) < 2:
            self._doubt("devices", "", "plane", "planes that share leaves cannot be seen in the links")
            return {}
        part_of = {name: number for number, part in enumerate(parts) for name in part}
        order: list[int] = []
        for a, z in self._edges:
            for end in (a, z):
                if end.device in part_of and part_of[end.device] not in order:
                    order.append(part_of[end.device])
        self._doubt("devices", "", "plane", "planes are the parts of the switches that only hosts join")
        return {name: order.index(number) for name, number in part_of.items() if number in order}

    def rails(self, planes: Mapping[str, int | None]) -> dict[Port, int]:
        """Return the rail of each linked port of a host: the order of its ports by name, in each plane."""
        by_host: dict[str, list[tuple[Port, str]]] = defaultdict(list)
        for a, z in self._edges:
            if (a.device in self._hosts) != (z.device in self._hosts):
                near, far = (a, z) if a.device in self._hosts else (z, a)
                by_host[near.device].append((near, far.device))
        rails: dict[Port, int] = {}
        rails_of: dict[str, set[int]] = defaultdict(set)
        for ends in by_host.values():
            seen: Counter[int | None] = Counter()
            for near, leaf in sorted(ends, key=lambda pair: natural_key(pair[0].port)):
                plane = planes.get(leaf)
                rails[near] = seen[plane]
                seen[plane] += 1
                rails_of[leaf].add(rails[near])
        self._doubt("links", "", "rail", "rails are numbered by the order of a host's ports by name")
        for leaf, found in rails_of.items():
            if len(found) > 1 and len(rails_of) > len(set(planes.values()) or {0}):
                self._doubt("devices", leaf, "", f"it has links of rails {', '.join(map(str, sorted(found)))}")
        return rails


def _pod_names(switches: list[list[str]]) -> list[str]:
    """Return for each pod the shortest part of its switches' common prefix that no other pod has, else numbers."""
    starts = []
    for names in switches:
        columns = zip(*names, strict=False)
        prefix = "".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))
        starts.append([prefix[: found.start()] for found in _SEPARATOR.finditer(prefix)])
    for length in range(min(map(len, starts), default=0)):
        found = [start[length] for start in starts]
        if len(set(found)) == len(found):
            return found
    return [f"pod-{number}" for number in range(1, len(switches) + 1)]


def _parts(names: list[str], neighbors: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the connected parts of these devices, in the order of their first names."""
    left = dict.fromkeys(names)
    parts = []
    while left:
        first = next(iter(left))
        part, queue = set[str](), [first]
        while queue:
            name = queue.pop()
            if name in left:
                del left[name]
                part.add(name)
                queue += [peer for peer in neighbors[name] if peer in left]
        parts.append(part)
    return parts
