"""Versions of the inventory as rows: its devices, links and jobs, once a version is whole.

A version's chunks may stand in several blocks, so whoever begins in the middle of the topic gives this builder what
came before and throws its rows away (`registry.Persisted.whole`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streams.fabric.ids import Port, link_id, tier_rank
from streams.fabric.inventory import Inventory
from streams.store.rows.native_format import Column, ObjectColumn
from streams.store.rows.row_builder import ColumnSpec, SourcedMessage, TableRows, TableSchema, origin_columns
from streams.store.rows.table_schemas import LOW_CARDINALITY, NULLABLE_TIMESTAMP, TIMESTAMP
from streams.wire.errors import Reject
from streams.wire.inventory_topic import Assembler, inventory_of
from streams.wire.models import InventoryChunk

_Table = Mapping[str, Sequence[Any]]
"""A table by its columns: of 400,000 links rows as objects are seconds and hundreds of megabytes."""


def _ns(when: datetime | None) -> int | None:
    # Whole seconds and microseconds apart: a float of today's nanoseconds is off by a hundred of them.
    return None if when is None else int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000


def _own(name: str, type_: str) -> ColumnSpec:
    return ColumnSpec(name, type_, lambda table: table[name])


def _moment(name: str, type_: str) -> ColumnSpec:
    def of(table: _Table) -> Sequence[int | None]:
        meaning = {when: _ns(when) for when in set(table[name])}
        return [meaning[when] for when in table[name]]

    return ColumnSpec(name, type_, of)


_VERSION = (_own("digest", "String"), _own("effective_at", TIMESTAMP))

DEVICES = TableSchema(
    "inventory_devices",
    (
        *_VERSION,
        *(_own(name, "String") for name in ("name", "id", "serial")),
        *(
            _own(name, LOW_CARDINALITY)
            for name in ("kind", "tier", "pod", "vendor", "model", "firmware", "site", "team")
        ),
        _own("plane", "Nullable(Int32)"),
        _own("gpus", "UInt32"),
        _moment("maintenance_until", NULLABLE_TIMESTAMP),
    ),
)

LINKS = TableSchema(
    "inventory_links",
    (
        *_VERSION,
        _own("id", "String"),
        _own("a_device", "String"),
        _own("a_port", LOW_CARDINALITY),
        _own("z_device", "String"),
        _own("z_port", LOW_CARDINALITY),
        _own("role", LOW_CARDINALITY),
        _own("rail", "Nullable(Int32)"),
        _own("plane", "Nullable(Int32)"),
        _own("pod", LOW_CARDINALITY),
        _own("speed_bps", "Nullable(UInt64)"),
    ),
)

JOBS = TableSchema(
    "inventory_jobs",
    (
        *_VERSION,
        _own("job", "String"),
        _own("device", "String"),
        _moment("start", TIMESTAMP),
        _moment("end", NULLABLE_TIMESTAMP),
    ),
)

_LINK = ("id", "a_device", "a_port", "z_device", "z_port", "role", "rail", "plane", "pod", "speed_bps")


@dataclass(frozen=True, slots=True)
class _Version:
    """A whole version: the record that made it so, and its tables."""

    taken: SourcedMessage
    tables: Mapping[TableSchema, _Table]


class InventoryBuilder:
    """Puts versions together; the rows of one come from the record that made it whole."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._stored: set[tuple[str, int]] = set()
        self._versions: list[_Version] = []

    def add(self, taken: SourcedMessage) -> int:
        chunk = taken.message
        assert isinstance(chunk, InventoryChunk)
        data = self._assembler.whole(chunk)
        if data is None or (chunk.digest, chunk.effective_ns) in self._stored:
            return 0
        tables = _tables(inventory_of(chunk.digest, data), chunk)
        self._stored.add((chunk.digest, chunk.effective_ns))
        self._versions.append(_Version(taken, tables))
        return sum(map(_height, tables.values()))

    def finish(self) -> list[TableRows]:
        versions, self._versions = self._versions, []
        out = []
        for shape in (DEVICES, LINKS, JOBS):
            # A version without such rows has not even the columns.
            some = [version for version in versions if _height(version.tables[shape])]
            tables = [version.tables[shape] for version in some]
            if tables:
                columns: list[Column] = [
                    ObjectColumn(field.name, field.type, [value for table in tables for value in field.extract(table)])
                    for field in shape.columns
                ]
                at = [version.taken for version in some]
                offsets, arrived = [taken.offset for taken in at], [taken.arrived_ms for taken in at]
                heights = [_height(table) for table in tables]
                out.append(TableRows(shape.table, columns + origin_columns(at[0].partition, offsets, arrived, heights)))
        return out


def _height(table: _Table) -> int:
    return len(table["digest"])


def _tables(own: Inventory, chunk: InventoryChunk) -> dict[TableSchema, _Table]:
    devices = {device.name: device for device in own.devices}
    tables: dict[TableSchema, Sequence[Any]] = {DEVICES: tuple(devices.values()), JOBS: own.jobs}
    found = {shape: _columns(rows[0]._fields if rows else (), rows) for shape, rows in tables.items()}
    found[LINKS] = _columns(_LINK, _links(own).values())
    for columns in found.values():
        height = len(next(iter(columns.values()), ()))
        columns["digest"], columns["effective_at"] = [chunk.digest] * height, [chunk.effective_ns] * height
    return {**found}


def _columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return dict(zip(names, zip(*rows, strict=True), strict=False))


def _links(own: Inventory) -> dict[str, tuple[Any, ...]]:
    """A row for each link, the end nearer to the hosts first, as streams.fabric.topology has them."""
    rank = {device.name: tier_rank(device.tier) for device in own.devices}
    plane_of = {device.name: device.plane for device in own.devices}
    pod_of = {device.name: device.pod or device.name for device in own.devices}
    rows = {}
    try:
        for a_device, a_port, z_device, z_port, role, rail, plane, speed_bps, _ in own.links:
            lower, upper = Port(a_device, a_port), Port(z_device, z_port)
            below = rank[a_device] - rank[z_device]
            if below > 0 or (below == 0 and upper < lower):
                lower, upper = upper, lower
            own_plane = plane_of[upper.device] if plane is None else plane
            identity = link_id(lower, upper)
            rows[identity] = (identity, *lower, *upper, role, rail, own_plane, pod_of[lower.device], speed_bps)
    except KeyError as error:
        raise Reject(f"a link of a device that the inventory does not have: {error}") from error
    return rows
