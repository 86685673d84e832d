"""Derives a draft of the inventory from LLDP neighbors and the identities that devices report.

LLDP has who is connected with whom by which ports; draft_structure.py derives tiers, pods, planes and rails from that.
Kinds come from the sources: a host agent or a NIC reports for a host. LLDP has no speeds and no GPUs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK
from streams.locality.groups import natural_key
from streams.report.draft_structure import Doubt, Draft, DraftStructure, sorted_doubts
from streams.wire.models import Facts, Source

_HOST_SOURCES = (Source.SOURCE_HOST, Source.SOURCE_NIC)
_GPU = "gpu"


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
        structure = DraftStructure(names, hosts, edges)
        tiers = structure.tiers()
        pods, planes = structure.pods(tiers), structure.planes(tiers)
        devices = tuple(self._device(name, name in hosts, tiers, pods, planes) for name in names)
        links = tuple(_links(edges, hosts, planes, structure.rails(planes)))
        self._doubt("links", "", "speed_bps", "LLDP has no speeds")
        return Draft(Inventory(devices=devices, links=links), sorted_doubts([*self._doubts, *structure.doubts]))

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


def _links(
    edges: Iterable[tuple[Port, Port]], hosts: set[str], planes: Mapping[str, int], rails: Mapping[Port, int]
) -> Iterable[Link]:
    for a, z in edges:
        if (a.device in hosts) == (z.device in hosts):
            plane = planes.get(a.device)
            yield Link(*a, *z, "fabric-link", None, plane if plane == planes.get(z.device) else None)
        else:
            near, far = (a, z) if a.device in hosts else (z, a)
            yield Link(*near, *far, HOST_LINK, rails[near], planes.get(far.device))


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


def _last(values: Iterable[str]) -> str:
    """Return the newest value that is not blank."""
    return next((value for value in reversed(list(values)) if value), "")
