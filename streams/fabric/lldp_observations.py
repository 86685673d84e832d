"""What devices hear at their ports, link by link, merged with what the inventory says of their cables.

Both ends may speak, and several sources at each. A port that hears what it should and others beside (a DPU speaks for
itself, an entry of the time before a change has not aged out) hears what it should. Of two sources at one end the newer
holds. What is older than the caller cares for is left out when it is asked for, so that nothing here needs a clock.
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

_WEIGHT = {
    NeighborMatch.NO_NEIGHBOR: 0,
    NeighborMatch.UNKNOWN_NAME: 1,
    NeighborMatch.UNEXPECTED: 2,
    NeighborMatch.EXPECTED: 3,
}
"""Of several neighbours at one port the one that counts: what should be heard makes others bystanders."""


class _SourceNeighbors:
    """What one source says of all links; the words only where they are not those of the inventory."""

    def __init__(self, devices: int, links: int) -> None:
        self.match: States = np.zeros((2, links), np.int8)
        self.end = np.full((2, links), -1, np.int32)
        self.at_ns: Ints = np.full(devices, -1, np.int64)
        self.advertised: dict[tuple[int, int], tuple[str, str]] = {}
        self.unmatched: dict[str, tuple[LldpNeighbor, ...]] = {}


class LldpObservations:
    """What is heard at the ends of the links of one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology, self._graph = topology, topology.graph
        self.names = NameResolver(topology)
        self._sources: dict[Hashable, _SourceNeighbors] = {}

    def set_neighbors(self, device: str, source: Hashable, at_ns: int, neighbors: Iterable[Neighbor]) -> None:
        """All that a device hears by one source at a time; it replaces what was said before, unless that is newer."""
        number = self._graph.number.get(device)
        if number is None:
            return
        kept = self._sources.get(source)
        if kept is None:
            kept = self._sources[source] = _SourceNeighbors(len(self._graph.names), len(self._graph.links))
        if at_ns < kept.at_ns[number]:
            return
        self._clear_device(kept, number)
        kept.at_ns[number] = at_ns
        at: dict[str, list[Neighbor]] = {}
        for neighbor in neighbors:
            at.setdefault(self.names.resolve_port(device, neighbor.port) or neighbor.port, []).append(neighbor)
        elsewhere: list[LldpNeighbor] = []
        for port, heard in at.items():
            cable = self._topology.link_at(Port(device, port))
            if cable is None:
                elsewhere += (LldpNeighbor(port, each.remote_device, each.remote_port) for each in heard)
            else:
                self._record(kept, cable, LOWER if cable.lower == (device, port) else UPPER, heard)
        kept.unmatched[device] = tuple(elsewhere)

    def set_components(self, device: str, source: Hashable, components: Iterable[Component]) -> None:
        """Take what a device says of its parts, and hear again what was said by these names and to them."""
        number = self._graph.number.get(device)
        if number is None or not self.names.set_components(device, source, components):
            return
        at = np.array([number])
        for of, kept in self._sources.items():
            if kept.at_ns[number] >= 0:
                told = (*self._link_neighbors(kept, at), *kept.unmatched.get(device, ()))
                self.set_neighbors(device, of, int(kept.at_ns[number]), told)
            if not kept.advertised:
                continue
            for side, links in ((UPPER, self._graph.uplinks_of(at)), (LOWER, self._graph.downlinks_of(at))):
                for link in links.tolist():
                    if (said := kept.advertised.get((side, link))) is not None:
                        kept.advertised.pop((side, link))
                        self._record(kept, self._graph.links[link], side, [LldpNeighbor("", *said)])

    def _clear_device(self, kept: _SourceNeighbors, number: int) -> None:
        device = np.array([number])
        for side, links in ((LOWER, self._graph.uplinks_of(device)), (UPPER, self._graph.downlinks_of(device))):
            kept.match[side, links] = NeighborMatch.NO_NEIGHBOR
            kept.end[side, links] = -1
            if kept.advertised:
                for link in links.tolist():
                    kept.advertised.pop((side, link), None)

    def _record(self, kept: _SourceNeighbors, cable: TopologyLink, side: int, heard: Sequence[Neighbor]) -> None:
        far = cable.upper if side == LOWER else cable.lower
        said = [(*self.names.match_neighbor(cable, far, each), each) for each in heard]
        hears, meant, told = max(said, key=lambda found: _WEIGHT[found[0]]) if len(said) > 1 else said[0]
        link = self._graph.number_of(cable)
        kept.match[side, link] = hears
        if hears is NeighborMatch.EXPECTED:
            kept.end[side, link] = 2 * link + 1 - side
        else:
            kept.end[side, link] = -1 if meant is None else self._endpoint_number(meant)
            kept.advertised[side, link] = (told.remote_device, told.remote_port)

    def _endpoint_number(self, port: Port) -> int:
        cable = self._topology.link_at(port)
        assert cable is not None, "only ports of links are meant"
        return 2 * self._graph.number_of(cable) + (LOWER if cable.lower == port else UPPER)

    def link_neighbors(self, links: Ints | None = None, since_ns: int = 0) -> LinkNeighbors:
        """What is heard at both ends of these links, or of all, and was said at that time or later."""
        wanted: Ints | slice = slice(None) if links is None else links
        devices = np.stack((self._graph.lower[wanted], self._graph.upper[wanted]))
        best = LinkNeighbors(np.zeros(devices.shape, np.int8), np.full(devices.shape, -1), np.full(devices.shape, -1))
        for kept in self._sources.values():
            hears, at_ns = kept.match[:, wanted], kept.at_ns[devices]
            tells = hears >= NeighborMatch.EXPECTED
            knew = best.match >= NeighborMatch.EXPECTED
            newer = (at_ns > best.at_ns) | ((at_ns == best.at_ns) & (hears > best.match))
            better = (
                (hears > NeighborMatch.NO_NEIGHBOR)
                & (at_ns >= since_ns)
                & ((tells & ~knew) | ((tells == knew) & newer))
            )
            best.match[better] = hears[better]
            best.end[better] = kept.end[:, wanted][better]
            best.at_ns[better] = at_ns[better]
        return best

    def verdicts(self, links: Ints | None = None, since_ns: int = 0) -> States:
        """A Verdict for each of these links, or of all, by what was said at that time or later."""
        return cabling_verdicts(self.link_neighbors(links, since_ns).match)

    def verdict(self, link: TopologyLink, since_ns: int = 0) -> CablingVerdict:
        """On one link."""
        return CablingVerdict(int(self.verdicts(np.array([self._graph.number_of(link)]), since_ns)[0]))

    def contradicted(self, since_ns: int = 0) -> tuple[TopologyLink, ...]:
        """The links that are not cabled as the inventory says."""
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
        """The port that is an end of a link, by the number of that end."""
        if end < 0:
            return None
        cable = self._graph.links[end // 2]
        return cable.lower if end % 2 == LOWER else cable.upper

    def unmatched(self) -> Iterator[tuple[str, Hashable, LldpNeighbor]]:
        """What is heard at ports that no link of the inventory ends at."""
        for source, kept in self._sources.items():
            for device, told in kept.unmatched.items():
                yield from ((device, source, each) for each in told)

    def observations(self) -> Iterator[tuple[str, Hashable, int, tuple[LldpNeighbor, ...]]]:
        """All that was taken, as `take` takes it: to be kept, or to be heard under another version of the inventory."""
        for source, kept in self._sources.items():
            for number in np.flatnonzero(kept.at_ns >= 0).tolist():
                device = self._graph.names[number]
                told = tuple(self._link_neighbors(kept, np.array([number]))) + kept.unmatched.get(device, ())
                yield device, source, int(kept.at_ns[number]), told

    def _link_neighbors(self, kept: _SourceNeighbors, device: Ints) -> Iterator[LldpNeighbor]:
        for side, links in ((LOWER, self._graph.uplinks_of(device)), (UPPER, self._graph.downlinks_of(device))):
            for link in links[kept.match[side, links] > NeighborMatch.NO_NEIGHBOR].tolist():
                cable = self._graph.links[link]
                near, far = (cable.lower, cable.upper) if side == LOWER else (cable.upper, cable.lower)
                yield LldpNeighbor(near.port, *kept.advertised.get((side, link), far))

    def rebased_on(self, topology: Topology) -> "LldpObservations":
        """The same words under another version; what devices said of their parts is to be learnt anew."""
        other = LldpObservations(topology)
        for device, source, at_ns, told in self.observations():
            other.set_neighbors(device, source, at_ns, told)
        return other
