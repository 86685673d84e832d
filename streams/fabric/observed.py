"""What devices hear at their ports, link by link, merged with what the inventory says of their cables.

Both ends may speak, and several sources at each. A port that hears what it should and others beside (a DPU speaks for
itself, an entry of the time before a change has not aged out) hears what it should. Of two sources at one end the newer
holds. What is older than the caller cares for is left out when it is asked for, so that nothing here needs a clock.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from streams.fabric.graph import Ints
from streams.fabric.heard import LOWER, UPPER, Evidence, Hears, Merged, Neighbor, States, Told, Verdict, verdicts
from streams.fabric.ids import Port
from streams.fabric.spoken import Component, Names
from streams.fabric.topology import Cable, Topology

_WEIGHT = {Hears.NOTHING: 0, Hears.UNKNOWN_NAME: 1, Hears.ANOTHER: 2, Hears.EXPECTED: 3}
"""Of several neighbours at one port the one that counts: what should be heard makes others bystanders."""


class _Source:
    """What one source says of all links; the words only where they are not those of the inventory."""

    def __init__(self, devices: int, links: int) -> None:
        self.hears: States = np.zeros((2, links), np.int8)
        self.end = np.full((2, links), -1, np.int32)
        self.at_ns: Ints = np.full(devices, -1, np.int64)
        self.words: dict[tuple[int, int], tuple[str, str]] = {}
        self.elsewhere: dict[str, tuple[Told, ...]] = {}


class Observed:
    """What is heard at the ends of the links of one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology, self._graph = topology, topology.graph
        self.names = Names(topology)
        self._sources: dict[Hashable, _Source] = {}

    def take(self, device: str, source: Hashable, at_ns: int, neighbors: Iterable[Neighbor]) -> None:
        """All that a device hears by one source at a time; it replaces what was said before, unless that is newer."""
        number = self._graph.number.get(device)
        if number is None:
            return
        kept = self._sources.get(source)
        if kept is None:
            kept = self._sources[source] = _Source(len(self._graph.names), len(self._graph.cables))
        if at_ns < kept.at_ns[number]:
            return
        self._forget(kept, number)
        kept.at_ns[number] = at_ns
        at: dict[str, list[Neighbor]] = {}
        for neighbor in neighbors:
            at.setdefault(self.names.port(device, neighbor.port) or neighbor.port, []).append(neighbor)
        elsewhere: list[Told] = []
        for port, heard in at.items():
            cable = self._topology.cable_at(Port(device, port))
            if cable is None:
                elsewhere += (Told(port, each.remote_device, each.remote_port) for each in heard)
            else:
                self._hear(kept, cable, LOWER if cable.lower == (device, port) else UPPER, heard)
        kept.elsewhere[device] = tuple(elsewhere)

    def learn(self, device: str, source: Hashable, components: Iterable[Component]) -> None:
        """Take what a device says of its parts, and hear again what was said by these names and to them."""
        number = self._graph.number.get(device)
        if number is None or not self.names.learn(device, source, components):
            return
        at = np.array([number])
        for of, kept in self._sources.items():
            if kept.at_ns[number] >= 0:
                told = (*self._told(kept, at), *kept.elsewhere.get(device, ()))
                self.take(device, of, int(kept.at_ns[number]), told)
            if not kept.words:
                continue
            for side, links in ((UPPER, self._graph.above(at)), (LOWER, self._graph.below(at))):
                for link in links.tolist():
                    if (said := kept.words.get((side, link))) is not None:
                        kept.words.pop((side, link))
                        self._hear(kept, self._graph.cables[link], side, [Told("", *said)])

    def _forget(self, kept: _Source, number: int) -> None:
        device = np.array([number])
        for side, links in ((LOWER, self._graph.above(device)), (UPPER, self._graph.below(device))):
            kept.hears[side, links] = Hears.NOTHING
            kept.end[side, links] = -1
            if kept.words:
                for link in links.tolist():
                    kept.words.pop((side, link), None)

    def _hear(self, kept: _Source, cable: Cable, side: int, heard: Sequence[Neighbor]) -> None:
        far = cable.upper if side == LOWER else cable.lower
        said = [(*self.names.heard(cable, far, each), each) for each in heard]
        hears, meant, told = max(said, key=lambda found: _WEIGHT[found[0]]) if len(said) > 1 else said[0]
        link = self._graph.number_of(cable)
        kept.hears[side, link] = hears
        if hears is Hears.EXPECTED:
            kept.end[side, link] = 2 * link + 1 - side
        else:
            kept.end[side, link] = -1 if meant is None else self._end(meant)
            kept.words[side, link] = (told.remote_device, told.remote_port)

    def _end(self, port: Port) -> int:
        cable = self._topology.cable_at(port)
        assert cable is not None, "only ports of links are meant"
        return 2 * self._graph.number_of(cable) + (LOWER if cable.lower == port else UPPER)

    def merged(self, links: Ints | None = None, since_ns: int = 0) -> Merged:
        """What is heard at both ends of these links, or of all, and was said at that time or later."""
        wanted: Ints | slice = slice(None) if links is None else links
        devices = np.stack((self._graph.lower[wanted], self._graph.upper[wanted]))
        best = Merged(np.zeros(devices.shape, np.int8), np.full(devices.shape, -1), np.full(devices.shape, -1))
        for kept in self._sources.values():
            hears, at_ns = kept.hears[:, wanted], kept.at_ns[devices]
            tells = hears >= Hears.EXPECTED
            knew = best.hears >= Hears.EXPECTED
            newer = (at_ns > best.at_ns) | ((at_ns == best.at_ns) & (hears > best.hears))
            better = (hears > Hears.NOTHING) & (at_ns >= since_ns) & ((tells & ~knew) | ((tells == knew) & newer))
            best.hears[better] = hears[better]
            best.end[better] = kept.end[:, wanted][better]
            best.at_ns[better] = at_ns[better]
        return best

    def verdicts(self, links: Ints | None = None, since_ns: int = 0) -> States:
        """A Verdict for each of these links, or of all, by what was said at that time or later."""
        return verdicts(self.merged(links, since_ns).hears)

    def verdict(self, cable: Cable, since_ns: int = 0) -> Verdict:
        """On one link."""
        return Verdict(int(self.verdicts(np.array([self._graph.number_of(cable)]), since_ns)[0]))

    def contradicted(self, since_ns: int = 0) -> tuple[Cable, ...]:
        """The links that are not cabled as the inventory says."""
        return self._graph.cables_at(np.flatnonzero(self.verdicts(None, since_ns) == Verdict.CONTRADICTED))

    def evidence(self, cable: Cable, since_ns: int = 0) -> tuple[Evidence, ...]:
        """Everything that is heard at either end, the newest first."""
        link, found = self._graph.number_of(cable), []
        for source, kept in self._sources.items():
            for side, (near, far) in enumerate(((cable.lower, cable.upper), (cable.upper, cable.lower))):
                hears, at_ns = Hears(int(kept.hears[side, link])), int(kept.at_ns[self._graph.number[near.device]])
                if hears is not Hears.NOTHING and at_ns >= since_ns:
                    said, meant = kept.words.get((side, link), far), self.port_of(int(kept.end[side, link]))
                    found.append(Evidence(near, source, at_ns, hears, said[0], said[1], meant))
        return tuple(sorted(found, key=lambda each: (-each.at_ns, str(each.source), each.at)))

    def port_of(self, end: int) -> Port | None:
        """The port that is an end of a link, by the number of that end."""
        if end < 0:
            return None
        cable = self._graph.cables[end // 2]
        return cable.lower if end % 2 == LOWER else cable.upper

    def elsewhere(self) -> Iterator[tuple[str, Hashable, Told]]:
        """What is heard at ports that no link of the inventory ends at."""
        for source, kept in self._sources.items():
            for device, told in kept.elsewhere.items():
                yield from ((device, source, each) for each in told)

    def said(self) -> Iterator[tuple[str, Hashable, int, tuple[Told, ...]]]:
        """All that was taken, as `take` takes it: to be kept, or to be heard under another version of the inventory."""
        for source, kept in self._sources.items():
            for number in np.flatnonzero(kept.at_ns >= 0).tolist():
                device = self._graph.names[number]
                told = tuple(self._told(kept, np.array([number]))) + kept.elsewhere.get(device, ())
                yield device, source, int(kept.at_ns[number]), told

    def _told(self, kept: _Source, device: Ints) -> Iterator[Told]:
        for side, links in ((LOWER, self._graph.above(device)), (UPPER, self._graph.below(device))):
            for link in links[kept.hears[side, links] > Hears.NOTHING].tolist():
                cable = self._graph.cables[link]
                near, far = (cable.lower, cable.upper) if side == LOWER else (cable.upper, cable.lower)
                yield Told(near.port, *kept.words.get((side, link), far))

    def under(self, topology: Topology) -> "Observed":
        """The same words under another version; what devices said of their parts is to be learnt anew."""
        other = Observed(topology)
        for device, source, at_ns, told in self.said():
            other.take(device, source, at_ns, told)
        return other
