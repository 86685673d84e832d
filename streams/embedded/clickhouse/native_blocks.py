"""Finds the columns of a Native block; the format has no lengths, so each column is parsed by its type.

Types with their structure inside the data (JSON, Dynamic, Variant, AggregateFunction) are not supported.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

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
