"""Derives a draft of the inventory from LLDP neighbors and the identities that devices report.

LLDP has who is connected with whom by which ports. Derived from that, and marked as doubtful where it is a guess:
kinds (a host agent or a NIC reports for a host), tiers by the distance from the hosts, pods (the parts that are left
without the highest tier), planes (the parts of the switches that only hosts join), and rails (the order of a host's
ports by name). LLDP has no speeds, no GPUs and no planes that begin above the leaves; those columns stay empty.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK
from streams.locality.groups import natural_key
from streams.wire.models import Facts, Source

_HOST_SOURCES = (Source.SOURCE_HOST, Source.SOURCE_NIC)
_SEPARATOR = re.compile(r"[-_.]")
_GPU = "gpu"


class Doubt(NamedTuple):
    """A value of the draft that a person must check, or that is missing; an empty row is about the whole table."""

    table: str
    row: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft and its doubts."""

    inventory: Inventory
    doubts: tuple[Doubt, ...]


def draft_inventory(facts: Iterable[Facts], gpus_per_host: int = 0) -> Draft:
    """Return the draft; `gpus_per_host` is for hosts that report none."""
    return _Drafting(facts, gpus_per_host).run()


class _Drafting:
    """One draft: the newest facts of each device and source, then what follows from them."""

    def __init__(self, facts: Iterable[Facts], gpus_per_host: int) -> None:
        newest: dict[tuple[str, Source], Facts] = {}
        for each in facts:
            known = newest.get((each.device, each.source))
            if known is None or each.observed_at_ns >= known.observed_at_ns:
                newest[each.device, each.source] = each
        self._facts: dict[str, list[Facts]] = defaultdict(list)
        for (device, _), each in sorted(newest.items(), key=lambda item: item[1].observed_at_ns):
            self._facts[device].append(each)
        self._gpus = gpus_per_host
        self._doubts: list[Doubt] = []
        self._names = {name.lower().partition(".")[0]: name for name in self._facts}
        self._ports = {device: _port_names(found) for device, found in self._facts.items()}

    def run(self) -> Draft:
        edges = self._edges()
        neighbors: dict[str, set[str]] = defaultdict(set)
        for a, z in edges:
            neighbors[a.device].add(z.device)
            neighbors[z.device].add(a.device)
        names = sorted({*self._facts, *neighbors}, key=natural_key)
        hosts = {name for name in names if self._is_host(name, neighbors)}
        tiers = self._tiers(names, hosts, neighbors)
        pods = self._pods(names, hosts, tiers, neighbors)
        planes = self._planes(hosts, names, neighbors, edges, tiers)
        devices = tuple(self._device(name, name in hosts, tiers, pods, planes) for name in names)
        links = tuple(self._links(edges, hosts, planes))
        self._doubt("links", "", "speed_bps", "LLDP has no speeds")
        order = {"devices": 0, "links": 1}
        doubts = sorted(set(self._doubts), key=lambda each: (order[each.table], natural_key(each.row), each.column))
        return Draft(Inventory(devices=devices, links=links), tuple(doubts))

    def _doubt(self, table: str, row: str, column: str, reason: str) -> None:
        self._doubts.append(Doubt(table, row, column, reason))

    def _edges(self) -> list[tuple[Port, Port]]:
        """Return the links, each once; of several at one port the one that both ends report, then the newest."""
        reported: dict[tuple[Port, Port], int] = {}
        ends: Counter[tuple[Port, Port]] = Counter()
        for device, found in self._facts.items():
            own: dict[tuple[Port, Port], int] = {}
            for facts in found:
                for neighbor in facts.neighbors:
                    near = self._port(device, neighbor.port)
                    far = self._port(self._device_name(neighbor.remote_device), neighbor.remote_port)
                    low, high = sorted((near, far), key=lambda port: (natural_key(port.device), natural_key(port.port)))
                    own[low, high] = facts.observed_at_ns
            for edge, at_ns in own.items():
                reported[edge] = max(at_ns, reported.get(edge, 0))
                ends[edge] += 1
        taken: dict[Port, tuple[Port, Port]] = {}
        chosen = []
        for edge in sorted(reported, key=lambda each: (-ends[each], -reported[each], each)):
            row = f"{edge[0].device}/{edge[0].port} -- {edge[1].device}/{edge[1].port}"
            if edge[0] in taken or edge[1] in taken:
                self._doubt("links", row, "", "left out: another neighbor is reported at one of its ports")
                continue
            taken[edge[0]] = taken[edge[1]] = edge
            chosen.append(edge)
            if ends[edge] == 1:
                self._doubt("links", row, "", "only one end reports it")
        return sorted(chosen, key=lambda e: (natural_key(e[0].device), natural_key(e[0].port)))

    def _device_name(self, name: str) -> str:
        """Return the name by which a neighbor itself reports, without the domain that only one side has."""
        return name if name in self._facts else self._names.get(name.lower().partition(".")[0], name)

    def _port(self, device: str, name: str) -> Port:
        return Port(device, self._ports.get(device, {}).get(name.lower(), name))

    def _is_host(self, name: str, neighbors: Mapping[str, set[str]]) -> bool:
        if (found := self._facts.get(name)) is not None:
            return any(each.source in _HOST_SOURCES for each in found)
        reporting_hosts = any(
            each.source in _HOST_SOURCES for peer in neighbors[name] for each in self._facts.get(peer, ())
        )
        self._doubt("devices", name, "kind", "it reports nothing itself: a switch if a host is connected, else a host")
        return not reporting_hosts

    def _tiers(self, names: list[str], hosts: set[str], neighbors: Mapping[str, set[str]]) -> dict[str, str]:
        distance = dict.fromkeys(hosts, 0)
        queue = deque(sorted(hosts, key=natural_key))
        while queue:
            name = queue.popleft()
            for peer in neighbors[name]:
                if peer not in distance:
                    distance[peer] = distance[name] + 1
                    queue.append(peer)
        for name in names:
            if name not in distance:
                self._doubt("devices", name, "tier", "no path to a host")
        return {
            name: "host" if name in hosts else f"T{distance[name] - 1}" if name in distance else "unknown"
            for name in names
        }

    def _pods(
        self, names: list[str], hosts: set[str], tiers: Mapping[str, str], neighbors: Mapping[str, set[str]]
    ) -> dict[str, str]:
        """Return the pods: the parts without the highest tier, named by what the names of their switches share."""
        switch_tiers = sorted({tier for tier in tiers.values() if tier.startswith("T")})
        above = set() if len(switch_tiers) < 2 else {name for name in names if tiers[name] == switch_tiers[-1]}
        parts = _parts([name for name in names if name not in above], neighbors)
        pods: dict[str, str] = {}
        for part, pod in zip(parts, _pod_names([sorted(part - hosts) for part in parts]), strict=True):
            pods |= dict.fromkeys(part, pod)
            self._doubt("devices", min(part, key=natural_key), "pod", f"LLDP has no names of pods: {pod} is a guess")
        return pods

    def _planes(
        self, hosts: set[str], names: list[str], neighbors: Mapping[str, set[str]], edges: list[tuple[Port, Port]],
        tiers: Mapping[str, str],
    ) -> dict[str, int]:  # fmt: skip
        """Return the plane of each switch where only hosts join the parts of the switches."""
        parts = _parts([name for name in names if name not in hosts and tiers[name] != "unknown"], neighbors)
        if len({tiers[name] for part in parts for name in part}) < 2 or len(parts) < 2:
            self._doubt("devices", "", "plane", "planes that share leaves cannot be seen by LLDP")
            return {}
        part_of = {name: number for number, part in enumerate(parts) for name in part}
        order: list[int] = []
        for a, z in edges:
            for end in (a, z):
                if end.device in part_of and part_of[end.device] not in order:
                    order.append(part_of[end.device])
        self._doubt("devices", "", "plane", "planes are the parts of the switches that only hosts join")
        return {name: order.index(number) for name, number in part_of.items() if number in order}

    def _device(
        self, name: str, is_host: bool, tiers: Mapping[str, str], pods: Mapping[str, str], planes: Mapping[str, int]
    ) -> Device:
        found = self._facts.get(name, [])
        gpus = max((sum(part.kind == _GPU for part in each.components) for each in found), default=0)
        if is_host and not gpus:
            gpus = self._gpus
            self._doubt("devices", name, "gpus", f"it reports none: {gpus} is given" if gpus else "it reports none")
        return Device(
            name, "host" if is_host else "switch", tiers[name], pods.get(name, ""), planes.get(name),
            vendor=_last(each.vendor for each in found), model=_last(each.model for each in found), gpus=gpus,
            serial=_last(each.serial for each in found), firmware=_last(each.os_version for each in found),
        )  # fmt: skip

    def _links(self, edges: list[tuple[Port, Port]], hosts: set[str], planes: Mapping[str, int]) -> Iterable[Link]:
        by_host: dict[str, list[tuple[Port, Port]]] = defaultdict(list)
        for a, z in edges:
            if (a.device in hosts) == (z.device in hosts):
                plane = planes.get(a.device)
                yield Link(*a, *z, "fabric-link", None, plane if plane == planes.get(z.device) else None)
            else:
                near, far = (a, z) if a.device in hosts else (z, a)
                by_host[near.device].append((near, far))
        rails_of: dict[str, set[int]] = defaultdict(set)
        for ends in by_host.values():
            seen: Counter[int | None] = Counter()
            for near, far in sorted(ends, key=lambda pair: natural_key(pair[0].port)):
                plane = planes.get(far.device)
                rail = seen[plane]
                seen[plane] += 1
                rails_of[far.device].add(rail)
                yield Link(*near, *far, HOST_LINK, rail, plane)
        self._doubt("links", "", "rail", "rails are numbered by the order of a host's ports by name")
        for leaf, rails in rails_of.items():
            if len(rails) > 1 and len(rails_of) > len(set(planes.values()) or {0}):
                self._doubt("devices", leaf, "", f"it has links of rails {', '.join(map(str, sorted(rails)))}")


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


def _port_names(found: Iterable[Facts]) -> dict[str, str]:
    """Return the port for each name that a device has for it."""
    names: dict[str, str] = {}
    for facts in found:
        for component in facts.components:
            for name in (component.name, *component.alias):
                names.setdefault(name.lower(), component.name)
        for neighbor in facts.neighbors:
            names.setdefault(neighbor.port.lower(), neighbor.port)
    return names


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


def _last(values: Iterable[str]) -> str:
    """Return the newest value that is not blank."""
    return next((value for value in reversed(list(values)) if value), "")
