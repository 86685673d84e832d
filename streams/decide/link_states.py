"""Combines the states of ports at both ends of each link: which links are proven to carry traffic, and which qualify.

A link carries only if every live source reads both ends as up, and recently. Unknown, stale and administratively down
links carry nothing. A live source is as recent as the heartbeat of its shard. Memory is bounded by the inventory and by
`MAX_UNKNOWN` devices outside it, because a later version may name them and states are sent only on change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from enum import IntEnum
from itertools import chain
from operator import attrgetter
from typing import Any

import cramjam

from streams.decide.port_states_snapshot import PortStatesSnapshot, PortTables, SourcePorts
from streams.decide.qualification import EndEvidence, QualificationParams, ReadingsRun, extend, find_doubts
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.errors import Reject
from streams.wire.models import PortQuality, PortState, PortStates, ReadingsHeartbeat, Source


class Block(IntEnum):
    """The reason why an end of a link is not proven to carry traffic; the greatest of several is reported."""

    NONE = 0
    NOT_OBSERVED = 1
    STALE = 2
    DOWN = 3
    ADMIN_DOWN = 4


TEXTS: Mapping[Block, str] = {
    Block.NOT_OBSERVED: "is not observed",
    Block.STALE: "was not read lately",
    Block.DOWN: "is down",
    Block.ADMIN_DOWN: "is administratively down",
}
BLOCKS = (Block.NOT_OBSERVED, Block.NONE, Block.DOWN, Block.ADMIN_DOWN)
"""The reason for each PortState, by its number."""


ONE_SIDED, CONTRADICTORY = "one-sided evidence", "contradictory evidence"
_AGENTS = (Source.SOURCE_NIC, Source.SOURCE_HOST, Source.SOURCE_PROBE)
"""The sources of hosts' agents, all of which have one login."""

MAX_UNKNOWN = 32_768
"""The most devices outside the inventory: 1.5 times the largest fabric, whose inventory may arrive after its states.
Beyond it, the devices whose states changed longest ago are dropped."""

_RUN_NS = 86_400_000_000_000
"""Readings of a port that is no longer watched are dropped after a day."""

LinkMessage = PortStates | ReadingsHeartbeat | PortQuality


_run_fields = attrgetter(*(own.name for own in fields(ReadingsRun)))


class LinkStates:
    """The states of all links of the inventory, as of the newest messages of `measure`."""

    def __init__(
        self, fresh_s: float = 30, params: QualificationParams | None = None, *, accept_unread_hosts: bool = False
    ) -> None:
        """Begin without evidence.

        `fresh_s` is the age from which evidence is stale. With `accept_unread_hosts` the switch's end alone is enough
        for a link of a host whose ports no source ever read, because many fabrics have no collectors on hosts.
        """
        self._fresh_ns = round(fresh_s * 1e9)
        self._params = params or QualificationParams()
        self._accept_unread_hosts = accept_unread_hosts
        self._topology = Topology(Inventory())
        self._now_ns = 0
        self._sources: dict[str, dict[Source, SourcePorts]] = {}
        self._unknown: dict[str, None] = {}
        """The devices in `_sources` that the inventory does not name."""
        self._tables = PortTables()
        self._heartbeats: dict[int, int] = {}
        self._stale: set[int] = set()
        """Shards without a recent heartbeat."""
        self._runs: dict[tuple[str, Source, str], ReadingsRun] = {}
        """(device, source, the source's port name) -> its readings without a fault."""
        self._contradicted: dict[Port, int] = {}
        """Ports that live sources read as up and as down -> the newest time until which they did."""
        self._blocked: dict[str, Block] = {}
        """Links that are not proven to carry traffic."""
        self._changed: dict[str, None] = {}
        """Devices whose links must be evaluated."""
        self._changed_ports: dict[tuple[str, str], None] = {}
        """Ports whose links must be evaluated, by device and the source's port name."""
        self._snapshot = PortStatesSnapshot()

    def set_topology(self, topology: Topology) -> None:
        """Replace the version of the inventory; a version that differs only in its jobs changes nothing."""
        if topology.links is self._topology.links:
            return
        self._topology = topology
        self._drop_unknown()
        self._blocked = {}
        self._changed = dict.fromkeys(topology.links_of)

    def _drop_unknown(self) -> None:
        """Drop the oldest devices beyond the limit of devices that the inventory does not name."""
        self._unknown = {device: None for device in self._sources if device not in self._topology.devices}
        if len(self._unknown) <= MAX_UNKNOWN:
            return
        oldest = sorted(self._unknown, key=lambda device: max(own.changed_ns for own in self._sources[device].values()))
        dropped = oldest[: len(oldest) - MAX_UNKNOWN * 3 // 4]
        for device in dropped:
            del self._sources[device], self._unknown[device]
        self._snapshot.remove(dropped)
        self._runs = {key: run for key, run in self._runs.items() if key[0] in self._sources}

    def limit_time(self, limit_ns: int) -> None:
        """Return to an earlier time, so that later readings do not count as fresh for longer than others."""
        self._now_ns = min(self._now_ns, limit_ns)
        self._heartbeats = {shard: min(at_ns, limit_ns) for shard, at_ns in self._heartbeats.items()}
        self._runs = {key: run for key, run in self._runs.items() if run.end_ns <= limit_ns}

    def advance(self, now_ns: int) -> None:
        """Advance to a time; a shard whose heartbeat is older than `fresh_s` becomes stale with all its devices."""
        if now_ns // _RUN_NS > self._now_ns // _RUN_NS:
            self._runs = {key: run for key, run in self._runs.items() if now_ns - run.end_ns < _RUN_NS}
        self._now_ns = max(self._now_ns, now_ns)
        if self._contradicted:
            since_ns = self._now_ns - self._fresh_ns
            self._contradicted = {end: at_ns for end, at_ns in self._contradicted.items() if at_ns > since_ns}
        self._update_stale()

    def _update_stale(self) -> None:
        stale = {shard for shard, at_ns in self._heartbeats.items() if self._now_ns - at_ns > self._fresh_ns}
        if moved := stale ^ self._stale:
            self._stale = stale
            for device, sources in self._sources.items():
                if any(own.shard in moved for own in sources.values()):
                    self._changed[device] = None

    def update(self, message: LinkMessage) -> None:
        """Process a message of `measure`; a message that is older than the newest of its source changes nothing."""
        if isinstance(message, PortStates):
            self._on_states(message)
        elif isinstance(message, ReadingsHeartbeat):
            self._heartbeats[message.shard] = max(self._heartbeats.get(message.shard, 0), message.watermark_ns)
            self._update_stale()
        elif message.device in self._sources:
            for readings in message.readings:
                key = message.device, message.source, readings.port
                self._runs[key] = extend(self._runs.get(key), readings)

    def _on_states(self, message: PortStates) -> None:
        device, known = message.device, self._sources.get(message.device, {}).get(message.source)
        if known is not None and message.changed_ns < known.changed_ns:
            return
        if device not in self._topology.devices:
            self._unknown[device] = None
        self._date_contradictions(device)
        since_ns = dict(zip(message.changed, message.since_ns, strict=True))
        own = self._sources.setdefault(device, {})[message.source] = SourcePorts(
            message.shard, message.changed_ns, message.silent_since_ns, message.first_ns,
            *self._tables.shared(message.ports), message.states, since_ns,
        )  # fmt: skip
        if message.shard not in self._heartbeats:
            self._heartbeats[message.shard] = message.changed_ns
            self._update_stale()
        silence = (known.silent_since_ns if known is not None else 0) or own.silent_since_ns
        if known is None or silence or known.names is not own.names or known.shard != own.shard:
            self._changed[device] = None
        else:
            for name, before, now in zip(own.names, known.states, own.states, strict=True):
                if before != now:
                    self._changed_ports[device, name] = None
        self._snapshot.add(device, message.source)
        if len(self._unknown) > MAX_UNKNOWN:
            self._drop_unknown()

    @property
    def blocked(self) -> Mapping[str, Block]:
        """The links of the inventory that are not proven to carry traffic: id -> reason."""
        if self._changed or self._changed_ports:
            self._evaluate()
        return self._blocked

    def _evaluate(self) -> None:
        """Evaluate the links of the devices and ports that changed."""
        topology, changed, ports = self._topology, self._changed, self._changed_ports
        self._changed, self._changed_ports = {}, {}
        links_of, blocked = topology.links_of, self._blocked
        own = (topology.link_at(topology.resolve_port(*port)) for port in ports)
        links: Iterable[TopologyLink] = chain(
            chain.from_iterable(links_of.get(device, ()) for device in changed), filter(None, own)
        )
        if len(changed) > len(links_of) // 2:  # both ends of most links changed: evaluate each link once
            links = self._topology.table
        for link in links:
            lower, upper = self._block(link, link.lower), self._block(link, link.upper)
            if lower or upper:
                blocked[link.id] = max(lower, upper)
            elif link.id in blocked:
                del blocked[link.id]

    def carries(self, link_id: str) -> bool:
        """Return whether a link of the inventory is proven to carry traffic."""
        if self._changed or self._changed_ports:
            self._evaluate()
        return link_id not in self._blocked and link_id in self._topology.links

    def why_not(self, link_id: str) -> str:
        """Return the reason why a link is not proven to carry traffic; empty if it is proven."""
        link = self._topology.links.get(link_id)
        if link is None:
            return "the inventory does not know the link"
        return "; ".join(reason for end in (link.lower, link.upper) if (reason := self._why_not(link, end)))

    def evidence_gap(self, link_id: str) -> tuple[str, str]:
        """Return why the readings of a link are no evidence, with its end, whether or not it carries; else empty.

        Each end needs a live source; at a switch, an agent of hosts is none. Live sources that read an end as up and as
        down at once prove neither, for `fresh_s` after they agree.
        """
        link = self._topology.links.get(link_id)
        if link is None:
            return ONE_SIDED, ""
        ends = link.lower, link.upper
        for end in ends:
            live = (source for source, _, _ in self._live(end))
            if not any(link.role == HOST_LINK or source not in _AGENTS for source in live):
                return ONE_SIDED, ""
        since_ns, dated = self._now_ns - self._fresh_ns, self._contradicted
        doubted = (end for end in ends if dated.get(end, since_ns) > since_ns or self._is_contradicted(end))
        found = next(doubted, None)
        return ("", "") if found is None else (CONTRADICTORY, f"port {found.device}/{found.port}")

    def _is_contradicted(self, end: Port) -> bool:
        """Return whether live sources read a port as up and as down now."""
        return len({own.states[index] == PortState.UP for _, own, index in self._live(end)}) > 1

    def _date_contradictions(self, device: str) -> None:
        """Date the contradictions about the ports of a device that last until now, before one of its states changes."""
        sources = [own for own in self._sources.get(device, {}).values() if not own.silent_since_ns]
        if len(sources) < 2:
            return
        for name in {name for own in sources for name in own.names}:
            end = self._topology.resolve_port(device, name)
            if self._is_contradicted(end):
                self._contradicted[end] = self._now_ns

    def observed_ns(self, device: str) -> int | None:
        """Return the time until which any source read the ports of a device; None if no source ever did.

        For a host whose ends need not be read, it is the oldest such time of the switches at its links.
        """
        sources = self._sources.get(device)
        if sources is None:
            links = self._topology.links_of.get(device, ())
            if not links or not all(self._is_accepted(link, link.lower) for link in links):
                return None
            uppers = [self.observed_ns(link.upper.device) for link in links]
            return None if None in uppers else min(at_ns for at_ns in uppers if at_ns is not None)
        times = [
            own.silent_since_ns or max(self._heartbeats.get(own.shard, 0), own.changed_ns) for own in sources.values()
        ]
        return max(times)

    def doubts(self, link_id: str, after_ns: int = 0) -> list[str]:
        """Return the reasons why a link does not qualify for traffic now by readings after a time; empty if it does."""
        link = self._topology.links.get(link_id)
        if link is None:
            return ["the inventory does not know the link"]
        ends = [self._evidence(link, end) for end in (link.lower, link.upper)]
        return find_doubts(self._params, ends, self._now_ns, after_ns)

    def _evidence(self, link: TopologyLink, end: Port) -> EndEvidence:
        live = list(self._live(end))
        return EndEvidence(
            f"{end.device}/{end.port}", self._why_not(link, end),
            max((own.since_ns.get(index, own.first_ns) for _, own, index in live), default=0),
            tuple(
                run if run.bits else replace(run, bits=(link.speed_bps or 0) * (run.end_ns - run.begin_ns) / 1e9)
                for source, own, index in live
                if (run := self._runs.get((end.device, source, own.names[index]))) is not None
            ),
            not self._is_accepted(link, end),
        )  # fmt: skip

    def _why_not(self, link: TopologyLink, end: Port) -> str:
        block = self._block(link, end)
        return f"{end.device}/{end.port} {TEXTS[block]}" if block else ""

    def _block(self, link: TopologyLink, end: Port) -> Block:
        """Return the reason why an end is not proven to be up by all its live sources."""
        device, port = end
        sources = self._sources.get(device)
        if sources is None:
            return Block.NONE if self._is_accepted(link, end) else Block.NOT_OBSERVED
        found, missing = None, Block.NOT_OBSERVED
        for own in sources.values():
            index = own.ports.get(port)
            if index is None and (index := self._index_of_alias(own, end)) is None:
                continue
            if own.silent_since_ns or own.shard in self._stale:
                missing = Block.STALE
            elif state := own.states[index]:
                block = BLOCKS[state]
                found = block if found is None else max(found, block)
        return missing if found is None else found

    def _index_of_alias(self, own: SourcePorts, end: Port) -> int | None:
        """Return the index of a port for which a source uses another name than the inventory."""
        device, resolve = end.device, self._topology.resolve_port
        return next((index for name, index in own.ports.items() if resolve(device, name) == end), None)

    def _is_accepted(self, link: TopologyLink, end: Port) -> bool:
        """Return whether an end need not be read: the end of a host whose ports no source ever read."""
        is_host = link.role == HOST_LINK and end == link.lower
        return self._accept_unread_hosts and is_host and end.device not in self._sources

    def _live(self, end: Port) -> Iterator[tuple[Source, SourcePorts, int]]:
        """Yield the live sources that observe a port, each with the port's index."""
        for source, own in self._sources.get(end.device, {}).items():
            index = own.ports.get(end.port)
            if index is None and (index := self._index_of_alias(own, end)) is None:
                continue
            if not own.silent_since_ns and own.shard not in self._stale and own.states[index]:
                yield source, own, index

    def dump(self) -> dict[str, Any]:
        """Return the state for a snapshot, in JSON types."""
        return {
            "now_ns": self._now_ns, "heartbeats": list(self._heartbeats.items()),
            "contradicted": [[*end, at_ns] for end, at_ns in self._contradicted.items()],
            "runs": [[*key, *_run_fields(run)] for key, run in self._runs.items()],
            **self._snapshot.dump(self._sources),
        }  # fmt: skip

    def load(self, data: Mapping[str, Any]) -> None:
        """Restore the state that `dump` returned, before `set_topology`; raises Reject on invalid data."""
        if not data:
            return
        try:
            self._load(data)
        except (cramjam.DecompressionError, LookupError, ValueError, TypeError) as error:
            raise Reject(f"the data is not a state of links: {error}") from error

    def _load(self, data: Mapping[str, Any]) -> None:
        self._sources = self._snapshot.load(data, self._tables)
        self._heartbeats = dict(data["heartbeats"])
        self._runs = {(device, Source(source), port): ReadingsRun(*run) for device, source, port, *run in data["runs"]}
        self._contradicted = {Port(*end): at_ns for *end, at_ns in data.get("contradicted", ())}
        self._changed = dict.fromkeys(self._sources)
        self._now_ns = data["now_ns"]
        self._update_stale()
