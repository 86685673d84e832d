"""What the ends of links hear (LLDP, by Facts) against the inventory: told where an end hears another than it should.

Of a healthy device nothing is kept but that all its ports hear what they should, and nothing is told. What an end heard
is judged anew when the inventory changes, so that a cable that was never moved is found as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streams.detect.detectors.link_miscabled.params import MiscabledParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.lldp_verdict import LldpNeighbor, NeighborMatch
from streams.fabric.name_resolution import NameResolver
from streams.fabric.topology import Topology
from streams.wire.models import CablingReport, Facts, Source

_MOST = 1024
"""Neighbours of one device that are looked at: the largest switch has 512 ports."""


_LAST: list[tuple[Topology, NameResolver]] = []
"""The names of the newest inventory that was asked: they are some megabytes at the largest fabric."""


class UnexpectedNeighbor(NamedTuple):
    """What a port hears that is not what it should; `heard` NOTHING: the inventory has no link there."""

    heard: NeighborMatch
    device: str
    port: str


@dataclass(slots=True)
class SourceNeighbors:
    """What one source of a device said last. `expected` are the ports that hear what they should; None: all of them."""

    at_ns: int
    expected: tuple[str, ...] | None
    others: dict[str, UnexpectedNeighbor] = field(default_factory=dict)
    reported: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Port -> (its link, device, port) as it was told of last."""
    silent: bool = False


class LldpTracker:
    """The devices of one partition."""

    def __init__(self, params: MiscabledParams) -> None:
        self._params = params
        self._topology = Topology(Inventory())
        self._known: NameResolver | None = None
        self._said: dict[tuple[str, Source], SourceNeighbors] = {}
        self._moved: dict[Port, int] = {}
        self._restored: str | None = None

    def on_facts(self, facts: Facts) -> list[CablingReport]:
        """What a device says that it hears."""
        key = facts.device, facts.source
        said = self._said.get(key)
        if not (facts.neighbors or said) or facts.device not in self._topology.links_of:
            return []
        local = {name: (part.name, *part.alias) for part in facts.components for name in (part.name, *part.alias)}
        heard = [
            LldpNeighbor(self._port(facts.device, each.port, local), each.remote_device, each.remote_port)
            for each in facts.neighbors[:_MOST]
        ]
        fresh = self._judged(facts.device, facts.observed_at_ns, heard)
        if said is not None and facts.observed_at_ns < said.at_ns:
            return self._late(key, said, fresh)
        if said is not None:
            fresh.reported, fresh.silent = said.reported, said.silent
        self._said[key] = fresh
        return list(self._news(key, fresh, fresh.at_ns))

    def _port(self, device: str, said: str, local: dict[str, tuple[str, ...]]) -> str:
        """A device's own port by any of its names, as far as the inventory or the same Facts know it."""
        for name in (said, *local.get(said, ())):
            port = self._topology.resolve_port(device, name)
            if self._topology.link_at(port) is not None:
                return port.port
        return said

    def _judged(self, device: str, at_ns: int, heard: list[LldpNeighbor]) -> SourceNeighbors:
        expected: dict[str, None] = {}
        others: dict[str, UnexpectedNeighbor] = {}
        for told in heard:
            own = Port(device, told.port)
            cable = self._topology.link_at(own)
            if cable is None:
                others[told.port] = UnexpectedNeighbor(NeighborMatch.NO_NEIGHBOR, told.remote_device, told.remote_port)
                continue
            far = cable.far_end(own)
            if far == (told.remote_device, told.remote_port):
                expected[told.port] = None
                continue
            hears, meant = self._names().match_neighbor(cable, far, told)
            if hears is NeighborMatch.EXPECTED:
                expected[told.port] = None
            elif hears is NeighborMatch.UNEXPECTED or told.port not in others:
                others[told.port] = UnexpectedNeighbor(hears, *(meant or (told.remote_device, told.remote_port)))
        for port in expected:  # who hears what it should, and others beside, hears what it should
            others.pop(port, None)
        whole = len(expected) == len(self._topology.links_of[device])
        return SourceNeighbors(at_ns, None if whole else tuple(expected), others)

    def _names(self) -> NameResolver:
        """All names of the inventory, made when one is first asked for, once for all partitions of this process."""
        if self._known is None:
            if not _LAST or _LAST[0][0] is not self._topology:
                _LAST[:] = [(self._topology, NameResolver(self._topology))]
            self._known = _LAST[0][1]
        return self._known

    def _news(self, key: tuple[str, Source], said: SourceNeighbors, at_ns: int) -> Iterator[CablingReport]:
        """What differs from what was told of its ports."""
        before, said.reported, said.silent = said.reported, {}, False
        for port, other in said.others.items():
            if other.heard is not NeighborMatch.UNEXPECTED:
                continue
            said.reported[port] = (self._topology.subject_id(Port(key[0], port)), other.device, other.port)
            if before.get(port) != said.reported[port]:
                yield self._cabling(key, port, NeighborMatch.UNEXPECTED, at_ns, other)
        for port in before:
            if port not in said.reported:
                yield self._cabling(key, port, self._now(said, port), at_ns)

    def _now(self, said: SourceNeighbors, port: str) -> NeighborMatch:
        if said.expected is None or port in said.expected:
            return NeighborMatch.EXPECTED
        return said.others[port].heard if port in said.others else NeighborMatch.NO_NEIGHBOR

    def _late(self, key: tuple[str, Source], said: SourceNeighbors, late: SourceNeighbors) -> list[CablingReport]:
        """What came after something newer: it is told with what followed, so that the order decides nothing."""
        found = []
        for port, other in late.others.items():
            if other.heard is NeighborMatch.UNEXPECTED:
                found.append(self._cabling(key, port, NeighborMatch.UNEXPECTED, late.at_ns, other))
                found.append(self._cabling(key, port, self._now(said, port), said.at_ns, said.others.get(port)))
        return found

    def _cabling(
        self,
        key: tuple[str, Source],
        port: str,
        hears: NeighborMatch,
        at_ns: int,
        other: UnexpectedNeighbor | None = None,
    ) -> CablingReport:
        moved_ns = self._moved.get(Port(key[0], port), 0)
        if moved_ns and at_ns >= moved_ns + ns(self._params.moved_s):
            moved_ns = 0
        named = (other.device, other.port) if other is not None else ("", "")
        return CablingReport(key[0], port, key[1], hears, at_ns, *named, moved_ns)

    def source_silent(self, device: str, source: Source, at_ns: int) -> list[CablingReport]:
        """Who says nothing any more is no witness."""
        said = self._said.get((device, source))
        if said is None or said.silent or not said.reported:
            return []
        ports, said.reported, said.silent = list(said.reported), {}, True
        return [self._cabling((device, source), port, NeighborMatch.NO_NEIGHBOR, at_ns) for port in ports]

    def source_resumed(self, device: str, source: Source, at_ns: int) -> list[CablingReport]:
        """And who is heard again says again what it said last."""
        said = self._said.get((device, source))
        return list(self._news((device, source), said, at_ns)) if said is not None and said.silent else []

    def set_topology(self, topology: Topology, at_ns: int) -> list[CablingReport]:
        """Judge anew what was heard at the devices whose links differ."""
        old, self._topology = self._topology, topology
        restored, self._restored = self._restored, None
        if restored is not None and restored != topology.digest:
            self._said = {}  # under another inventory than this; what is heard is said again
        if restored is not None or old.links is topology.links:
            return []
        self._known = None
        told: list[CablingReport] = []
        for key, said in list(self._said.items()):
            before, after = old.links_of.get(key[0], ()), topology.links_of.get(key[0], ())
            if before == after:
                continue
            here_ns = max(at_ns, said.at_ns)
            were, are = _ends(key[0], before), _ends(key[0], after)
            self._moved |= {Port(key[0], port): here_ns for port, far in are.items() if were.get(port) != far}
            expected = were if said.expected is None else {port: were[port] for port in said.expected}
            heard = [LldpNeighbor(port, *far) for port, far in expected.items()]
            heard += [LldpNeighbor(port, other.device, other.port) for port, other in said.others.items()]
            if not after:
                del self._said[key]
                continue
            fresh = self._judged(key[0], said.at_ns, heard)
            fresh.reported, silent = said.reported, said.silent
            self._said[key] = fresh
            if not silent:
                told += self._news(key, fresh, here_ns)
            fresh.silent = silent
        horizon = at_ns - ns(self._params.moved_s)
        self._moved = {port: moved for port, moved in self._moved.items() if moved >= horizon}
        return told

    def dump(self) -> dict[str, Any]:
        """As JSON holds it."""
        said = [
            [device, int(source), own.at_ns, own.expected, _plain(own.others), own.reported, own.silent]
            for (device, source), own in self._said.items()
        ]
        return {
            "digest": self._topology.digest if self._restored is None else self._restored,
            "said": said,
            "moved": [[*port, at] for port, at in self._moved.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Fill it from what `dump` gave."""
        self._restored = str(data["digest"])
        self._moved = {Port(device, port): int(at_ns) for device, port, at_ns in data["moved"]}
        for device, source, at_ns, expected, others, told, silent in data["said"]:
            self._said[device, Source(source)] = SourceNeighbors(
                int(at_ns),
                None if expected is None else tuple(expected),
                {port: UnexpectedNeighbor(NeighborMatch(heard), *names) for port, (heard, *names) in others.items()},
                {port: (link, far, at) for port, (link, far, at) in told.items()},
                bool(silent),
            )


def _plain(others: dict[str, UnexpectedNeighbor]) -> dict[str, list[Any]]:
    return {port: [int(other.heard), other.device, other.port] for port, other in others.items()}


def _ends(device: str, cables: tuple[Any, ...]) -> dict[str, Port]:
    """The far end of each port of a device that a link ends at."""
    ends: dict[str, Port] = {}
    for cable in cables:
        for near, far in ((cable.lower, cable.upper), (cable.upper, cable.lower)):
            if near.device == device:
                ends[near.port] = far
    return ends
