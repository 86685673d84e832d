"""The inventory: which devices, links, port names and jobs there are, as people keep it in a folder.

Reads `devices`, `links`, `ports` and `jobs` from CSV or Parquet, says everything that is wrong at once, and packs one
version for the topic. What follows from it (far ends, home pods, uplinks) is in topology.py.
"""

import csv
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import cramjam
import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from streams.fabric.ids import Port

TABLES = ("devices", "links", "ports", "jobs")


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


def _named(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("must be a name")
    return value


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("needs a time zone, e.g. a Z at its end")
    return value


Name = Annotated[str, AfterValidator(_named)]
OptionalInt = Annotated[int | None, BeforeValidator(_blank_is_none)]
OptionalTime = Annotated[Annotated[datetime, AfterValidator(_aware)] | None, BeforeValidator(_blank_is_none)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Device(_Row):
    """A switch or a host. `id` is its identity where names may change; `gpus` counts those in it."""

    name: Name
    kind: Literal["switch", "host"]
    tier: Name
    pod: str = ""
    plane: OptionalInt = None
    vendor: str = ""
    model: str = ""
    gpus: Annotated[int, BeforeValidator(lambda v: 0 if v in ("", None) else v)] = 0
    id: str = ""
    serial: str = ""
    firmware: str = ""
    site: str = ""
    team: str = ""
    maintenance_until: OptionalTime = None


class Link(_Row):
    """A cable between two ports; the order of its ends in the table means nothing."""

    a_device: Name
    a_port: Name
    z_device: Name
    z_port: Name
    role: Literal["host-link", "fabric-link"]
    rail: OptionalInt = None
    plane: OptionalInt = None
    speed_bps: OptionalInt = None
    id: str = ""

    @property
    def a(self) -> Port:
        """The end that the table names first."""
        return Port(self.a_device, self.a_port)

    @property
    def z(self) -> Port:
        """The end that the table names second."""
        return Port(self.z_device, self.z_port)


class PortName(_Row):
    """Another name that a source uses for a port."""

    device: Name
    port: Name
    alias: Name
    source: str = ""


class Job(_Row):
    """A job's stay on one device."""

    job: Name
    device: Name
    start: Annotated[datetime, AfterValidator(_aware)]
    end: OptionalTime = None


class Inventory(BaseModel):
    """All tables of one version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    ports: tuple[PortName, ...] = ()
    jobs: tuple[Job, ...] = ()


_ROWS: dict[str, TypeAdapter[Any]] = {
    "devices": TypeAdapter(tuple[Device, ...]),
    "links": TypeAdapter(tuple[Link, ...]),
    "ports": TypeAdapter(tuple[PortName, ...]),
    "jobs": TypeAdapter(tuple[Job, ...]),
}


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
        except (OSError, ValueError, csv.Error) as error:
            problems.append(f"{folder / table}: {error}")
            continue
        if rows is None:
            if table in ("devices", "links"):
                problems.append(f"{folder}: no {table}.csv or {table}.parquet")
            continue
        try:
            tables[table] = _ROWS[table].validate_python(rows)
        except ValidationError as error:
            problems += [_where(table, detail) for detail in error.errors()]
    if problems:
        raise InvalidInventory(problems)
    inventory = Inventory(**tables)
    problems = check(inventory)
    if problems:
        raise InvalidInventory(problems)
    return inventory


def _read_table(folder: Path, table: str) -> list[dict[str, Any]] | None:
    """The rows of a table, or None where the folder has no file for it; raises ValueError on a file that is none."""
    if (path := folder / f"{table}.csv").exists():
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, strict=True))
    if (path := folder / f"{table}.parquet").exists():
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            rows = pq.read_table(path).to_pylist()
        except pa.ArrowException as error:
            raise ValueError(str(error)) from error
        return [{k: v for k, v in row.items() if v is not None} for row in rows]
    return None


def _where(table: str, detail: Mapping[str, Any]) -> str:
    row, *column = detail["loc"]
    return f"{table} row {row + 1}, {'.'.join(map(str, column)) or 'row'}: {detail['msg']}"


def check(inventory: Inventory) -> list[str]:
    """What is wrong between rows that are right one by one; a line each, none if all is well."""
    names = Counter(device.name for device in inventory.devices)
    ends = Counter(end for link in inventory.links for end in (link.a, link.z))
    problems = [f"devices: {name} is listed {n} times" for name, n in names.items() if n > 1]
    problems += [f"links: {p.device}/{p.port} is an end of {n} links" for p, n in ends.items() if n > 1]
    problems += [
        f"links row {row}: {end.device} is not among the devices"
        for row, link in enumerate(inventory.links, 1)
        for end in (link.a, link.z)
        if end.device not in names
    ]
    problems += _unknown_devices("ports", (p.device for p in inventory.ports), names)
    problems += _unknown_devices("jobs", (j.device for j in inventory.jobs), names)
    problems += [
        f"jobs: {j.job} on {j.device} ends before it starts" for j in inventory.jobs if j.end and j.end < j.start
    ]
    return problems


def _unknown_devices(table: str, devices: Iterable[str], known: Mapping[str, int]) -> list[str]:
    return [
        f"{table} row {row}: {device} is not among the devices"
        for row, device in enumerate(devices, 1)
        if device not in known
    ]


def pack(inventory: Inventory) -> tuple[str, bytes]:
    """One version as (digest, bytes): the columns of every table as JSON, compressed; the digest is of the JSON."""
    columns = {
        table: {name: [getattr(row, name) for row in rows] for name in type(rows[0]).model_fields}
        for table in TABLES
        if (rows := getattr(inventory, table))
    }
    plain = orjson.dumps(columns)
    return hashlib.sha256(plain).hexdigest(), bytes(cramjam.zstd.compress(plain))


def unpack(data: bytes) -> Inventory:
    """The inverse of `pack`; raises ValueError on bytes that `pack` did not write."""
    try:
        columns: dict[str, dict[str, list[Any]]] = orjson.loads(bytes(cramjam.zstd.decompress(data)))
        return Inventory(
            **{
                table: _ROWS[table].validate_python(
                    [dict(zip(cols, row, strict=True)) for row in zip(*cols.values(), strict=True)]
                )
                for table, cols in columns.items()
            }
        )
    except (
        cramjam.DecompressionError,
        orjson.JSONDecodeError,
        ValidationError,
        AttributeError,
        KeyError,
        TypeError,
    ) as error:
        raise ValueError(f"not a packed inventory: {error}") from error


def digest(inventory: Inventory) -> str:
    """The digest that names this version."""
    return pack(inventory)[0]
