"""The inventory: devices, links, port names and jobs, packed as one version for the topic.

inventory_folder.py reads and writes the tables, inventory_rows.py validates rows, checks/ compares rows with each
other; topology.py derives far ends, home pods and uplinks.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import cramjam
import orjson
from pydantic import ValidationError

from streams.fabric.checks import Tables, find_problems
from streams.fabric.decompression import DecompressionLimit, zstd
from streams.fabric.inventory_folder import (
    TABLES,
    InvalidInventory,
    ValidationReport,
    read_folder,
    validate,
    write_folder,
)
from streams.fabric.inventory_rows import ROW_OF, Device, Inventory, Job, Link, PortName, from_columns, from_rows

__all__ = [
    "TABLES",
    "Device",
    "InvalidInventory",
    "Inventory",
    "Job",
    "Link",
    "PortName",
    "ValidationReport",
    "check",
    "digest",
    "pack",
    "read_folder",
    "unpack",
    "validate",
    "write_folder",
]  # fmt: skip


MAX_PACKED_BYTES = 128 << 20
"""The JSON of the largest published fabric, 131,072 GPUs, has 41 MB."""
MAX_VALUES = 12_000_000
"""Values of all tables; the same fabric has 3.9 million. Each takes up to 70 bytes, however short its text is: without
this bound, 12 kB that decompress to 44.7 million empty lists would take 2.9 GB (calculated, 64 bytes each)."""


_TENANT = "tenant"
"""A column that came later: a version that does not use it keeps its digest, and an earlier release reads it."""


def check(inventory: Inventory, now_ns: int = 0) -> list[str]:
    """Return the problems between valid rows, one line each; an empty list if there are none."""
    return [str(problem) for problem in find_problems(Tables(inventory, now_ns))]


def pack(inventory: Inventory) -> tuple[str, bytes]:
    """Pack a version as (digest, bytes): the columns of every table as JSON, compressed; the digest is of the JSON."""
    serialized = _serialized(inventory)
    return hashlib.sha256(serialized).hexdigest(), bytes(cramjam.zstd.compress(serialized))


def _serialized(inventory: Inventory) -> bytes:
    columns = {
        table: dict(zip(ROW_OF[table]._fields, zip(*rows, strict=True), strict=True))
        for table in TABLES
        if (rows := getattr(inventory, table))
    }
    for table in columns.values():
        if not any(table.get(_TENANT, ())):
            table.pop(_TENANT, None)
    return orjson.dumps(columns)


def decompressed(data: bytes) -> bytes:
    """Return the JSON of packed bytes; raises DecompressionLimit, a ValueError, beyond MAX_PACKED_BYTES."""
    return zstd(data, MAX_PACKED_BYTES)


def unpack(data: bytes) -> Inventory:
    """Unpack the bytes of `pack`; raises ValueError on other bytes."""
    try:
        serialized = decompressed(data)
        if serialized.count(b",") > MAX_VALUES:
            raise ValueError(f"not a packed inventory: more than {MAX_VALUES} values")
        tables: dict[str, dict[str, list[Any]]] = orjson.loads(serialized)
        return Inventory(**{table: _unpacked_rows(table, columns) for table, columns in tables.items()})
    except (DecompressionLimit, orjson.JSONDecodeError, ValidationError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a packed inventory: {error}") from error


def _unpacked_rows(table: str, columns: Mapping[str, list[Any]]) -> tuple[Any, ...]:
    rows = from_columns(table, columns)
    if rows is None:
        rows = from_rows(table, (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)))
    return rows


def digest(inventory: Inventory) -> str:
    """Return the digest that identifies this version."""
    return hashlib.sha256(_serialized(inventory)).hexdigest()
