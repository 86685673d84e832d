"""Versions of the inventory as rows: its devices, links and jobs, once a version is whole.

A version's chunks may stand in several blocks, so whoever begins in the middle of the topic gives this builder what
came before and throws its rows away (`registry.Persisted.whole`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streams.store.build import Field, Rows, Shape, Taken, rows_of
from streams.store.shapes import MAYBE_TIME, TIME, WORD
from streams.wire.inventory_topic import Assembler
from streams.wire.models import InventoryChunk


@dataclass(frozen=True, slots=True)
class _Of:
    """A row's thing and the version that it belongs to."""

    digest: str
    effective_ns: int
    thing: Any


def _ns(when: datetime | None) -> int | None:
    # Whole seconds and microseconds apart: a float of today's nanoseconds is off by a hundred of them.
    return None if when is None else int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000


def _thing(name: str, type_: str, attribute: str = "") -> Field:
    return Field(name, type_, lambda row: getattr(row.thing, attribute or name))


_VERSION = (
    Field("digest", "String", lambda row: row.digest),
    Field("effective_at", TIME, lambda row: row.effective_ns),
)

DEVICES = Shape(
    "inventory_devices",
    (
        *_VERSION,
        *(_thing(name, "String") for name in ("name", "id", "serial")),
        *(_thing(name, WORD) for name in ("kind", "tier", "pod", "vendor", "model", "firmware", "site", "team")),
        _thing("plane", "Nullable(Int32)"),
        _thing("gpus", "UInt32"),
        Field("maintenance_until", MAYBE_TIME, lambda row: _ns(row.thing.maintenance_until)),
    ),
)

LINKS = Shape(
    "inventory_links",
    (
        *_VERSION,
        _thing("id", "String"),
        Field("a_device", "String", lambda row: row.thing.lower.device),
        Field("a_port", WORD, lambda row: row.thing.lower.port),
        Field("z_device", "String", lambda row: row.thing.upper.device),
        Field("z_port", WORD, lambda row: row.thing.upper.port),
        _thing("role", WORD),
        _thing("rail", "Nullable(Int32)"),
        _thing("plane", "Nullable(Int32)"),
        _thing("pod", WORD),
        _thing("speed_bps", "Nullable(UInt64)"),
    ),
)

JOBS = Shape(
    "inventory_jobs",
    (
        *_VERSION,
        _thing("job", "String"),
        _thing("device", "String"),
        Field("start", TIME, lambda row: _ns(row.thing.start)),
        Field("end", MAYBE_TIME, lambda row: _ns(row.thing.end)),
    ),
)


class InventoryBuilder:
    """Puts versions together; the rows of one come from the record that made it whole."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._stored: set[tuple[str, int]] = set()
        self._versions: list[tuple[Taken, dict[Shape, list[_Of]]]] = []

    def add(self, taken: Taken) -> int:
        chunk = taken.message
        assert isinstance(chunk, InventoryChunk)
        whole = self._assembler.add(chunk)
        if whole is None or (chunk.digest, whole[0]) in self._stored:
            return 0
        effective_ns, topology = whole
        self._stored.add((chunk.digest, effective_ns))
        kinds = (
            (DEVICES, tuple(topology.devices.values())),
            (LINKS, tuple(topology.cables.values())),
            (JOBS, topology.jobs),
        )
        rows: dict[Shape, list[_Of]] = {
            shape: [_Of(chunk.digest, effective_ns, thing) for thing in things] for shape, things in kinds
        }
        self._versions.append((taken, rows))
        return sum(map(len, rows.values()))

    def finish(self) -> list[Rows]:
        versions, self._versions = self._versions, []
        out = []
        for shape in (DEVICES, LINKS, JOBS):
            values, at = [], []
            for taken, rows in versions:
                values += [[field.get(row) for field in shape.fields] for row in rows[shape]]
                at += [taken] * len(rows[shape])
            if at:
                out.append(rows_of(shape, values, at))
        return out
