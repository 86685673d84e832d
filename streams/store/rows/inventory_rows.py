"""Builds the rows of complete inventory versions: their devices, links and jobs.

The chunks of a version may span several blocks, so a sink that starts in the middle of the topic first passes the
earlier chunks to this builder and discards their rows (`PersistedTopic.from_beginning`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from streams.fabric.inventory import Device, Inventory
from streams.fabric.link_table import LinkTable
from streams.store.rows.native_format import LOW_CARDINALITY, TIMESTAMP_NS, Column, ObjectColumn
from streams.store.rows.row_builder import ColumnSpec, SourcedMessage, TableRows, TableSchema, message_origin_columns
from streams.store.rows.table_schemas import NULLABLE_TIMESTAMP
from streams.wire.errors import Reject
from streams.wire.inventory_topic import Assembler, inventory_of
from streams.wire.models import InventoryChunk

_Table = Mapping[str, Sequence[Any]]
"""A table by columns, because 400,000 links as row objects would take seconds and hundreds of megabytes."""


def _ns(when: datetime | None) -> int | None:
    # Converts seconds and microseconds separately, because a float of Unix nanoseconds has an error of a hundred.
    return None if when is None else int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000


def _columns(type_: str, *names: str) -> tuple[ColumnSpec, ...]:
    """Return columns of one type, each with the values of a column of the table."""
    return tuple(ColumnSpec(name, type_, itemgetter(name)) for name in names)


def _time_column(name: str, type_: str) -> ColumnSpec:
    def extract(table: _Table) -> Sequence[int | None]:
        ns_of = {when: _ns(when) for when in set(table[name])}
        return [ns_of[when] for when in table[name]]

    return ColumnSpec(name, type_, extract)


_VERSION = (*_columns("String", "digest"), *_columns(TIMESTAMP_NS, "effective_at"))

DEVICES = TableSchema(
    "inventory_devices",
    (
        *_VERSION,
        *_columns("String", "name", "id", "serial"),
        *_columns(LOW_CARDINALITY, "kind", "tier", "pod", "vendor", "model", "firmware", "site", "team", "tenant"),
        *_columns(LOW_CARDINALITY, "domain", "load_balancing"),
        *_columns("Nullable(Int32)", "plane"),
        *_columns("UInt32", "gpus"),
        _time_column("maintenance_until", NULLABLE_TIMESTAMP),
    ),
)

LINKS = TableSchema(
    "inventory_links",
    (
        *_VERSION,
        *_columns("String", "id", "a_device"),
        *_columns(LOW_CARDINALITY, "a_port"),
        *_columns("String", "z_device"),
        *_columns(LOW_CARDINALITY, "z_port", "role"),
        *_columns("Nullable(Int32)", "rail", "plane"),
        *_columns(LOW_CARDINALITY, "pod"),
        *_columns("Nullable(UInt64)", "speed_bps"),
    ),
)
"""The table of links; its columns are in the order of the rows."""

JOBS = TableSchema(
    "inventory_jobs",
    (
        *_VERSION,
        *_columns("String", "job", "device"),
        _time_column("start", TIMESTAMP_NS),
        _time_column("end", NULLABLE_TIMESTAMP),
        *_columns(LOW_CARDINALITY, "tenant"),
    ),
)

_LINK_COLUMNS = tuple(spec.name for spec in LINKS.columns[len(_VERSION) :])


@dataclass(frozen=True, slots=True)
class _Version:
    """A complete version: the record that completed it, and its tables."""

    origin: SourcedMessage
    tables: Mapping[TableSchema, _Table]


class InventoryBuilder:
    """Assembles versions; a version's rows have the origin of the record that completed it."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._stored: set[tuple[str, int]] = set()
        self._versions: list[_Version] = []

    def add(self, sourced: SourcedMessage) -> int:
        chunk = sourced.message
        assert isinstance(chunk, InventoryChunk)
        data = self._assembler.add_chunk(chunk)
        if data is None or (chunk.digest, chunk.effective_ns) in self._stored:
            return 0
        tables = _tables(inventory_of(chunk.digest, data), chunk)
        self._stored.add((chunk.digest, chunk.effective_ns))
        self._versions.append(_Version(sourced, tables))
        return sum(map(_height, tables.values()))

    def finish(self) -> list[TableRows]:
        versions, self._versions = self._versions, []
        out = []
        for schema in (DEVICES, LINKS, JOBS):
            # A version without rows in this table lacks its columns too.
            present = [version for version in versions if _height(version.tables[schema])]
            tables = [version.tables[schema] for version in present]
            if tables:
                columns: list[Column] = [
                    ObjectColumn(spec.name, spec.type, [value for table in tables for value in spec.extract(table)])
                    for spec in schema.columns
                ]
                origin = message_origin_columns([version.origin for version in present], list(map(_height, tables)))
                out.append(TableRows(schema.table, [*columns, *origin]))
        return out


def _height(table: _Table) -> int:
    return len(table["digest"])


def _tables(inventory: Inventory, chunk: InventoryChunk) -> dict[TableSchema, _Table]:
    devices = {device.name: device for device in inventory.devices}
    rows_of: dict[TableSchema, Sequence[Any]] = {DEVICES: tuple(devices.values()), JOBS: inventory.jobs}
    tables = {schema: _by_column(rows[0]._fields if rows else (), rows) for schema, rows in rows_of.items()}
    tables[LINKS] = _link_columns(devices, inventory)
    for columns in tables.values():
        height = len(next(iter(columns.values()), ()))
        columns["digest"], columns["effective_at"] = [chunk.digest] * height, [chunk.effective_ns] * height
    return {**tables}


def _by_column(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return dict(zip(names, zip(*rows, strict=True), strict=False))


def _link_columns(devices: Mapping[str, Device], inventory: Inventory) -> dict[str, Sequence[Any]]:
    """Return the columns of the links, the end nearer to the hosts first, as in streams.fabric.topology."""
    try:
        return dict(zip(_LINK_COLUMNS, LinkTable(devices, inventory.links).columns(), strict=True))
    except KeyError as error:
        raise Reject(f"a link of the inventory names device {error}, which the inventory does not have") from error
