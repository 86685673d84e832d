"""Compares the LLDP neighbors that devices report with the links of the inventory, link by link.

Both ends may report, and each by several sources. A port that reports the expected neighbor and others besides (a DPU
sends LLDP frames of its own, an entry from before a change has not aged out) has the expected neighbor. Of two sources
at one end the newer takes precedence. Callers pass the oldest time to consider, so that this needs no clock.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from streams.fabric.graph import Ints
from streams.fabric.ids import Port
from streams.fabric.lldp_verdict import (
    LOWER,
    UPPER,
    CablingVerdict,
    LinkNeighbors,
    LldpNeighbor,
    Neighbor,
    NeighborEvidence,
    NeighborMatch,
    States,
    cabling_verdicts,
)
from streams.fabric.name_resolution import Component, NameResolver
from streams.fabric.topology import Topology, TopologyLink

_PRIORITY = {
    NeighborMatch.NO_NEIGHBOR: 0,
    NeighborMatch.UNKNOWN_NAME: 1,
    NeighborMatch.UNEXPECTED: 2,
    NeighborMatch.EXPECTED: 3,
}
"""The neighbor that counts among several at one port: the expected one takes precedence over all others."""


class _SourceNeighbors:
    """The neighbors that one source reports for all links; stores names only where they differ from the inventory."""

    def __init__(self, devices: int, links: int) -> None:
        self.match: States = np.zeros((2, links), np.int8)
        self.end = np.full((2, links), -1, np.int32)
        self.at_ns: Ints = np.full(devices, -1, np.int64)
        self.advertised: dict[tuple[int, int], tuple[str, str]] = {}
        self.unmatched: dict[str, tuple[LldpNeighbor, ...]] = {}


class LldpObservations:
    """The reported neighbors at the ends of the links of one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology, self._graph = topology, topology.graph
        self.names = NameResolver(topology)
        self._sources: dict[Hashable, _SourceNeighbors] = {}

    def set_neighbors(self, device: str, source: Hashable, at_ns: int, neighbors: Iterable[Neighbor]) -> None:
        """Replace all neighbors that a device reports by one source, unless the stored ones are newer."""
        number = self._graph.number.get(device)
        if number is None:
            return
        state = self._sources.get(source)
        if state is None:
            state = self._sources[source] = _SourceNeighbors(len(self._graph.names), len(self._graph.links))
        if at_ns < state.at_ns[number]:
            return
        self._clear_device(state, number)
        state.at_ns[number] = at_ns
        by_port: dict[str, list[Neighbor]] = {}
        for neighbor in neighbors:
            by_port.setdefault(self.names.resolve_port(device, neighbor.port) or neighbor.port, []).append(neighbor)
        unmatched: list[LldpNeighbor] = []
        for port, reported in by_port.items():
            link = self._topology.link_at(Port(device, port))
            if link is None:
                unmatched += (LldpNeighbor(port, each.remote_device, each.remote_port) for each in reported)
            else:
                self._record(state, link, LOWER if link.lower == (device, port) else UPPER, reported)
        state.unmatched[device] = tuple(unmatched)

    def set_components(self, device: str, source: Hashable, components: Iterable[Component]) -> None:
        """Set the components that a device reports, and resolve again the neighbors that it and its peers reported."""
        number = self._graph.number.get(device)
        if number is None or not self.names.set_components(device, source, components):
            return
        devices = np.array([number])
        for source_of_neighbors, state in self._sources.items():
            if state.at_ns[number] >= 0:
                neighbors = (*self._link_neighbors(state, devices), *state.unmatched.get(device, ()))
                self.set_neighbors(device, source_of_neighbors, int(state.at_ns[number]), neighbors)
            if not state.advertised:
                continue
            for side, links in ((UPPER, self._graph.uplinks_of(devices)), (LOWER, self._graph.downlinks_of(devices))):
                for link in links.tolist():
                    if (names := state.advertised.get((side, link))) is not None:
                        state.advertised.pop((side, link))
                        self._record(state, self._graph.links[link], side, [LldpNeighbor("", *names)])

    def _clear_device(self, state: _SourceNeighbors, number: int) -> None:
        device = np.array([number])
        for side, links in ((LOWER, self._graph.uplinks_of(device)), (UPPER, self._graph.downlinks_of(device))):
            state.match[side, links] = NeighborMatch.NO_NEIGHBOR
            state.end[side, links] = -1
            if state.advertised:
                for link in links.tolist():
                    state.advertised.pop((side, link), None)

    def _record(self, state: _SourceNeighbors, link: TopologyLink, side: int, reported: Sequence[Neighbor]) -> None:
        far = link.upper if side == LOWER else link.lower
        matches = [(*self.names.match_neighbor(link, far, each), each) for each in reported]
        match, port, neighbor = max(matches, key=lambda found: _PRIORITY[found[0]]) if len(matches) > 1 else matches[0]
        number = self._graph.number_of(link)
        state.match[side, number] = match
        if match is NeighborMatch.EXPECTED:
            state.end[side, number] = 2 * number + 1 - side
        else:
            state.end[side, number] = -1 if port is None else self._endpoint_number(port)
            state.advertised[side, number] = (neighbor.remote_device, neighbor.remote_port)

    def _endpoint_number(self, port: Port) -> int:
        link = self._topology.link_at(port)
        assert link is not None, "a resolved port is always the end of a link"
        return 2 * self._graph.number_of(link) + (LOWER if link.lower == port else UPPER)

    def link_neighbors(self, links: Ints | None = None, since_ns: int = 0) -> LinkNeighbors:
        """Return the neighbors at both ends of these links, or of all, that were reported at that time or later."""
        selected: Ints | slice = slice(None) if links is None else links
        devices = np.stack((self._graph.lower[selected], self._graph.upper[selected]))
        best = LinkNeighbors(np.zeros(devices.shape, np.int8), np.full(devices.shape, -1), np.full(devices.shape, -1))
        for state in self._sources.values():
            match, at_ns = state.match[:, selected], state.at_ns[devices]
            is_conclusive = match >= NeighborMatch.EXPECTED
            was_conclusive = best.match >= NeighborMatch.EXPECTED
            newer = (at_ns > best.at_ns) | ((at_ns == best.at_ns) & (match > best.match))
            better = (
                (match > NeighborMatch.NO_NEIGHBOR)
                & (at_ns >= since_ns)
                & ((is_conclusive & ~was_conclusive) | ((is_conclusive == was_conclusive) & newer))
            )
            best.match[better] = match[better]
            best.end[better] = state.end[:, selected][better]
            best.at_ns[better] = at_ns[better]
        return best

    def verdicts(self, links: Ints | None = None, since_ns: int = 0) -> States:
        """Return a CablingVerdict for each of these links, or of all, from reports at that time or later."""
        return cabling_verdicts(self.link_neighbors(links, since_ns).match)

    def verdict(self, link: TopologyLink, since_ns: int = 0) -> CablingVerdict:
        """Return the verdict on one link."""
        return CablingVerdict(int(self.verdicts(np.array([self._graph.number_of(link)]), since_ns)[0]))

    def contradicted(self, since_ns: int = 0) -> tuple[TopologyLink, ...]:
        """Return the links whose cabling contradicts the inventory."""
        return self._graph.links_at(np.flatnonzero(self.verdicts(None, since_ns) == CablingVerdict.CONTRADICTED))

    def evidence(self, link: TopologyLink, since_ns: int = 0) -> tuple[NeighborEvidence, ...]:
        """Return the neighbors reported at either end of a link since a time, the newest first."""
        number, found = self._graph.number_of(link), []
        for source, state in self._sources.items():
            for side, (near, far) in enumerate(((link.lower, link.upper), (link.upper, link.lower))):
                match = NeighborMatch(int(state.match[side, number]))
                at_ns = int(state.at_ns[self._graph.number[near.device]])
                if match is not NeighborMatch.NO_NEIGHBOR and at_ns >= since_ns:
                    names = state.advertised.get((side, number), far)
                    resolved = self.port_of(int(state.end[side, number]))
                    found.append(NeighborEvidence(near, source, at_ns, match, names[0], names[1], resolved))
        return tuple(sorted(found, key=lambda each: (-each.at_ns, str(each.source), each.at)))

    def port_of(self, end: int) -> Port | None:
        """Return the port of an endpoint number; None for -1."""
        if end < 0:
            return None
        link = self._graph.links[end // 2]
        return link.lower if end % 2 == LOWER else link.upper

    def unmatched(self) -> Iterator[tuple[str, Hashable, LldpNeighbor]]:
        """Yield the neighbors at ports that are not the end of a link of the inventory."""
        for source, state in self._sources.items():
            for device, neighbors in state.unmatched.items():
                yield from ((device, source, each) for each in neighbors)

    def observations(self) -> Iterator[tuple[str, Hashable, int, tuple[LldpNeighbor, ...]]]:
        """Yield the arguments of `set_neighbors` for all stored neighbors, for a snapshot or another inventory."""
        for source, state in self._sources.items():
            for number in np.flatnonzero(state.at_ns >= 0).tolist():
                device = self._graph.names[number]
                on_links = tuple(self._link_neighbors(state, np.array([number])))
                yield device, source, int(state.at_ns[number]), on_links + state.unmatched.get(device, ())

    def _link_neighbors(self, state: _SourceNeighbors, device: Ints) -> Iterator[LldpNeighbor]:
        for side, links in ((LOWER, self._graph.uplinks_of(device)), (UPPER, self._graph.downlinks_of(device))):
            for number in links[state.match[side, links] > NeighborMatch.NO_NEIGHBOR].tolist():
                link = self._graph.links[number]
                near, far = (link.lower, link.upper) if side == LOWER else (link.upper, link.lower)
                yield LldpNeighbor(near.port, *state.advertised.get((side, number), far))

    def rebased_on(self, topology: Topology) -> "LldpObservations":
        """Return the same neighbors under another version; components are to be set again."""
        other = LldpObservations(topology)
        for device, source, at_ns, neighbors in self.observations():
            other.set_neighbors(device, source, at_ns, neighbors)
        return other
