"""Defines the rows of the inventory tables: the type of each column, and the fast conversion of columns to rows.

Columns are converted by distinct value, because 393,216 links of the largest fabric name 21,504 devices and 264 ports:
each value is validated and stored once. If a column is invalid, validation row by row finds the invalid rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import AddressValueError, IPv4Address
from operator import eq
from typing import Annotated, Any, Final, Literal, NamedTuple, get_type_hints, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from streams.fabric.ids import Port


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


def _blank_is_zero(value: object) -> object:
    return 0 if value in ("", None) else value


def _validated_name(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("must be a name")
    return value


def _domain(value: str) -> str:
    if value.strip().upper() == "N/A":
        raise ValueError("is no NVLink domain: the GPU was not registered when it was read; leave it empty")
    return value


def _timezone_aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("needs a time zone, for example a trailing Z")
    return value


Name = Annotated[str, AfterValidator(_validated_name)]
Number = Annotated[int, Field(ge=0, lt=2**15)]
"""The number of a rail or a plane, counted from 0; published fabrics have at most 8."""
OptionalNumber = Annotated[Number | None, BeforeValidator(_blank_is_none)]
OptionalSpeed = Annotated[Annotated[int, Field(ge=1, lt=2**63)] | None, BeforeValidator(_blank_is_none)]
Time = Annotated[datetime, AfterValidator(_timezone_aware)]
OptionalTime = Annotated[Time | None, BeforeValidator(_blank_is_none)]


class Device(NamedTuple):
    """A switch or a host.

    `id` is a stable identity for devices whose names may change; `gpus` is the number of GPUs; `tenant` owns the host.
    `load_balancing` is how a switch spreads RoCE over its uplinks: by flow (`ecmp`, also if empty), or by packet, as
    the switch (`adaptive`) or the sender (`sprayed`) chooses.
    `domain` is the NVLink domain of a host, as the label `nvidia.com/gpu.clique` or NMX names it.
    `rack` is the rack for people, with the unit if it is known.
    """

    name: Name
    kind: Literal["switch", "host"]
    tier: Name
    pod: str = ""
    plane: OptionalNumber = None
    vendor: str = ""
    model: str = ""
    gpus: Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(_blank_is_zero)] = 0
    id: str = ""
    serial: str = ""
    firmware: str = ""
    site: str = ""
    team: str = ""
    maintenance_until: OptionalTime = None
    tenant: str = ""
    load_balancing: Literal["", "ecmp", "adaptive", "sprayed"] = ""
    domain: Annotated[str, AfterValidator(_domain)] = ""
    rack: str = ""

    @property
    def is_sprayed(self) -> bool:
        """Return whether the packets of one flow take several paths."""
        return self.load_balancing in ("adaptive", "sprayed")


HOST_LINK: Final = "host-link"
"""The role of a link that ends at a host."""

MANY_PLANES = 3
"""From this number of planes on, the loss of one plane is a small share of a NIC (choice): of two it is one half."""


class Link(NamedTuple):
    """A link between two ports; the order of its ends in the table has no meaning.

    `label` is what a person reads at the cable, the panels and the ports.
    """

    a_device: Name
    a_port: Name
    z_device: Name
    z_port: Name
    role: Literal["host-link", "fabric-link"]
    rail: OptionalNumber = None
    plane: OptionalNumber = None
    speed_bps: OptionalSpeed = None
    id: str = ""
    label: str = ""

    @property
    def a(self) -> Port:
        """Return the first end in the table."""
        return Port(self.a_device, self.a_port)

    @property
    def z(self) -> Port:
        """Return the second end in the table."""
        return Port(self.z_device, self.z_port)


class PortName(NamedTuple):
    """An alias that a source uses for a port."""

    device: Name
    port: Name
    alias: Name
    source: str = ""


def is_address(alias: str) -> bool:
    """Return whether an alias of a port is its IPv4 address."""
    if not alias[:1].isdigit():  # skips most aliases at a tenth of the cost
        return False
    try:
        IPv4Address(alias)
    except AddressValueError:
        return False
    return True


class Job(NamedTuple):
    """The allocation of one device to a job."""

    job: Name
    device: Name
    start: Time
    end: OptionalTime = None
    tenant: str = ""


class Part(NamedTuple):
    """A part that several ports share, so that their links fail or are repaired together.

    Names of modules, trunks and feeds are unique in the fabric, the others at their device. An empty port means all
    ports of the device.
    """

    device: Name
    kind: Literal["cage", "module", "trunk", "laser", "engine", "feed", "line-card"]
    part: Name
    port: str = ""

    @property
    def id(self) -> str:
        """Return the identity of the part in the fabric."""
        return f"{self.kind}:{self.part}" if self.kind in _OF_THE_FABRIC else f"{self.kind}:{self.device}/{self.part}"

    @property
    def label(self) -> str:
        """Return the name of the part for people."""
        name = f"{self.kind.replace('-', ' ')} {self.part}"
        return name if self.kind in _OF_THE_FABRIC else f"{name} of {self.device}"


_OF_THE_FABRIC = ("module", "trunk", "feed")


Row = Device | Link | PortName | Job | Part


class CodedColumn(NamedTuple):
    """A column as its distinct values, and the index of the value of each row."""

    values: tuple[Any, ...]
    codes: NDArray[np.unsignedinteger[Any]]

    def cells(self) -> list[Any]:
        """Return the value of each row."""
        return list(map(self.values.__getitem__, self.codes.tolist()))


def coded(column: Iterable[Any]) -> CodedColumn:
    """Return a column of hashable values as a CodedColumn; 0, 0.0 and False are one value."""
    column = tuple(column)
    number = {value: place for place, value in enumerate(dict.fromkeys(column))}
    codes = np.fromiter(map(number.__getitem__, column), code_type(len(number)), len(column))
    return CodedColumn(tuple(number), codes)


def normalized(column: CodedColumn) -> CodedColumn:
    """Return the same cells with each value once, in the order of their first rows."""
    used, first = np.unique(column.codes, return_index=True)
    number: dict[Any, int] = {}
    place = np.zeros(len(column.values), np.int64)
    for code in used[np.argsort(first)].tolist():
        place[code] = number.setdefault(column.values[code], len(number))
    return CodedColumn(tuple(number), place[column.codes].astype(code_type(len(number))))


def code_type(values: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest type of codes for so many distinct values."""
    return np.uint8 if values <= 1 << 8 else np.uint16 if values <= 1 << 16 else np.uint32


class LinkColumns(Sequence[Link]):
    """The rows of the table of links as columns; a row is made when it is asked for.

    The 3.1 million links of 131,072 GPUs on eight planes take 40 MB; as rows they take 0.5 GB.
    """

    def __init__(self, columns: Iterable[CodedColumn]) -> None:
        self.columns = tuple(columns)

    def __len__(self) -> int:
        return len(self.columns[0].codes)

    @overload
    def __getitem__(self, index: int) -> Link: ...
    @overload
    def __getitem__(self, index: slice) -> "LinkColumns": ...
    def __getitem__(self, index: int | slice) -> "Link | LinkColumns":
        if isinstance(index, slice):
            return LinkColumns(column._replace(codes=column.codes[index]) for column in self.columns)
        return Link._make(column.values[column.codes[index]] for column in self.columns)

    def __iter__(self) -> Iterator[Link]:
        return map(Link._make, zip(*(column.cells() for column in self.columns), strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))


def coded_columns(links: Sequence[Link]) -> tuple[CodedColumn, ...]:
    """Return the columns of links, in the order of the fields of Link."""
    if isinstance(links, LinkColumns):
        return links.columns
    return tuple(map(coded, zip(*links, strict=True))) if links else tuple(coded(()) for _ in Link._fields)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All tables of one version of the inventory."""

    devices: tuple[Device, ...] = ()
    links: Sequence[Link] = ()
    ports: tuple[PortName, ...] = ()
    jobs: tuple[Job, ...] = ()
    parts: tuple[Part, ...] = ()


ROW_OF: dict[str, type[Any]] = {"devices": Device, "links": Link, "ports": PortName, "jobs": Job, "parts": Part}
_TABLE: dict[str, TypeAdapter[Any]] = {table: TypeAdapter(tuple[row, ...]) for table, row in ROW_OF.items()}  # type: ignore[valid-type]
_COLUMN: dict[str, dict[str, TypeAdapter[Any]]] = {
    table: {name: TypeAdapter(list[hint]) for name, hint in get_type_hints(row, include_extras=True).items()}  # type: ignore[valid-type]
    for table, row in ROW_OF.items()
}


def from_rows(table: str, rows: Iterable[Mapping[str, Any]]) -> tuple[Any, ...]:
    """Convert rows one by one; raises pydantic's ValidationError with locations (row from 0, column)."""
    return tuple(_TABLE[table].validate_python(list(rows)))


def from_columns(
    table: str, columns: Mapping[str, Sequence[Any] | CodedColumn], *, none_is_absent: bool = False
) -> Sequence[Any] | None:
    """Convert columns of equal length to rows; None if any value is invalid, which `from_rows` then reports.

    With `none_is_absent`, None means the default of the column, as in Parquet.
    """
    row = ROW_OF[table]
    defaults: dict[str, Any] = row._field_defaults
    lengths = {len(one.codes) if isinstance(one, CodedColumn) else len(one) for one in columns.values()} or {0}
    if columns.keys() - set(row._fields) or len(lengths) > 1:
        return None
    selected: list[CodedColumn] = []
    for name in row._fields:
        if name in columns:
            try:
                selected.append(_converted(_COLUMN[table][name], columns[name], defaults, name, none_is_absent))
            except (ValidationError, TypeError, LookupError):
                return None
        elif name in defaults:
            selected.append(CodedColumn((defaults[name],), np.zeros(min(lengths), np.uint8)))
        else:
            return None
    if table == "links":
        return LinkColumns(selected)
    return tuple(map(row._make, zip(*(column.cells() for column in selected), strict=True)))


def _converted(
    adapter: TypeAdapter[Any], column: Sequence[Any] | CodedColumn, defaults: Mapping[str, Any], name: str,
    none_is_absent: bool,
) -> CodedColumn:  # fmt: skip
    """Convert a column, each distinct value once; raises on an invalid value, and on values of several types.

    0, 0.0 and False are one key of a dict, but not the same value.
    """
    given, codes = column if isinstance(column, CodedColumn) else (column, None)
    if len(set(map(type, given)) - {type(None)}) > 1:
        raise TypeError(f"{name} has values of several types")
    if codes is None:
        given, codes = coded(given)
    elif len(codes) and codes.max() >= len(given):
        raise LookupError(f"{name} has codes without values")
    valid = iter(adapter.validate_python([value for value in given if not (none_is_absent and value is None)]))
    return CodedColumn(
        tuple(defaults[name] if none_is_absent and value is None else next(valid) for value in given), codes
    )
