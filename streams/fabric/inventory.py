"""Packs the inventory (devices, links, port names, jobs and shared parts) as one version for the topic.

inventory_folder.py reads and writes the tables, inventory_rows.py validates rows, and checks/ compares rows with each
other. topology.py derives far ends, home pods and uplinks.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cramjam
import numpy as np
import orjson

from streams.fabric.checks import Tables, find_problems
from streams.fabric.decompression import zstd
from streams.fabric.inventory_folder import (
    TABLES,
    InvalidInventory,
    ValidationReport,
    read_folder,
    read_usable,
    validate,
    write_folder,
)
from streams.fabric.inventory_rows import (
    ROW_OF,
    CodedColumn,
    Device,
    Inventory,
    Job,
    Link,
    PortName,
    code_type,
    coded_columns,
    from_columns,
    from_rows,
    normalized,
)

__all__ = [
    "TABLES", "Device", "InvalidInventory", "Inventory", "Job", "Link", "PortName", "RowChanges", "ValidationReport",
    "check", "compare", "digest", "filled", "pack", "read_folder", "read_usable", "unpack", "validate", "write_folder",
]  # fmt: skip

MAX_PACKED_BYTES = 128 << 20
"""The JSON of the largest published fabric, 131,072 GPUs on one plane, has 41 MB; on eight planes, coded, 45 MB."""
MAX_VALUES = 12_000_000
"""The most values in all tables; the same fabric has 3.9 million. Each takes up to 70 bytes, however short its text is.
Without this limit, 12 kB that decompress to 44.7 million empty lists would take 2.9 GB (calculated, 64 bytes each)."""
MOST_LISTED = MAX_VALUES // len(Link._fields)
"""More links than this are packed as the distinct values and the codes of each column, in base64; earlier releases
refuse so many links in any form."""
MAX_LINKS = 8_000_000
"""The most links: 131,072 GPUs on eight planes have 3.1 million, which take 0.5 GB as a Topology."""


_LATER = "tenant", "load_balancing", "domain", "rack", "label"
"""Later columns: a version without one keeps its digest, and an earlier release can read it."""


def check(inventory: Inventory, now_ns: int = 0) -> list[str]:
    """Return the problems between valid rows, one line each; an empty list if there are none."""
    return [str(problem) for problem in find_problems(Tables(inventory, now_ns))]


def pack(inventory: Inventory) -> tuple[str, bytes]:
    """Pack a version as (digest, bytes): the columns of every table as compressed JSON; the digest is of the JSON."""
    serialized = _serialized(inventory)
    return hashlib.sha256(serialized).hexdigest(), bytes(cramjam.zstd.compress(serialized))


def _serialized(inventory: Inventory) -> bytes:
    tables: dict[str, dict[str, Any]] = {
        table: dict(zip(ROW_OF[table]._fields, zip(*rows, strict=True), strict=True))
        for table in TABLES
        if table != "links" and (rows := getattr(inventory, table))
    }
    if inventory.links:
        as_cells = _coded_cells if len(inventory.links) > MOST_LISTED else CodedColumn.cells
        coded = zip(Link._fields, coded_columns(inventory.links), strict=True)
        tables["links"] = {name: as_cells(column) for name, column in coded}
    columns = {table: tables[table] for table in TABLES if table in tables}
    for table in columns.values():
        for column in _LATER:
            if not any(table.get(column, ())):
                table.pop(column, None)
    return orjson.dumps(columns)


def _coded_cells(column: CodedColumn) -> dict[str, Any]:
    values, codes = normalized(column)
    return {"values": values, "codes": base64.b64encode(codes.tobytes()).decode()}


def decompressed(data: bytes) -> bytes:
    """Return the JSON of packed bytes; raises DecompressionLimit, a ValueError, beyond MAX_PACKED_BYTES."""
    return zstd(data, MAX_PACKED_BYTES)


def unpack(data: bytes) -> Inventory:
    """Unpack the bytes that `pack` returned; raises ValueError on invalid bytes."""
    try:
        serialized = decompressed(data)
        if serialized.count(b",") > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
        tables: dict[str, dict[str, list[Any]]] = orjson.loads(serialized)
        return Inventory(**{table: _unpacked_rows(table, columns) for table, columns in tables.items()})
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a packed inventory: {error}") from error


def _unpacked_rows(table: str, columns: Mapping[str, Any]) -> Any:
    if table == "links":
        columns = {name: _decoded(one) if isinstance(one, dict) else one for name, one in columns.items()}
    rows = from_columns(table, columns)
    if rows is None:
        if any(isinstance(one, CodedColumn) for one in columns.values()):
            raise ValueError("the columns of its links do not fit each other")
        rows = from_rows(table, (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)))
    return rows


def _decoded(cells: Mapping[str, Any]) -> CodedColumn:
    values, codes = tuple(cells["values"]), base64.b64decode(cells["codes"], validate=True)
    column = CodedColumn(values, np.frombuffer(codes, code_type(len(values))))
    if len(column.codes) > MAX_LINKS:
        raise ValueError(f"more than {MAX_LINKS} links")
    return column


def digest(inventory: Inventory) -> str:
    """Return the digest that identifies this version."""
    return hashlib.sha256(_serialized(inventory)).hexdigest()


_SHOWN = 5
_Row = TypeVar("_Row", Device, Link)


def first_names(names: Sequence[str]) -> str:
    """Return the first names for a line of text, with an ellipsis if there are more."""
    return f"{', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The names of the added, removed and changed rows of one table, in the order of the tables."""

    table: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield `added`, `removed` or `changed` with the name of each row."""
        for what, names in (("added", self.added), ("removed", self.removed), ("changed", self.changed)):
            yield from ((what, name) for name in names)

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {what} ({first_names(names)})"
            for what, names in (("added", self.added), ("removed", self.removed), ("changed", self.changed))
            if names
        ]
        return f"{self.table}: {'; '.join(parts) or 'unchanged'}"


def compare(before: Inventory, after: Inventory) -> tuple[RowChanges, RowChanges]:
    """Return the changes of devices and of links. Two ports identify a link, in any order."""
    return (
        _changes("devices", _devices(before.devices), _devices(after.devices)),
        _changes("links", _links(before.links), _links(after.links)),
    )


def _devices(rows: Iterable[Device]) -> dict[str, object]:
    return {row.name: row for row in rows}


def _links(rows: Iterable[Link]) -> dict[str, object]:
    found: dict[str, object] = {}
    for row in rows:
        ends = sorted((f"{row.a_device}/{row.a_port}", f"{row.z_device}/{row.z_port}"))
        found[" -- ".join(ends)] = row._replace(a_device="", a_port="", z_device="", z_port="")
    return found


def filled(draft: Inventory, present: Inventory) -> Inventory:
    """Return a draft with its blank columns filled from the present rows, so that an absent value is no change."""
    devices = {row.name: row for row in present.devices}
    links = {frozenset((row.a, row.z)): row for row in present.links}
    return replace(
        draft,
        devices=tuple(_filled(row, devices.get(row.name)) for row in draft.devices),
        links=tuple(_filled(row, links.get(frozenset((row.a, row.z)))) for row in draft.links),
    )


def _filled(row: _Row, present: _Row | None) -> _Row:
    if present is None:
        return row
    blank = {
        name: getattr(present, name)
        for name, default in row._field_defaults.items()
        if getattr(row, name) == default != getattr(present, name)
    }
    return row._replace(**blank)


def _changes(table: str, before: dict[str, object], after: dict[str, object]) -> RowChanges:
    return RowChanges(
        table,
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
        tuple(name for name, row in after.items() if name in before and before[name] != row),
    )
