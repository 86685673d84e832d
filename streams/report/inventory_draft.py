"""Derives a draft of the inventory from neighbors (LLDP, ibnetdiscover) and the identities that devices report.

They give the links with their ports, but no speeds and no GPUs. The kind of a device follows from its sources: only a
host has a host agent or a NIC. DraftStructure derives the rest from the links: tiers from the distance to the hosts,
pods from the connected parts without the highest tier, planes from the parts of switches that only hosts connect, and
rails from the order of a host's ports by name. Every guess is a Doubt.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK
from streams.locality.groups import natural_key
from streams.report.reported_places import NicPlace, nic_places, nvlink_domains
from streams.wire.models import Facts, Source

_SEPARATOR = re.compile(r"[-_.]")
_TABLE_ORDER = {"devices": 0, "links": 1}


class Doubt(NamedTuple):
    """A guessed or missing value of the draft that a person must check; an empty row stands for the whole table."""

    table: str
    row: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft and its doubts, sorted by table and row without repetitions."""

    inventory: Inventory
    doubts: tuple[Doubt, ...]


def sorted_doubts(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """Return each doubt once, by table, row and column."""
    return tuple(sorted(set(doubts), key=lambda d: (_TABLE_ORDER[d.table], natural_key(d.row), d.column, d.reason)))


class DraftStructure:
    """Derives one column at a time; `doubts` has the guesses of the derived columns."""

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

    def pods(self, tiers: Mapping[str, str], known: Mapping[str, Device] | None = None) -> dict[str, str]:
        """Return the pods: the connected parts without the highest tier, named by their switches' common prefix.

        A known device has its known pod, and a new one the most frequent known pod of its part.
        """
        known = known or {}
        switch_tiers = sorted({tier for tier in tiers.values() if tier.startswith("T")})
        above = set() if len(switch_tiers) < 2 else {name for name in self._names if tiers[name] == switch_tiers[-1]}
        parts = _parts([name for name in self._names if name not in above], self._neighbors)
        pods: dict[str, str] = {}
        of_known = Counter[str]()
        for part, pod in zip(parts, _pod_names([sorted(part - self._hosts) for part in parts]), strict=True):
            named = Counter(known[name].pod for name in part if name in known and known[name].pod)
            chosen = named.most_common(1)[0][0] if named else pod
            of_known.update(named.keys())
            pods |= dict.fromkeys(part, chosen)
            if not named:
                row = min(part, key=natural_key)
                self._doubt("devices", row, "pod", f"links have no names of pods: {pod} is a guess")
        for pod, count in of_known.items():
            if count > 1:
                self._doubt("devices", "", "pod", f"{pod} has {count} parts without a link between them")
        return pods | {name: device.pod for name, device in known.items() if device.pod}

    def planes(self, tiers: Mapping[str, str]) -> dict[str, int]:
        """Return the plane of each switch, if only hosts connect the parts of the switches."""
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

    def rails(self, planes: Mapping[str, int | None], places: Mapping[Port, NicPlace] | None = None) -> dict[Port, int]:
        """Return the rail of each linked port of a host: by its place, else its position in its plane by name."""
        places = places or {}
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
                place = places.get(near, NicPlace())
                plane = planes.get(leaf, place.plane)
                rails[near] = seen[plane] if place.rail is None else place.rail
                seen[plane] += 1
                rails_of[leaf].add(rails[near])
        if any(places.get(near, NicPlace()).rail is None for near in rails):
            self._doubt("links", "", "rail", "rails are numbered by the order of a host's ports by name")
        for leaf, found in rails_of.items():
            if len(found) > 1 and len(rails_of) > len(set(planes.values()) or {0}):
                self._doubt("devices", leaf, "", f"it has links of rails {', '.join(map(str, sorted(found)))}")
        return rails


def _pod_names(switches: list[list[str]]) -> list[str]:
    """Return, for each pod, the shortest unique part of its switches' common prefix, else a number."""
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


_HOST_SOURCES = (Source.SOURCE_HOST, Source.SOURCE_NIC)
_GPU = "gpu"


def _is_of_host(facts: Facts) -> bool:
    """Return whether the facts are of a host: its own agent's, or those of a subnet's manager about its HCAs."""
    return facts.source in _HOST_SOURCES or (
        facts.source is Source.SOURCE_IB and any(part.kind == "nic" for part in facts.components)
    )


def draft_inventory(facts: Iterable[Facts], gpus_per_host: int = 0, known: Inventory | None = None) -> Draft:
    """Return the draft; `gpus_per_host` applies to hosts that report no GPUs.

    The draft completes the `known` inventory: its devices and links stay, with what they do not report.
    """
    return _Drafting(facts, gpus_per_host, known or Inventory()).run()


class _Drafting:
    """Builds one draft from the newest facts of each device and source, and the known inventory."""

    def __init__(self, facts: Iterable[Facts], gpus_per_host: int, known: Inventory) -> None:
        newest: dict[tuple[str, Source], Facts] = {}
        for each in facts:
            before = newest.get((each.device, each.source))
            if before is None or each.observed_at_ns >= before.observed_at_ns:
                newest[each.device, each.source] = each
        self._facts: dict[str, list[Facts]] = defaultdict(list)
        for (device, _), each in sorted(newest.items(), key=lambda item: item[1].observed_at_ns):
            self._facts[device].append(each)
        self._gpus = gpus_per_host
        self._doubts: list[Doubt] = []
        self._known = known
        self._devices = {device.name: device for device in known.devices}
        self._links = {_edge(link.a, link.z): link for link in known.links}
        self._names = {name.lower().partition(".")[0]: name for name in (*self._devices, *self._facts)}
        self._ports = {device: _port_names(found) for device, found in self._facts.items()}
        for row in known.ports:
            self._ports.setdefault(row.device, {}).setdefault(row.alias.lower(), row.port)

    def run(self) -> Draft:
        """Return the draft; each value that the known inventory has wins, except for a tier that the links show."""
        edges = self._edges()
        neighbors: dict[str, set[str]] = defaultdict(set)
        for a, z in edges:
            neighbors[a.device].add(z.device)
            neighbors[z.device].add(a.device)
        names = sorted({*self._facts, *neighbors, *self._devices}, key=natural_key)
        hosts = {name for name in names if self._is_host(name, neighbors)}
        structure = DraftStructure(names, hosts, edges)
        tiers = structure.tiers()
        pods, planes = structure.pods(tiers, self._devices), structure.planes(tiers)
        planes |= {name: device.plane for name, device in self._devices.items() if device.plane is not None}
        domains = self._domains([name for name in names if name in hosts])
        devices = tuple(
            self._device(name, name in hosts, tiers, pods, planes)._replace(domain=domains.get(name, ""))
            for name in names
        )
        places = {Port(host, port): place for host in hosts if host in self._facts
                  for port, place in nic_places(self._facts[host]).items()}  # fmt: skip
        drafted = _links(edges, hosts, planes, structure.rails(planes, places), places)
        links = tuple(self._links.get(_edge(link.a, link.z), link) for link in drafted)
        if any(link.speed_bps is None for link in links):
            self._doubt("links", "", "speed_bps", "LLDP has no speeds")
        inventory = replace(self._known, devices=devices, links=links)
        return Draft(inventory, sorted_doubts([*self._doubts, *structure.doubts]))

    def _doubt(self, table: str, row: str, column: str, reason: str) -> None:
        self._doubts.append(Doubt(table, row, column, reason))

    def _edges(self) -> list[tuple[Port, Port]]:
        """Return the links, each once; among several at one port, a link that both ends report, else the newest."""
        reported: dict[tuple[Port, Port], int] = {}
        ends: Counter[tuple[Port, Port]] = Counter()
        for device, found in self._facts.items():
            own: dict[tuple[Port, Port], int] = {}
            for facts in found:
                for neighbor in facts.neighbors:
                    near = self._port(device, neighbor.port)
                    far = self._port(self._device_name(neighbor.remote_device), neighbor.remote_port)
                    own[_edge(near, far)] = facts.observed_at_ns
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
            if ends[edge] == 1 and edge not in self._links:
                self._doubt("links", row, "", "only one end reports it")
        for (a, z), link in self._links.items():
            if a not in taken and z not in taken:
                chosen.append((a, z))
                row = f"{link.a_device}/{link.a_port} -- {link.z_device}/{link.z_port}"
                self._doubt("links", row, "", "in the known inventory only: no end reports it")
        return sorted(chosen, key=lambda e: (natural_key(e[0].device), natural_key(e[0].port)))

    def _device_name(self, name: str) -> str:
        """Return the name under which a neighbor itself reports, ignoring a domain that only one side has."""
        return name if name in self._facts else self._names.get(name.lower().partition(".")[0], name)

    def _port(self, device: str, name: str) -> Port:
        return Port(device, self._ports.get(device, {}).get(name.lower(), name))

    def _is_host(self, name: str, neighbors: Mapping[str, set[str]]) -> bool:
        if (device := self._devices.get(name)) is not None:
            return device.kind == "host"
        if (found := self._facts.get(name)) is not None:
            return any(map(_is_of_host, found))
        reporting_hosts = any(_is_of_host(each) for peer in neighbors[name] for each in self._facts.get(peer, ()))
        self._doubt("devices", name, "kind", "it reports nothing itself: a switch if a host is connected, else a host")
        return not reporting_hosts

    def _domains(self, hosts: Sequence[str]) -> dict[str, str]:
        """Return the NVLink domain of each device that has one; the known one wins."""
        known = {name: device.domain for name, device in self._devices.items() if device.domain}
        reported, doubts = nvlink_domains({name: self._facts.get(name, []) for name in hosts}, known)
        for name, reason in doubts.items():
            self._doubt("devices", name, "domain", reason)
        return reported | known

    def _device(
        self, name: str, is_host: bool, tiers: Mapping[str, str], pods: Mapping[str, str], planes: Mapping[str, int]
    ) -> Device:
        found = self._facts.get(name, [])
        known = self._devices.get(name, Device(name, "host" if is_host else "switch", tiers[name]))
        if name in self._devices and not found:
            self._doubt("devices", name, "", "it has reported nothing yet")
        if name in self._devices and tiers[name] not in ("unknown", known.tier):
            self._doubt("devices", name, "tier", f"the known inventory has {known.tier}, the links show {tiers[name]}")
        gpus = max((sum(part.kind == _GPU for part in each.components) for each in found), default=0)
        if is_host and not gpus:
            gpus = known.gpus or self._gpus
            self._doubt("devices", name, "gpus", f"it reports none: {gpus} is given" if gpus else "it reports none")
        return known._replace(
            tier=known.tier if tiers[name] == "unknown" else tiers[name],
            pod=pods.get(name, known.pod),
            plane=planes.get(name),
            vendor=_last(each.vendor for each in found) or known.vendor,
            model=_last(each.model for each in found) or known.model,
            gpus=gpus or known.gpus,
            serial=_last(each.serial for each in found) or known.serial,
            firmware=_last(each.os_version for each in found) or known.firmware,
        )


def _edge(a: Port, z: Port) -> tuple[Port, Port]:
    """Return the ends of a link in the natural order of their names."""
    low, high = sorted((a, z), key=lambda port: (natural_key(port.device), natural_key(port.port)))
    return low, high


def _links(
    edges: Iterable[tuple[Port, Port]], hosts: set[str], planes: Mapping[str, int], rails: Mapping[Port, int],
    places: Mapping[Port, NicPlace],
) -> Iterable[Link]:  # fmt: skip
    for a, z in edges:
        if (a.device in hosts) == (z.device in hosts):
            plane = planes.get(a.device)
            yield Link(*a, *z, "fabric-link", None, plane if plane == planes.get(z.device) else None)
        else:
            near, far = (a, z) if a.device in hosts else (z, a)
            yield Link(*near, *far, HOST_LINK, rails[near], planes.get(far.device, places.get(near, NicPlace()).plane))


def _port_names(found: Iterable[Facts]) -> dict[str, str]:
    """Return a mapping of all of a device's port names to their ports."""
    names: dict[str, str] = {}
    for facts in found:
        for component in facts.components:
            for name in (component.name, *component.alias):
                names.setdefault(name.lower(), component.name)
        for neighbor in facts.neighbors:
            names.setdefault(neighbor.port.lower(), neighbor.port)
    return names


def _last(values: Iterable[str]) -> str:
    """Return the newest value that is not blank."""
    return next((value for value in reversed(list(values)) if value), "")
