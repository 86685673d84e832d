"""Blocks: what the records of one stretch of a partition become in each table.

A builder takes records one by one, says no to those that cannot be stored (Reject) and passes over those that were
stored before; `finish` hands out the rows of all its tables. Which builder a topic has is in registry.py.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streams.store.rows.deduplication import KeyDedup
from streams.store.rows.native_format import Column, LowCardinalityColumn, NumericColumn, ObjectColumn
from streams.wire.models import Message

LATEST_MS = 4_102_444_800_000
"""The year 2100; Kafka's time of a record is taken as at most this, for it chooses the partition of a table."""


class SourcedMessage(NamedTuple):
    """One message with its origin; `arrived_ms` is Kafka's time of the record, which every reading of it repeats."""

    partition: int
    offset: int
    arrived_ms: int
    message: Message


@dataclass(frozen=True, slots=True)
class TableRows:
    """What goes into one table."""

    table: str
    columns: Sequence[Column]

    @property
    def count(self) -> int:
        """How many rows."""
        return self.columns[0].rows

    @property
    def column_names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]


class RowBuilder(Protocol):
    """Collects one block at a time."""

    def add(self, taken: SourcedMessage) -> int:
        """Take a message and say how many rows it makes; raises Reject where it cannot be stored."""
        ...

    def finish(self) -> list[TableRows]:
        """The rows of the block; the next one begins empty. Tables without rows are left out."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column of a table and how its value is read from a message; `get` raises Reject on what does not fit."""

    name: str
    type: str
    extract: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table that has one row a message."""

    table: str
    columns: tuple[ColumnSpec, ...]


def origin_columns(
    partition: int, offsets: Sequence[int], arrived_ms: Sequence[int], repeats: Any = None
) -> list[Column]:
    """The columns that say which record each row came from; `repeats` is the number of rows of each."""
    offset = np.array(offsets, np.int64)
    arrived = np.clip(np.array(arrived_ms, np.int64), 0, LATEST_MS)
    if repeats is not None:
        offset, arrived = np.repeat(offset, repeats), np.repeat(arrived, repeats)
    return [
        NumericColumn("kafka_partition", "UInt16", np.full(len(offset), partition, np.uint16)),
        NumericColumn("kafka_offset", "Int64", offset),
        NumericColumn("arrived_at", "DateTime64(3, 'UTC')", arrived),
    ]


def build_rows(shape: TableSchema, values: Sequence[Sequence[Any]], at: Sequence[SourcedMessage]) -> TableRows:
    """Rows of Python values as columns."""
    columns: list[Column] = [
        ObjectColumn(field.name, field.type, column)
        for field, column in zip(shape.columns, zip(*values, strict=True), strict=True)
    ]
    return TableRows(
        shape.table,
        columns + origin_columns(at[0].partition, [taken.offset for taken in at], [taken.arrived_ms for taken in at]),
    )


class MessageRowBuilder:
    """One row a message, into one table."""

    def __init__(
        self, shape: TableSchema, keys: KeyDedup | None = None, identity: Callable[[Any], Hashable | None] | None = None
    ) -> None:
        self._shape = shape
        self._gets = [field.extract for field in shape.columns]
        self._keys = keys
        self._identity = identity
        self._values: list[list[Any]] = []
        self._at: list[SourcedMessage] = []

    def add(self, taken: SourcedMessage) -> int:
        message = taken.message
        values = [get(message) for get in self._gets]
        if self._keys is not None and self._identity is not None:
            identity = self._identity(message)
            if identity is not None and not self._keys.is_new(identity, taken.arrived_ms):
                return 0
        self._values.append(values)
        self._at.append(taken)
        return 1

    def finish(self) -> list[TableRows]:
        values, at = self._values, self._at
        self._values, self._at = [], []
        return [build_rows(self._shape, values, at)] if at else []


class StringDictionary:
    """The strings of a LowCardinality column, each once."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        """The code of a string."""
        return self._codes.setdefault(word, len(self._codes))

    def list_codes(self, lists: Sequence[tuple[str, ...]]) -> list[npt.NDArray[np.uint32]]:
        """The codes of each list of words; devices of one model have the same ones, which are looked up once."""
        known: dict[tuple[str, ...], npt.NDArray[np.uint32]] = {}
        for words in lists:
            if words not in known:
                known[words] = np.fromiter((self.code(word) for word in words), np.uint32, len(words))
        return [known[words] for words in lists]

    def repeated_column(self, name: str, words: Sequence[str], heights: npt.NDArray[Any]) -> LowCardinalityColumn:
        """A column of words, each as often as its message has rows."""
        return self.column(name, np.repeat(self._codes_of(words), heights))

    def plain_column(self, name: str, words: Sequence[str]) -> LowCardinalityColumn:
        """A column of words, one a row."""
        return self.column(name, self._codes_of(words))

    def _codes_of(self, words: Sequence[str]) -> npt.NDArray[np.uint32]:
        for word in dict.fromkeys(words):
            self.code(word)
        return np.fromiter(map(self._codes.__getitem__, words), np.uint32, len(words))

    def column(self, name: str, codes: Any) -> LowCardinalityColumn:
        """A column of these codes."""
        return LowCardinalityColumn(name, list(self._codes), codes)
