"""Compares the LLDP neighbors of devices (from Facts) with the inventory, and reports ports with another neighbor.

For a healthy device the state is only that all its ports have the expected neighbor, and nothing is reported. Neighbors
are compared again when the inventory changes, so that a link that was miscabled from the start is also found.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streams.detect.detectors.link_miscabled import MiscabledParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.lldp_verdict import LldpNeighbor, NeighborMatch
from streams.fabric.name_resolution import NameResolver
from streams.fabric.topology import Topology
from streams.wire.models import CablingReport, Facts, Source

_MAX_NEIGHBORS = 1024
"""The most compared neighbors of a device; the largest switch has 512 ports."""

_NEWEST_NAMES: list[tuple[Topology, NameResolver]] = []
"""The used names of the newest inventory: some megabytes for the largest fabric, shared by partitions."""

_Key = tuple[str, Source]


class UnexpectedNeighbor(NamedTuple):
    """An unexpected neighbor of a port; NO_NEIGHBOR means that the inventory has no link there."""

    match: NeighborMatch
    device: str
    port: str


@dataclass(slots=True)
class SourceNeighbors:
    """The newest Facts of one source of a device. `expected` has the ports with the expected neighbor; None: all."""

    at_ns: int
    expected: tuple[str, ...] | None
    others: dict[str, UnexpectedNeighbor] = field(default_factory=dict)
    reported: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Port -> (its link, device, port) as last reported."""
    silent: bool = False


class LldpTracker:
    """The neighbors of the devices of one partition."""

    def __init__(self, params: MiscabledParams) -> None:
        self._params = params
        self._topology = Topology(Inventory())
        self._resolver: NameResolver | None = None
        self._sources: dict[_Key, SourceNeighbors] = {}
        self._moved: dict[Port, int] = {}
        self._restored: str | None = None

    def on_facts(self, facts: Facts) -> list[CablingReport]:
        key = facts.device, facts.source
        known = self._sources.get(key)
        if not (facts.neighbors or known) or facts.device not in self._topology.links_of:
            return []
        local = {name: (part.name, *part.alias) for part in facts.components for name in (part.name, *part.alias)}
        neighbors = [
            LldpNeighbor(self._port(facts.device, each.port, local), each.remote_device, each.remote_port)
            for each in facts.neighbors[:_MAX_NEIGHBORS]
        ]
        fresh = self._compared(facts.device, facts.observed_at_ns, neighbors)
        if known is not None and facts.observed_at_ns < known.at_ns:
            return self._late(key, known, fresh)
        if known is not None:
            fresh.reported, fresh.silent = known.reported, known.silent
        self._sources[key] = fresh
        return list(self._changes(key, fresh, fresh.at_ns))

    def _port(self, device: str, reported: str, local: dict[str, tuple[str, ...]]) -> str:
        """Return the inventory's name of a device's own port, found by any name in the inventory or the same Facts."""
        for name in (reported, *local.get(reported, ())):
            port = self._topology.resolve_port(device, name)
            if self._topology.table.number_at(port) is not None:
                return port.port
        return reported

    def _compared(self, device: str, at_ns: int, neighbors: list[LldpNeighbor]) -> SourceNeighbors:
        expected: dict[str, None] = {}
        others: dict[str, UnexpectedNeighbor] = {}
        for neighbor in neighbors:
            own, remote = Port(device, neighbor.port), (neighbor.remote_device, neighbor.remote_port)
            far = self._topology.table.far_end(own)
            if far == remote:
                expected[own.port] = None
                continue
            link = self._topology.link_at(own)
            if link is None or far is None:
                others[own.port] = UnexpectedNeighbor(NeighborMatch.NO_NEIGHBOR, *remote)
                continue
            match, resolved = self._names().match_neighbor(link, far, neighbor)
            if match is NeighborMatch.EXPECTED:
                expected[own.port] = None
            elif match is NeighborMatch.UNEXPECTED or own.port not in others:
                others[own.port] = UnexpectedNeighbor(match, *(resolved or remote))
        for port in expected:  # with several neighbors, the expected one decides
            others.pop(port, None)
        is_whole = len(expected) == self._topology.links_of.count(device)
        return SourceNeighbors(at_ns, None if is_whole else tuple(expected), others)

    def _names(self) -> NameResolver:
        """Return all names of the inventory, created on first use, once for all partitions of this process."""
        if self._resolver is None:
            if not _NEWEST_NAMES or _NEWEST_NAMES[0][0] is not self._topology:
                _NEWEST_NAMES[:] = [(self._topology, NameResolver(self._topology))]
            self._resolver = _NEWEST_NAMES[0][1]
        return self._resolver

    def _changes(self, key: _Key, own: SourceNeighbors, at_ns: int) -> Iterator[CablingReport]:
        """Report the differences from the last report of each port."""
        before, own.reported, own.silent = own.reported, {}, False
        for port, other in own.others.items():
            if other.match is not NeighborMatch.UNEXPECTED:
                continue
            own.reported[port] = (self._topology.subject_id(Port(key[0], port)), other.device, other.port)
            if before.get(port) != own.reported[port]:
                yield self._report(key, port, NeighborMatch.UNEXPECTED, at_ns, other)
        for port in before:
            if port not in own.reported:
                yield self._report(key, port, _match_of(own, port), at_ns)

    def _late(self, key: _Key, newest: SourceNeighbors, late: SourceNeighbors) -> list[CablingReport]:
        """Report late Facts together with the later ones, so that the order of arrival changes nothing."""
        found = []
        for port, other in late.others.items():
            if other.match is NeighborMatch.UNEXPECTED:
                found.append(self._report(key, port, NeighborMatch.UNEXPECTED, late.at_ns, other))
                match = _match_of(newest, port)
                found.append(self._report(key, port, match, newest.at_ns, newest.others.get(port)))
        return found

    def _report(
        self, key: _Key, port: str, match: NeighborMatch, at_ns: int, other: UnexpectedNeighbor | None = None
    ) -> CablingReport:
        moved_ns = self._moved.get(Port(key[0], port), 0)
        if moved_ns and at_ns >= moved_ns + ns(self._params.moved_s):
            moved_ns = 0
        remote = (other.device, other.port) if other is not None else ("", "")
        return CablingReport(key[0], port, key[1], match, at_ns, *remote, moved_ns)

    def source_silent(self, device: str, source: Source, at_ns: int) -> list[CablingReport]:
        """Withdraw the reports of a source that timed out."""
        own = self._sources.get((device, source))
        if own is None or own.silent or not own.reported:
            return []
        ports, own.reported, own.silent = list(own.reported), {}, True
        return [self._report((device, source), port, NeighborMatch.NO_NEIGHBOR, at_ns) for port in ports]

    def source_resumed(self, device: str, source: Source, at_ns: int) -> list[CablingReport]:
        """Report the last neighbors of a source again when it resumes."""
        own = self._sources.get((device, source))
        return list(self._changes((device, source), own, at_ns)) if own is not None and own.silent else []

    def set_topology(self, topology: Topology, at_ns: int) -> list[CablingReport]:
        """Compare the neighbors of devices whose links differ in another version of the inventory."""
        old, self._topology = self._topology, topology
        restored, self._restored = self._restored, None
        if restored is not None and restored != topology.digest:
            self._sources = {}  # of a former inventory; Facts are repeated
        if restored is not None or old.links is topology.links:
            return []
        self._resolver = None
        found: list[CablingReport] = []
        for key, own in list(self._sources.items()):
            before, after = old.links_of.get(key[0], ()), topology.links_of.get(key[0], ())
            if before != after:
                found += self._compare_again(key, own, (_far_ends(key[0], before), _far_ends(key[0], after)), at_ns)
        horizon = at_ns - ns(self._params.moved_s)
        self._moved = {port: moved for port, moved in self._moved.items() if moved >= horizon}
        return found

    def _compare_again(
        self, key: _Key, own: SourceNeighbors, far_ends: tuple[dict[str, Port], dict[str, Port]], at_ns: int
    ) -> list[CablingReport]:
        """Compare one source with its device's links, given their former and present far ends."""
        here_ns = max(at_ns, own.at_ns)
        were, are = far_ends
        self._moved |= {Port(key[0], port): here_ns for port, far in are.items() if were.get(port) != far}
        expected = were if own.expected is None else {port: were[port] for port in own.expected}
        neighbors = [LldpNeighbor(port, *far) for port, far in expected.items()]
        neighbors += [LldpNeighbor(port, other.device, other.port) for port, other in own.others.items()]
        if not are:
            del self._sources[key]
            return []
        fresh = self._compared(key[0], own.at_ns, neighbors)
        fresh.reported, silent = own.reported, own.silent
        self._sources[key] = fresh
        found = [] if silent else list(self._changes(key, fresh, here_ns))
        fresh.silent = silent
        return found

    def dump(self) -> dict[str, Any]:
        sources = [
            [device, int(source), own.at_ns, own.expected, _plain(own.others), own.reported, own.silent]
            for (device, source), own in self._sources.items()
        ]
        return {
            "digest": self._topology.digest if self._restored is None else self._restored,
            "sources": sources,
            "moved": [[*port, at] for port, at in self._moved.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        self._restored = str(data["digest"])
        self._moved = {Port(device, port): int(at_ns) for device, port, at_ns in data["moved"]}
        for device, source, at_ns, expected, others, reported, silent in data["sources"]:
            self._sources[device, Source(source)] = SourceNeighbors(
                int(at_ns),
                None if expected is None else tuple(expected),
                {port: UnexpectedNeighbor(NeighborMatch(match), *names) for port, (match, *names) in others.items()},
                {port: (link, far, at) for port, (link, far, at) in reported.items()},
                bool(silent),
            )


def _match_of(own: SourceNeighbors, port: str) -> NeighborMatch:
    if own.expected is None or port in own.expected:
        return NeighborMatch.EXPECTED
    return own.others[port].match if port in own.others else NeighborMatch.NO_NEIGHBOR


def _plain(others: dict[str, UnexpectedNeighbor]) -> dict[str, list[Any]]:
    return {port: [int(other.match), other.device, other.port] for port, other in others.items()}


def _far_ends(device: str, links: tuple[Any, ...]) -> dict[str, Port]:
    """Return the far end of each port of a device that has a link."""
    ends: dict[str, Port] = {}
    for link in links:
        for near, far in ((link.lower, link.upper), (link.upper, link.lower)):
            if near.device == device:
                ends[near.port] = far
    return ends
