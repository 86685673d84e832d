"""The inventory: which devices, links, port names and jobs there are, as people keep it in a folder.

Reads and writes `devices`, `links`, `ports` and `jobs` as CSV or Parquet, says everything that is wrong at once, and
packs one version for the topic. What a row may hold is rows.py; what follows from it (far ends, home pods, uplinks) is
topology.py.
"""

import csv
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Literal

import cramjam
import orjson
from pydantic import ValidationError

from streams.fabric.rows import ROW_OF, Device, Job, Link, PortName, Row, from_columns, from_rows

__all__ = [
    "TABLES", "Device", "InvalidInventory", "Inventory", "Job", "Link", "PortName", "check", "digest", "pack",
    "read_folder", "unpack", "write_folder",
]  # fmt: skip

TABLES = tuple(ROW_OF)

_BLOCK = 10_000
"""Lines of CSV that are split at once: their texts live no longer than the block."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """All tables of one version."""

    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    ports: tuple[PortName, ...] = ()
    jobs: tuple[Job, ...] = ()


class InvalidInventory(ValueError):
    """An inventory that cannot be: `problems` has one line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_folder(folder: Path) -> Inventory:
    """Read the tables of an inventory folder; raises InvalidInventory with every problem found."""
    if not folder.is_dir():
        raise InvalidInventory([f"{folder}: no such folder"])
    problems: list[str] = []
    tables = {}
    for table in TABLES:
        try:
            rows = _read_table(folder, table)
        except ValidationError as error:
            problems += [_where(table, detail) for detail in error.errors()]
        except (OSError, ValueError, csv.Error) as error:
            problems.append(f"{folder / table}: {error}")
        else:
            if rows is not None:
                tables[table] = rows
            elif table in ("devices", "links"):
                problems.append(f"{folder}: no {table}.csv or {table}.parquet")
    if problems:
        raise InvalidInventory(problems)
    inventory = Inventory(**tables)
    problems = check(inventory)
    if problems:
        raise InvalidInventory(problems)
    return inventory


def _read_table(folder: Path, table: str) -> tuple[Any, ...] | None:
    """The rows of a table, or None where the folder has no file for it; raises ValueError on a file that is none."""
    if (path := folder / f"{table}.csv").exists():
        return _read_csv(path, table)
    if (path := folder / f"{table}.parquet").exists():
        return _read_parquet(path, table)
    return None


def _read_csv(path: Path, table: str) -> tuple[Any, ...]:
    with path.open(newline="", encoding="utf-8") as file:
        columns = _columns(csv.reader(file, strict=True))
        rows = None if columns is None else from_columns(table, columns)
        if rows is None:
            file.seek(0)
            rows = from_rows(table, csv.DictReader(file, strict=True))
        return rows


def _columns(lines: Iterable[list[str]]) -> dict[str, list[str]] | None:
    """The columns of a table whose first line names them; None where a line has not as many fields as that."""
    lines = iter(lines)
    header = next(lines, [])
    columns: list[list[str]] = [[] for _ in header]
    seen: dict[str, str] = {}
    while block := list(islice(lines, _BLOCK)):
        if any(len(line) != len(header) for line in block):
            return None
        for column, values in zip(columns, zip(*block, strict=True), strict=True):
            column.extend(map(seen.setdefault, values, values))
    return dict(zip(header, columns, strict=True)) if len(set(header)) == len(header) else None


def _read_parquet(path: Path, table: str) -> tuple[Any, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        read = pq.read_table(path)
        columns = {name: _values(read[name]) for name in read.column_names}
        rows = from_columns(table, columns, none_is_absent=True)
        if rows is None:
            absent_left_out = ({k: v for k, v in row.items() if v is not None} for row in read.to_pylist())
            rows = from_rows(table, absent_left_out)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error
    return rows


def _values(column: Any) -> list[Any]:
    """A column of Parquet as Python values, each distinct one made once."""
    import pyarrow as pa

    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return list(column.to_pylist())
    encoded = column.combine_chunks().dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return list(map(values.__getitem__, encoded.indices.fill_null(len(values) - 1).to_pylist()))


def _where(table: str, detail: Mapping[str, Any]) -> str:
    row, *column = detail["loc"]
    return f"{table} row {row + 1}, {'.'.join(map(str, column)) or 'row'}: {detail['msg']}"


def write_folder(inventory: Inventory, folder: Path, form: Literal["csv", "parquet"] = "csv") -> None:
    """Write every table that has rows, as files that `read_folder` reads; columns that hold nothing are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        rows: tuple[Row, ...] = getattr(inventory, table)
        other = folder / f"{table}.{'parquet' if form == 'csv' else 'csv'}"
        other.unlink(missing_ok=True)
        path = folder / f"{table}.{form}"
        if not rows and table not in ("devices", "links"):
            path.unlink(missing_ok=True)
            continue
        columns = _said(table, rows)
        if form == "csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*map(_as_text, columns.values()), strict=True))
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), path)


def _said(table: str, rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """The columns that any row says anything in, and those that every row must."""
    row = ROW_OF[table]
    defaults = row._field_defaults
    columns = zip(*rows, strict=True) if rows else repeat(())
    return {
        name: values
        for name, values in zip(row._fields, columns, strict=False)
        if name not in defaults or any(value != defaults[name] for value in set(values))
    }


def _as_text(values: Sequence[Any]) -> Iterable[Any]:
    """A column as CSV holds it: times in RFC 3339, the rest as `csv` writes it."""
    return (v.isoformat() if isinstance(v, datetime) else v for v in values)


def check(inventory: Inventory) -> list[str]:
    """What is wrong between rows that are right one by one; a line each, none if all is well."""
    names = {device.name for device in inventory.devices}
    problems = []
    if len(names) < len(inventory.devices):
        listed = Counter(device.name for device in inventory.devices)
        problems += [f"devices: {name} is listed {n} times" for name, n in listed.items() if n > 1]
    problems += _used_twice(inventory.links)
    if not names.issuperset(chain.from_iterable((link.a_device, link.z_device) for link in inventory.links)):
        problems += [
            f"links row {row}: {device} is not among the devices"
            for row, link in enumerate(inventory.links, 1)
            for device in (link.a_device, link.z_device)
            if device not in names
        ]
    problems += _unknown_devices("ports", (p.device for p in inventory.ports), names)
    problems += _unknown_devices("jobs", (j.device for j in inventory.jobs), names)
    problems += [
        f"jobs: {j.job} on {j.device} ends before it starts" for j in inventory.jobs if j.end and j.end < j.start
    ]
    return problems


def _used_twice(links: Sequence[Link]) -> list[str]:
    """The ends of more than one link; they are counted only where some end is."""
    if len({link[:2] for link in links} | {link[2:4] for link in links}) == 2 * len(links):
        return []
    ends = Counter(end for link in links for end in (link.a, link.z))
    return [f"links: {p.device}/{p.port} is an end of {n} links" for p, n in ends.items() if n > 1]


def _unknown_devices(table: str, devices: Iterable[str], known: set[str]) -> list[str]:
    return [
        f"{table} row {row}: {device} is not among the devices"
        for row, device in enumerate(devices, 1)
        if device not in known
    ]


def pack(inventory: Inventory) -> tuple[str, bytes]:
    """One version as (digest, bytes): the columns of every table as JSON, compressed; the digest is of the JSON."""
    plain = _plain(inventory)
    return hashlib.sha256(plain).hexdigest(), bytes(cramjam.zstd.compress(plain))


def _plain(inventory: Inventory) -> bytes:
    columns = {
        table: dict(zip(ROW_OF[table]._fields, zip(*rows, strict=True), strict=True))
        for table in TABLES
        if (rows := getattr(inventory, table))
    }
    return orjson.dumps(columns)


def unpack(data: bytes) -> Inventory:
    """The inverse of `pack`; raises ValueError on bytes that `pack` did not write."""
    try:
        tables: dict[str, dict[str, list[Any]]] = orjson.loads(bytes(cramjam.zstd.decompress(data)))
        return Inventory(**{table: _unpacked(table, columns) for table, columns in tables.items()})
    except (
        cramjam.DecompressionError,
        orjson.JSONDecodeError,
        ValidationError,
        AttributeError,
        KeyError,
        TypeError,
    ) as error:
        raise ValueError(f"not a packed inventory: {error}") from error


def _unpacked(table: str, columns: Mapping[str, list[Any]]) -> tuple[Any, ...]:
    rows = from_columns(table, columns)
    if rows is None:
        rows = from_rows(table, (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)))
    return rows


def digest(inventory: Inventory) -> str:
    """The digest that names this version."""
    return hashlib.sha256(_plain(inventory)).hexdigest()
