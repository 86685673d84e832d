"""Converts the Native format for clients that request a revision of its protocol (`client_protocol_version`).

The engine writes Native as revision 0. A client of a later revision expects more: a BlockInfo before every block, from
revision 54337 on the time zone of a DateTime column, and from 54454 on a byte after each column's type that
marks a custom serialization. The server sends this byte only for clickhouse-go's first query.

Native has no lengths, so each column of a block is parsed by its type. Types with their structure inside the data
(JSON, Dynamic, Variant, AggregateFunction) are not supported.
"""

import json
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from streams.embedded.clickhouse.engine import Connection, Result
from streams.embedded.clickhouse.gate import Statement

_WIDTHS = {
    **{f"{sign}Int{bits}": bits // 8 for bits in (8, 16, 32, 64, 128, 256) for sign in ("", "U")},
    **{f"Decimal{bits}": bits // 8 for bits in (32, 64, 128, 256)},
    "BFloat16": 2,
    "Bool": 1,
    "Date": 2,
    "Date32": 4,
    "DateTime": 4,
    "DateTime64": 8,
    "Enum8": 1,
    "Enum16": 2,
    "Float32": 4,
    "Float64": 8,
    "IPv4": 4,
    "IPv6": 16,
    "Nothing": 1,
    "Time": 4,
    "Time64": 8,
    "UUID": 16,
    "Point": 16,
    **{f"Interval{unit}": 8 for unit in ("Second", "Minute", "Hour", "Day", "Week", "Month", "Quarter", "Year")},
}
_ALIASES = {
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "Polygon": "Array(Array(Point))",
    "MultiLineString": "Array(Array(Point))",
    "MultiPolygon": "Array(Array(Array(Point)))",
}
_KEYS_PRESENT, _KEY_WIDTH = 1 << 9, 0xFF


class UnsupportedType(ValueError):
    """Raised for a truncated block, or one with an unsupported type."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a block; the name of its type begins at `type_at`, its data at `data_at`."""

    name: str
    type: str
    type_at: int
    data_at: int


def text(value: str) -> bytes:
    """Return a string as Native writes it: a varint with its length, then its bytes."""
    raw = value.encode()
    size, head = len(raw), bytearray()
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + raw


def columns(block: bytes) -> Iterator[Column]:
    """Yield the columns of a block of revision 0; raise UnsupportedType at the first that cannot be parsed."""
    yield from _BlockReader(block).columns()


def split(data: bytes) -> Iterator[bytes]:
    """Yield the consecutive blocks of `data`; yield a block that cannot be parsed together with the rest."""
    start = 0
    while start < len(data):
        walk = _BlockReader(data, start)
        try:
            deque(walk.columns(), maxlen=0)
        except UnsupportedType:
            walk.at = len(data)
        yield data[start : walk.at]
        start = walk.at


class _BlockReader:
    def __init__(self, block: bytes, at: int = 0) -> None:
        self._block = block
        self.at = at

    def columns(self) -> Iterator[Column]:
        """Yield the columns of the block, each before its data is skipped."""
        count, rows = self.varint(), self.varint()
        for _ in range(count):
            name, type_at, kind = self.string(), self.at, self.string()
            yield Column(name, kind, type_at, self.at)
            self._prefix(kind)
            self._data(kind, rows)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def string(self) -> str:
        size = self.varint()
        start = self.at
        self._skip(size)
        return self._block[start : self.at].decode(errors="surrogateescape")

    def _prefix(self, kind: str) -> None:
        name, inner = _split(kind)
        if name == "LowCardinality":
            self._skip(8)
        elif name in {"Array", "Nullable", "Map", "Tuple", "SimpleAggregateFunction"}:
            for one in _inner_types(name, inner):
                self._prefix(one)

    def _data(self, kind: str, rows: int) -> None:
        name, inner = _split(kind)
        if (width := _width(name, inner)) is not None:
            self._skip(width * rows)
        elif name == "String":
            for _ in range(rows):
                self._skip(self.varint())
        elif name == "Nullable":
            self._skip(rows)
            self._data(inner, rows)
        elif name in {"Array", "Map"}:
            inside = self._last_offset(rows)
            for one in _inner_types(name, inner):
                self._data(one, inside)
        elif name in {"Tuple", "SimpleAggregateFunction"}:
            for one in _inner_types(name, inner):
                self._data(one, rows)
        elif name == "LowCardinality":
            self._low_cardinality(inner, rows)
        else:
            raise UnsupportedType(kind)

    def _low_cardinality(self, inner: str, rows: int) -> None:
        if not rows:
            return
        flags = self._number()
        # The dictionary of a Nullable type has its values without the map of nulls.
        if flags & _KEYS_PRESENT:
            self._data(inner[9:-1] if inner.startswith("Nullable(") else inner, self._number())
        self._skip((1 << (flags & _KEY_WIDTH)) * self._number())

    def _last_offset(self, rows: int) -> int:
        if not rows:
            return 0
        self._skip(8 * (rows - 1))
        return self._number()

    def _number(self) -> int:
        start = self.at
        self._skip(8)
        return int.from_bytes(self._block[start : self.at], "little")

    def _byte(self) -> int:
        self._skip(1)
        return self._block[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._block):
            raise UnsupportedType("the block is cut short")


def _split(kind: str) -> tuple[str, str]:
    kind = _ALIASES.get(kind, kind)
    name, paren, inner = kind.partition("(")
    return name, inner[:-1] if paren else ""


def _width(name: str, inner: str) -> int | None:
    if name == "FixedString":
        return int(inner)
    if name == "Decimal":
        precision = int(inner.partition(",")[0])
        return next(width for most, width in ((9, 4), (18, 8), (38, 16), (76, 32)) if precision <= most)
    return _WIDTHS.get(name)


def _inner_types(name: str, inner: str) -> list[str]:
    parts = _arguments(inner)
    if name == "Tuple":
        # A named element is `name Type`; the name of a type has no blank before its first parenthesis.
        return [re.sub(r"^(`(?:[^`\\]|\\.)*`|\w+) (?=\w)", "", part) for part in parts]
    return parts[1:] if name == "SimpleAggregateFunction" else parts


def _arguments(inner: str) -> list[str]:
    """Split `A, B(C, D)` at its outermost commas."""
    parts, depth, start, quote = [], 0, 0, ""
    for at, sign in enumerate(inner):
        if quote:
            if sign == quote and inner[at - 1] != "\\":
                quote = ""
        elif sign in "'`":
            quote = sign
        elif sign == "," and not depth:
            parts.append(inner[start:at].strip())
            start = at + 1
        else:
            depth += (sign == "(") - (sign == ")")
    return [*parts, inner[start:].strip()] if inner else []


BLOCK_INFO = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # 1: is_overflows = 0, 2: bucket_num = -1, end
_TIME_ZONES = 54337
_CUSTOM_SERIALIZATION = 54454
_DATE_TIME = text("DateTime")

# The first query of clickhouse-go on each connection. clickhouse-go parses the response by the revision that it sent,
# and later responses by the revision in this response: with 0 it reads plain Native.
_HANDSHAKE = re.compile(
    rb"\s*SELECT\s+displayName\(\)\s*,\s*version\(\)\s*,\s*revision\(\)\s*,\s*timezone\(\)\s*;?\s*", re.IGNORECASE
)


def is_handshake(sql: bytes, revision: int) -> bool:
    """Return whether this is clickhouse-go's first query."""
    return revision > 0 and _HANDSHAKE.fullmatch(sql) is not None


def handshake_block(connection: Connection, revision: int) -> Result:
    """Return the result of clickhouse-go's first query as a block of its revision that states our revision 0."""
    row = connection.query("SELECT displayName(), version(), timezone()", "TabSeparatedRaw").data.decode()
    name, version, zone = row.rstrip("\n").split("\t")
    fields = [
        ("displayName()", "String", text(name)),
        ("version()", "String", text(version)),
        ("revision()", "UInt32", struct.pack("<I", 0)),
        ("timezone()", "String", text(zone)),
    ]
    special = b"\x00" if revision >= _CUSTOM_SERIALIZATION else b""
    data = BLOCK_INFO + bytes([len(fields), 1])
    data += b"".join(text(label) + text(kind) + special + value for label, kind, value in fields)
    return Result(data=data, rows=1)


def wants_blocks(revision: int) -> bool:
    """Return whether a client of this revision reads a BlockInfo; clients of later revisions received revision 0."""
    return 0 < revision < _CUSTOM_SERIALIZATION


def upgrade(revision: int, zones: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Return a converter of blocks from revision 0 to `revision`; `zones` maps DateTime columns to their full types.

    In a block with an unsupported type, `DateTime` stays without its time zone.
    """

    def convert(block: bytes) -> bytes:
        if not wants_blocks(revision):
            return block
        if revision < _TIME_ZONES or not zones or _DATE_TIME not in block:
            return BLOCK_INFO + block
        pieces, copied = [BLOCK_INFO], 0
        try:
            for column in columns(block):
                if column.type == "DateTime" and column.name in zones:
                    pieces += [block[copied : column.type_at], text(zones[column.name])]
                    copied = column.data_at
        except UnsupportedType:
            pass
        return b"".join([*pieces, block[copied:]])

    return convert


def zoned_columns(connection: Connection, statement: Statement, revision: int) -> dict[str, str]:
    """Return the full types of the DateTime columns of a SELECT that name a time zone, if the revision has them."""
    if not wants_blocks(revision) or revision < _TIME_ZONES:
        return {}
    text = b"DESCRIBE TABLE (" + statement.without_format + b"\n)"
    rows = connection.statement(text, "JSONCompactEachRow").data.splitlines()
    described = [json.loads(row)[:2] for row in rows]
    return {name: kind for name, kind in described if kind.startswith("DateTime(")}
