"""Encodes columns in ClickHouse's Native format, without a Python loop over numbers.

Supports only the types of our tables. A numeric column is sent as the bytes of its numpy array, so a block of samples
costs its client one copy; the server reads it in the same way. The layout follows ClickHouse's documentation of the
Native format and of its column serializations, plain form (no revision, no block info).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

LOW_CARDINALITY = "LowCardinality(String)"
TIMESTAMP_NS = "DateTime64(9, 'UTC')"
TIMESTAMP_MS = "DateTime64(3, 'UTC')"
TIMESTAMP_S = "DateTime('UTC')"

Buffer = bytes | memoryview

_LARGE_BYTES = 1 << 16
"""A part of this size is sent separately, because copying it costs more than a system call."""

_LONG_ROWS = 1 << 12
"""A column of this length is narrowed to its largest value: most of the largest fabric's 20 counters per port are
small, so a block of 98,304 rows has 18 MB instead of 32, which are copied some eight times."""

_LOW_CARDINALITY_VERSION = 1
_HAS_ADDITIONAL_KEYS = 1 << 9
_INDEX_TYPES = (np.uint8, np.uint16, np.uint32)
_INDEX_LIMITS = (1 << 8, 1 << 16, 1 << 32)

_NUMBERS: dict[str, type[np.generic]] = {
    "Bool": np.uint8,
    "UInt8": np.uint8,
    "UInt16": np.uint16,
    "UInt32": np.uint32,
    "UInt64": np.uint64,
    "Int16": np.int16,
    "Int32": np.int32,
    "Int64": np.int64,
    "Float32": np.float32,
    "Float64": np.float64,
    TIMESTAMP_S: np.uint32,
    TIMESTAMP_MS: np.int64,
    TIMESTAMP_NS: np.int64,
}


class Column(Protocol):
    """One column of a block: its name and its bytes in Native format."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int: ...

    def parts(self) -> Iterable[Buffer]:
        """Return the name of the type and the data."""
        ...


@dataclass(frozen=True, slots=True)
class NumericColumn:
    """A numeric column from an array; `absent` (a mask) makes it Nullable."""

    name: str
    type: str
    values: npt.NDArray[Any]
    absent: npt.NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        return len(self.values)

    def parts(self) -> Iterable[Buffer]:
        type_, values = _narrowed(self.type, np.ascontiguousarray(self.values, dtype=_NUMBERS[self.type]))
        if self.absent is None:
            return _string(type_), _raw(values)
        return _string(f"Nullable({type_})"), _raw(np.ascontiguousarray(self.absent)), _raw(values)


@dataclass(frozen=True, slots=True)
class LowCardinalityColumn:
    """A LowCardinality(String) column: each row has an index into `keys`, which are distinct strings."""

    name: str
    keys: Sequence[str]
    codes: npt.NDArray[Any]

    @property
    def rows(self) -> int:
        return len(self.codes)

    def parts(self) -> Iterable[Buffer]:
        width = next(i for i, limit in enumerate(_INDEX_LIMITS) if len(self.keys) < limit)
        codes = np.ascontiguousarray(self.codes, dtype=_INDEX_TYPES[width])
        head = np.array([_LOW_CARDINALITY_VERSION, width | _HAS_ADDITIONAL_KEYS, len(self.keys)], dtype="<u8")
        count = np.array([len(codes)], dtype="<u8")
        return (
            _string(LOW_CARDINALITY),
            head.tobytes(),
            b"".join(map(_string, self.keys)),
            count.tobytes(),
            _raw(codes),
        )


@dataclass(frozen=True, slots=True)
class ObjectColumn:
    """A column of Python values, for streams with few rows; `type` may nest Array and Nullable."""

    name: str
    type: str
    values: Sequence[Any]

    @property
    def rows(self) -> int:
        return len(self.values)

    def parts(self) -> Iterable[Buffer]:
        return _string(self.type), _data(self.type, self.values)


@dataclass(frozen=True, slots=True)
class NativeBlock:
    """A block as pieces that are sent in order, because joining them would copy some 20 MB."""

    pieces: Sequence[Buffer]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(map(len, self.pieces))


def encode_block(columns: Sequence[Column]) -> NativeBlock:
    """Return the columns as one Native block; all must have the same number of rows."""
    rows = columns[0].rows
    assert all(column.rows == rows for column in columns), [(c.name, c.rows) for c in columns]
    parts: list[Buffer] = [_length(len(columns)), _length(rows)]
    for column in columns:
        parts.append(_string(column.name))
        parts.extend(column.parts())
    return NativeBlock(list(_join_small(parts)))


def _join_small(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield the parts with small ones joined, because each piece is a system call."""
    small: list[Buffer] = []
    size = 0
    for part in parts:
        small.append(part)
        size += len(part)
        if len(part) >= _LARGE_BYTES:
            small.pop()
            if small:
                yield b"".join(small)
            yield part
            small, size = [], 0
        elif size >= _LARGE_BYTES:
            yield b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)


def _data(type_: str, values: Sequence[Any]) -> bytes:
    if type_ == "String":
        return b"".join(_string(value) if isinstance(value, str) else _bytes(value) for value in values)
    if type_ == LOW_CARDINALITY:
        keys = {value: code for code, value in enumerate(dict.fromkeys(values))}
        codes = np.fromiter((keys[value] for value in values), np.uint32, len(values))
        return b"".join(list(LowCardinalityColumn("", list(keys), codes).parts())[1:]) if values else b""
    if inner := _inner_type(type_, "Nullable"):
        absent = bytes(value is None for value in values)
        blank: Any = "" if inner == "String" else 0
        return absent + _data(inner, [blank if value is None else value for value in values])
    if inner := _inner_type(type_, "Array"):
        ends = np.cumsum([len(value) for value in values], dtype="<u8")
        return ends.tobytes() + _data(inner, [item for value in values for item in value])
    return np.array(values, dtype=_NUMBERS[type_]).tobytes()


def _inner_type(type_: str, wrapper: str) -> str:
    return type_[len(wrapper) + 1 : -1] if type_.startswith(f"{wrapper}(") else ""


def _narrowed(type_: str, values: npt.NDArray[Any]) -> tuple[str, npt.NDArray[Any]]:
    """Return a long column of counters in the smallest type that fits; the server widens the values."""
    if type_ == "UInt64" and len(values) >= _LONG_ROWS:
        largest = values.max()
        for narrow, kind in (("UInt8", np.uint8), ("UInt16", np.uint16), ("UInt32", np.uint32)):
            if largest <= np.iinfo(kind).max:
                return narrow, values.astype(kind)
    return type_, values


def _raw(values: npt.NDArray[Any]) -> memoryview:
    """Return an array's bytes without copying them."""
    return values.data.cast("B")


def _length(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _string(value: str) -> bytes:
    return _bytes(value.encode(errors="replace"))


def _bytes(value: bytes) -> bytes:
    return _length(len(value)) + value
