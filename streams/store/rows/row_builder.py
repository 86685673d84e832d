"""Builds the rows of a block, which has the records of a partition's offset range, as columns of each table.

A builder adds messages one by one, raises Reject for a message that cannot be stored and skips stored messages;
`finish` returns the rows of all its tables. persisted_topics.py assigns a builder to each topic.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streams.store.rows.deduplication import KeyDedup
from streams.store.rows.native_format import (
    TIMESTAMP_MS,
    Column,
    LowCardinalityColumn,
    NumericColumn,
    ObjectColumn,
)
from streams.wire.models import Message

LATEST_MS = 4_102_444_800_000
"""The year 2100: the upper limit of Kafka's time of a record, which selects the partition of a table."""


class SourcedMessage(NamedTuple):
    """One message with its origin; `arrived_ms` is Kafka's time of the record, equal in every reading."""

    partition: int
    offset: int
    arrived_ms: int
    message: Message


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table, as columns."""

    table: str
    columns: Sequence[Column]

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.columns[0].rows

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]


class RowBuilder(Protocol):
    """Builds one block at a time."""

    def add(self, sourced: SourcedMessage) -> int:
        """Add a message and return its number of rows; raises Reject if it cannot be stored."""
        ...

    def finish(self) -> list[TableRows]:
        """Return the rows of the block without empty tables, and start a new block."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column of a table; `extract` returns its value from a message, and raises Reject for a value out of range."""

    name: str
    type: str
    extract: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table that has one row per message."""

    table: str
    columns: tuple[ColumnSpec, ...]


def origin_columns(
    partition: int, offsets: Sequence[int], arrived_ms: Sequence[int], repeats: Any = None
) -> list[NumericColumn]:
    """Return the columns that identify the record of each row; `repeats` has the number of rows of each record."""
    offset = np.array(offsets, np.int64)
    arrived = np.clip(np.array(arrived_ms, np.int64), 0, LATEST_MS)
    if repeats is not None:
        offset, arrived = np.repeat(offset, repeats), np.repeat(arrived, repeats)
    return [
        NumericColumn("kafka_partition", "UInt16", np.full(len(offset), partition, np.uint16)),
        NumericColumn("kafka_offset", "Int64", offset),
        NumericColumn("arrived_at", TIMESTAMP_MS, arrived),
    ]


def message_origin_columns(sources: Sequence[SourcedMessage], repeats: Any = None) -> list[NumericColumn]:
    """Return the columns of origin_columns() for messages of one partition."""
    offsets = [sourced.offset for sourced in sources]
    return origin_columns(sources[0].partition, offsets, [sourced.arrived_ms for sourced in sources], repeats)


class MessageRowBuilder:
    """Builds one row per message, or one per item of a message, for one table."""

    def __init__(
        self,
        schema: TableSchema,
        keys: KeyDedup | None = None,
        identity: Callable[[Any], Hashable | None] | None = None,
        items_of: Callable[[Any], Iterable[Any]] = lambda message: (message,),
    ) -> None:
        self._schema = schema
        self._extractors = [spec.extract for spec in schema.columns]
        self._keys = keys
        self._identity = identity
        self._items_of = items_of
        self._values: list[list[Any]] = []
        self._sources: list[SourcedMessage] = []

    def add(self, sourced: SourcedMessage) -> int:
        message = sourced.message
        values = [[extract(item) for extract in self._extractors] for item in self._items_of(message)]
        if self._keys is not None and self._identity is not None:
            identity = self._identity(message)
            if identity is not None and not self._keys.is_new(identity, sourced.arrived_ms):
                return 0
        self._values += values
        self._sources += [sourced] * len(values)
        return len(values)

    def finish(self) -> list[TableRows]:
        values, sources = self._values, self._sources
        self._values, self._sources = [], []
        if not sources:
            return []
        columns: list[Column] = [
            ObjectColumn(spec.name, spec.type, column)
            for spec, column in zip(self._schema.columns, zip(*values, strict=True), strict=True)
        ]
        return [TableRows(self._schema.table, [*columns, *message_origin_columns(sources)])]


class StringDictionary:
    """The distinct strings of a LowCardinality column."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, string: str) -> int:
        """Return the code of a string."""
        return self._codes.setdefault(string, len(self._codes))

    def list_codes(self, lists: Sequence[tuple[str, ...]]) -> list[npt.NDArray[np.uint32]]:
        """Return the codes of each list of strings; look up lists that several devices share only once."""
        codes_of: dict[tuple[str, ...], npt.NDArray[np.uint32]] = {}
        for strings in lists:
            if strings not in codes_of:
                codes_of[strings] = np.fromiter((self.code(string) for string in strings), np.uint32, len(strings))
        return [codes_of[strings] for strings in lists]

    def repeated_column(self, name: str, strings: Sequence[str], repeats: Any) -> LowCardinalityColumn:
        """Return a column in which each string is repeated for the rows of its message."""
        for string in dict.fromkeys(strings):
            self.code(string)
        codes = np.fromiter(map(self._codes.__getitem__, strings), np.uint32, len(strings))
        return self.column(name, np.repeat(codes, repeats))

    def column(self, name: str, codes: Any) -> LowCardinalityColumn:
        """Return a column of these codes."""
        return LowCardinalityColumn(name, list(self._codes), codes)
