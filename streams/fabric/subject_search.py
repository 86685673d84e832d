"""Finds the subject that a person's text names: its id in an inventory, or the names that are most similar.

Accepts every kind of subject, links with their ends in either order, ports by their aliases, any case, and a device,
pod, link or port without its kind. The commands and `decide` use this one function.
"""

import difflib
import weakref
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from streams.fabric.graph import ABSENT
from streams.fabric.ids import Port, device_id, port_id
from streams.fabric.topology import Topology

_SHOWN = 3
_NEIGHBORS = 50


@dataclass(frozen=True, slots=True)
class FoundSubject:
    """The id of a subject; empty if the inventory has none, with the ids of the nearest ones."""

    subject_id: str = ""
    nearest: tuple[str, ...] = ()


class _Names:
    """The names of one kind in an inventory."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._by_folded: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._names):
            self._by_folded[name.casefold()].append(name)
        self._sorted = sorted(self._by_folded)
        self._backward = sorted(name[::-1] for name in self._by_folded)

    def find(self, text: str) -> str | None:
        """Return the name that equals a text, or else the only one that differs just in case."""
        if text in self._names:
            return text
        names = self._by_folded.get(text.casefold(), ())
        return names[0] if len(names) == 1 else None

    def nearest(self, text: str) -> list[str]:
        """Return the most similar names; candidates share the beginning or the end, because difflib is slow."""
        folded = text.casefold()
        candidates = dict.fromkeys(_around(self._sorted, folded))
        candidates |= dict.fromkeys(name[::-1] for name in _around(self._backward, folded[::-1]))
        cutoff = 0.0 if folded.isdecimal() else 0.6  # another number of a rail or plane is no typing error
        similar = difflib.get_close_matches(folded, candidates, _SHOWN, cutoff)
        return [name for key in similar for name in self._by_folded[key]][:_SHOWN]


class _Index:
    """The names of an inventory, built at its first search."""

    def __init__(self, topology: Topology) -> None:
        graph, devices = topology.graph, topology.devices
        self.devices = _Names(devices)
        self.hosts = _Names(name for name, device in devices.items() if device.kind == "host")
        self.pods = _Names({device.pod for device in devices.values()} - {""})
        self.planes = _Names(_numbers(graph.plane) | {str(d.plane) for d in devices.values() if d.plane is not None})
        self.rails = _Names(_numbers(graph.rail))
        self.jobs = _Names({allocation.job for allocation in topology.placement.allocations})


_INDICES: "weakref.WeakKeyDictionary[Topology, _Index]" = weakref.WeakKeyDictionary()


def find_subject(topology: Topology, text: str) -> FoundSubject:
    """Return the subject that a text names."""
    if text in topology.links:
        return FoundSubject(text)
    index = _INDICES.get(topology)
    if index is None:
        index = _INDICES[topology] = _Index(topology)
    kind, colon, name = text.partition(":")
    if not colon:
        return _without_kind(topology, index, text.strip())
    search = _SEARCHES.get(kind.strip().casefold())
    return search(topology, index, name.strip()) if search is not None and name.strip() else FoundSubject()


def _without_kind(topology: Topology, index: _Index, text: str) -> FoundSubject:
    """Search a text without a kind: a link has two ends, a port a slash, another name is of a device or pod."""
    searches = [*([_link] if "--" in text else []), _device, _pod, *([_port] if "/" in text else [])]
    found = [search(topology, index, text) for search in searches] if text else []
    exact = next((one for one in found if one.subject_id), None)
    return exact or FoundSubject("", next((one.nearest for one in found if one.nearest), ()))


def _link(topology: Topology, index: _Index, name: str) -> FoundSubject:
    nearest: dict[str, None] = {}
    at = name.find("--")
    while at >= 0:  # names may contain the separator
        ports = [_port_of(topology, index, end) for end in (name[:at], name[at + 2 :])]
        links = [topology.link_at(port) for port in ports if port is not None]
        if len(links) == 2 and links[0] is not None and links[0] is links[1] and ports[0] != ports[1]:
            return FoundSubject(links[0].id)
        nearest |= dict.fromkeys(link.id for link in links if link is not None)
        at = name.find("--", at + 1)
    if not nearest:
        nearest = dict.fromkeys(_port(topology, index, name.partition("--")[0]).nearest)
    return FoundSubject("", tuple(nearest)[:_SHOWN])


def _port(topology: Topology, index: _Index, name: str) -> FoundSubject:
    if (port := _port_of(topology, index, name)) is not None and (link := topology.link_at(port)) is not None:
        return FoundSubject(link.id)
    device, _, port_name = name.partition("/")
    known = index.devices.find(device)
    if known is None:
        return _device(topology, index, device)
    similar = _ports(topology, known).nearest(port_name)
    return FoundSubject("", tuple(port_id(Port(known, one)) for one in similar) or (device_id(known),))


def _port_of(topology: Topology, index: _Index, name: str) -> Port | None:
    device, _, port_name = name.partition("/")
    known = index.devices.find(device)
    if known is None:
        return None
    port = topology.resolve_port(known, port_name)
    if topology.link_at(port) is not None:
        return port
    found = _ports(topology, known).find(port_name)
    return None if found is None else Port(known, found)


def _ports(topology: Topology, device: str) -> _Names:
    ends = (end for link in topology.links_of.get(device, ()) for end in (link.lower, link.upper))
    return _Names(end.port for end in ends if end.device == device)


def _device(_topology: Topology, index: _Index, name: str) -> FoundSubject:
    return _named("device", index.devices, name)


def _host(topology: Topology, index: _Index, name: str) -> FoundSubject:
    if (found := index.hosts.find(name)) is not None:
        return FoundSubject(device_id(found))
    other = _device(topology, index, name)
    return FoundSubject("", (other.subject_id,) if other.subject_id else other.nearest)


def _pod(_topology: Topology, index: _Index, name: str) -> FoundSubject:
    return _named("pod", index.pods, name)


def _rail(topology: Topology, index: _Index, name: str) -> FoundSubject:
    """Search a rail of all hosts, or `<host>/<rail>`."""
    host, slash, number = name.rpartition("/")
    if not slash:
        return _named("rail", index.rails, name)
    known = index.hosts.find(host)
    if known is None:
        return FoundSubject("", tuple(f"rail:{near}/{number}" for near in index.hosts.nearest(host)))
    rails = _Names({str(link.rail) for link in topology.links_of.get(known, ()) if link.rail is not None})
    return _named(f"rail:{known}", rails, number, "/")


def _named(kind: str, names: _Names, name: str, separator: str = ":") -> FoundSubject:
    found = names.find(name)
    if found is not None:
        return FoundSubject(f"{kind}{separator}{found}")
    return FoundSubject("", tuple(f"{kind}{separator}{near}" for near in names.nearest(name)))


_SEARCHES: dict[str, Callable[[Topology, _Index, str], FoundSubject]] = {
    "link": _link,
    "port": _port,
    "device": _device,
    "host": _host,
    "rail": _rail,
    "pod": _pod,
    "plane": lambda _topology, index, name: _named("plane", index.planes, name),
    "job": lambda _topology, index, name: _named("job", index.jobs, name),
}

KINDS = tuple(_SEARCHES)


def _numbers(column: "np.typing.NDArray[np.int64]") -> set[str]:
    return {str(number) for number in np.unique(column) if number != ABSENT}


def _around(names: list[str], text: str) -> list[str]:
    at = bisect_left(names, text)
    return names[max(0, at - _NEIGHBORS) : at + _NEIGHBORS]
