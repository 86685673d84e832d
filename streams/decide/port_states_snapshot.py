"""Holds the newest port states of devices, writes them into snapshots, and reads them.

The states of a large fabric take megabytes, and a snapshot is written after every few records. Devices are divided into
parts. A part is compressed again only after many of its sources changed; until then these are stored beside it.
"""

import base64
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any

import cramjam
import orjson

from streams.fabric.decompression import Budget
from streams.wire.models import Source


@dataclass(slots=True)
class SourcePorts:
    """The newest PortStates of one source of a device; sources with equal ports share `ports`."""

    shard: int
    changed_ns: int
    silent_since_ns: int
    first_ns: int
    names: tuple[str, ...]
    ports: Mapping[str, int]
    states: bytes
    since_ns: dict[int, int] = field(default_factory=dict)
    """Index of a port -> its newest transition, if that is after `first_ns`."""


class PortTables:
    """Lists of port names, each stored once: most devices of a model have equal lists."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, int]]] = {}

    def shared(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, int]]:
        """Return the shared tuple of these names, and the index of each name."""
        found = self._tables.get(names)
        if found is None:
            found = self._tables[names] = names, {port: index for index, port in enumerate(names)}
        return found


_PARTS = 64
"""The number of parts in a snapshot; each has about 340 devices in the largest fabric."""

_MAX_CHANGES = 512
"""The most changed sources that a snapshot stores beside the parts; with more, their parts are written again.

In the largest fabric that takes 150 ms, 0.3 ms a change; the changes themselves take up to 3 ms a snapshot.
"""

MAX_STATES_BYTES = 256 << 20
"""The limit of all parts, decompressed; the states of the largest fabric, 786,432 ports, take about 20 MB."""

Sources = dict[str, dict[Source, SourcePorts]]


class PortStatesSnapshot:
    """The states of ports in their form for snapshots: the parts, and the sources that are newer than their part."""

    def __init__(self) -> None:
        self._parts: dict[int, list[str]] = {}
        self._outdated: set[int] = set(range(_PARTS))
        self._members: dict[int, dict[str, None]] = {}
        """Part -> its devices."""
        self._newer: dict[tuple[str, Source], None] = {}
        """Sources that changed since their part was written."""
        self._packed_newer: list[str] | None = None

    def add(self, device: str, source: Source) -> None:
        """Mark a source of a device as changed."""
        self._members.setdefault(_part_of(device), {})[device] = None
        self._newer[device, source] = None
        self._packed_newer = None

    def remove(self, devices: Iterable[str]) -> None:
        """Remove dropped devices; all parts are written again."""
        for device in devices:
            del self._members[_part_of(device)][device]
        self._outdated, self._newer, self._packed_newer = set(range(_PARTS)), {}, None

    def dump(self, sources: Sources) -> dict[str, Any]:
        """Return the states in JSON types; compresses the parts that changed."""
        if len(self._newer) > _MAX_CHANGES:
            self._outdated |= {_part_of(device) for device, _ in self._newer}
        for part in self._outdated:
            keys = ((d, source) for d in sorted(self._members.get(part, ())) for source in sorted(sources[d]))
            self._parts[part] = _pack(sources, keys)
        if self._outdated:
            self._newer = {key: None for key in self._newer if _part_of(key[0]) not in self._outdated}
            self._outdated, self._packed_newer = set(), None
        if self._packed_newer is None:
            self._packed_newer = _pack(sources, self._newer)
        return {"sources": [self._parts[part] for part in range(_PARTS)], "newer": self._packed_newer}

    def load(self, data: Mapping[str, Any], tables: PortTables) -> Sources:
        """Return the states that `dump` returned; raises ValueError above MAX_STATES_BYTES, or if a part is missing."""
        if len(data["sources"]) != _PARTS:
            raise ValueError(f"{len(data['sources'])} parts of the states of ports; {_PARTS} are expected")
        sources: Sources = {}
        budget = Budget(MAX_STATES_BYTES)
        for part, packed in enumerate(data["sources"]):
            _unpack(packed, sources, tables, budget)
            self._parts[part] = list(packed)
        self._newer = dict.fromkeys(_unpack(data["newer"], sources, tables, budget))
        self._outdated, self._packed_newer, self._members = set(), list(data["newer"]), {}
        for device in sources:
            self._members.setdefault(_part_of(device), {})[device] = None
        return sources


def _pack(sources: Sources, keys: Iterable[tuple[str, Source]]) -> list[str]:
    items = [(device, source, sources[device][source]) for device, source in keys]
    tables = {id(own.names): own.names for *_, own in items}
    numbers = {identity: number for number, identity in enumerate(tables)}
    columns = [
        [device for device, _, _ in items], [source for _, source, _ in items],
        [own.shard for *_, own in items], [own.changed_ns - own.first_ns for *_, own in items],
        [own.silent_since_ns for *_, own in items], _deltas(own.first_ns for *_, own in items),
        [numbers[id(own.names)] for *_, own in items],
        [[i, list(own.since_ns.items())] for i, (*_, own) in enumerate(items) if own.since_ns],
    ]  # fmt: skip
    states = b"".join(own.states for *_, own in items)
    return [_compressed(orjson.dumps([list(tables.values()), columns])), _compressed(states)]


def _unpack(packed: Iterable[str], sources: Sources, tables: PortTables, budget: Budget) -> list[tuple[str, Source]]:
    """Add the sources of a part to `sources`, and return them."""
    header, states = (budget.zstd(base64.b64decode(text)) for text in packed)
    names_of, columns = orjson.loads(header)
    shared = [tables.shared(tuple(ports)) for ports in names_of]
    devices, kinds, shards, changed, silent, first, numbers, since = columns
    ends = list(accumulate((len(shared[number][0]) for number in numbers), initial=0))
    owns: list[SourcePorts] = []
    for device, source, shard, later_ns, silent_ns, first_ns, number, (begin, end) in zip(
        devices, kinds, shards, changed, silent, accumulate(first), numbers, pairwise(ends), strict=True
    ):
        names, ports = shared[number]
        own = SourcePorts(shard, first_ns + later_ns, silent_ns, first_ns, names, ports, states[begin:end])
        sources.setdefault(device, {})[Source(source)] = own
        owns.append(own)
    for index, items in since:
        owns[index].since_ns = dict(items)
    return [(device, Source(source)) for device, source in zip(devices, kinds, strict=True)]


def _part_of(device: str) -> int:
    return zlib.crc32(device.encode()) % _PARTS


def _deltas(times: Iterable[int]) -> list[int]:
    """Return the first number and then the differences between neighbors, which compress better."""
    ordered = list(times)
    return [after - before for before, after in pairwise(chain((0,), ordered))]


def _compressed(data: bytes) -> str:
    return base64.b64encode(bytes(cramjam.zstd.compress(data, 3))).decode()
