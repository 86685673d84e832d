"""Converts the rows of a recording to typed columns; skips unreadable rows and counts them by reason.

Converts each distinct text once, so no Python runs per row. Only rows with unusual numbers (a counter of 20 digits, or
written as a float) are converted one by one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.fabric.catalogue import BY_NAME, COUNTERS
from streams.store.cell_layout import Codes, Ints, NameTable, Words, column_code
from streams.wire.errors import Misconfigured
from streams.wire.models import NO_INDEX, Source

SAMPLES = ("time", "device", "port", "metric", "index", "value")
OPTIONAL = ("source", "boot_id")
SOURCES = {source.label: source for source in Source if source}

_NO_TIME = np.iinfo(np.int64).min
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_PLAIN = r"^[0-9]{1,19}$"
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class RejectedRows:
    """The rows that could not be read, counted by reason."""

    reasons: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """Return a line for each reason."""
        return [f"{reason}: {count} rows skipped" for reason, count in sorted(self.reasons.items())]


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Columns of equal length: `device` and `port` are name numbers, `column` is a metric with its index."""

    time: Ints
    device: Codes
    source: npt.NDArray[np.int8]
    boot: Words
    port: Codes
    column: Ints
    words: Words

    def __len__(self) -> int:
        return len(self.time)

    def select(self, rows: Any) -> "TypedRows":
        """Return the selected rows."""
        return TypedRows(*(getattr(self, name)[rows] for name in _COLUMNS))


_COLUMNS = [column.name for column in fields(TypedRows)]


def concatenate(rows: Sequence[TypedRows]) -> TypedRows:
    """Concatenate rows."""
    if len(rows) == 1:
        return rows[0]
    return TypedRows(*(np.concatenate([getattr(part, name) for part in rows]) for name in _COLUMNS))


@dataclass(slots=True)
class ColumnReader:
    """Converts the rows of one recording; all its files share the name numbers."""

    rejected: RejectedRows
    devices: NameTable = field(default_factory=NameTable)
    ports: NameTable = field(default_factory=NameTable)

    def read(self, table: pa.Table, path: Path) -> TypedRows:
        """Return the readable rows of a chunk of a file; raises Misconfigured if its times cannot be read."""
        metric = _distinct_values(table, "metric", lambda name: BY_NAME.get(name.lower()))
        source = _distinct_values(table, "source", lambda name: SOURCES.get(name.lower() or "gnmi"))
        no_metric, no_source = metric.wrong, source.wrong
        index, no_index = _integers(table, "index", NO_INDEX, 2**31 - 1, NO_INDEX)
        boot, no_boot = _integers(table, "boot_id", 0, 2**64 - 1, 0)
        time = times(table["time"], path)
        words, no_value = _value_words(
            table["value"], metric.each(lambda number: number in COUNTERS, np.bool_), no_metric
        )
        device, no_device = _name_codes(table["device"], self.devices)
        port, _ = _name_codes(table["port"], self.ports)
        no_time = time == _NO_TIME
        valid: Mask | None = None
        for wrong, reason in (
            (no_metric, "the metric is not in the catalogue"), (no_source, "unknown source"),
            (no_time, "no time"), (no_value, "the value is not a number"),
            (no_index, "the index is not a number"), (no_boot, "the boot id is not a number"), (no_device, "no device"),
        ):  # fmt: skip
            if wrong is None or not wrong.any():
                continue
            valid = np.ones(table.num_rows, bool) if valid is None else valid
            if number := int(np.count_nonzero(wrong & valid)):
                self.rejected.reasons[f"{path.name}: {reason}"] += number
            valid &= ~wrong
        column = metric.each(lambda number: column_code(number, 0), np.int64) + index
        rows = TypedRows(time, device, source.each(int, np.int8), boot, port, column, words)
        return rows if valid is None else rows.select(valid)


@dataclass(frozen=True, slots=True)
class _DistinctValues:
    """The value of each distinct text of a column (None: invalid), and the number of each row's text."""

    values: Sequence[int | None]
    indices: pa.Array

    def each(self, convert: Callable[[int], int], kind: Any) -> npt.NDArray[Any]:
        """Return the converted value of each row; an invalid value becomes the conversion of 0."""
        return _spread(np.array([convert(number or 0) for number in self.values], kind), self.indices)

    @property
    def wrong(self) -> Mask | None:
        """The mask of rows with an invalid text; None without such rows."""
        return _marked([number is None for number in self.values], self.indices)


def _spread(values: npt.NDArray[Any], indices: pa.Array) -> npt.NDArray[Any]:
    """Return the value of each row's text; Arrow takes half the time of numpy's indexing, with flags as bytes."""
    plain = values.view(np.uint8) if values.dtype == np.bool_ else values
    return np.asarray(pc.take(pa.array(plain), indices).to_numpy()).view(values.dtype)


def _marked(marks: Sequence[bool], indices: pa.Array) -> Mask | None:
    """Return the mask of rows with a marked text; None if no text is marked."""
    return _spread(np.array(marks, np.bool_), indices) if any(marks) else None


def _text(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column of names as a dictionary; an absent name is empty."""
    if not pa.types.is_dictionary(column.type):
        column = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    if encoded.null_count:
        encoded = pc.fill_null(encoded.cast(pa.string()), "").dictionary_encode()
    return encoded


def _name_codes(column: pa.ChunkedArray, names: NameTable) -> tuple[Codes, Mask | None]:
    """Return the name numbers, and the mask of rows without a name."""
    text = _text(column)
    distinct = [str(name) for name in text.dictionary.to_pylist()]
    # int32, half the width of the codes, because a message's codes are the key of its cell layout.
    codes = names.codes(distinct).astype(np.int32)
    return _spread(codes, text.indices), _marked([name == "" for name in distinct], text.indices)


def _integers(table: pa.Table, name: str, low: int, high: int, default: int) -> tuple[Any, Mask | None]:
    """Return a column as integers, and the mask of rows outside of [low, high]; an absent integer becomes `default`."""
    kind = np.int64 if low < 0 else np.uint64
    if name in table.column_names and pa.types.is_integer((column := table[name]).type):
        if column.null_count == len(column):
            return np.full(len(column), default, kind), None
        numbers = column.fill_null(default).to_numpy() if column.null_count else column.to_numpy()
        return numbers.astype(kind, copy=False), (numbers < low) | (numbers > high)
    distinct = _distinct_values(table, name, _integer(low, high, default))
    return distinct.each(int, kind), distinct.wrong


def _distinct_values(table: pa.Table, name: str, convert: Callable[[str], int | None]) -> _DistinctValues:
    """Convert each distinct text of a column; an absent column counts as empty texts."""
    if name not in table.column_names:
        return _DistinctValues([convert("")], pa.array(np.zeros(table.num_rows, np.int32)))
    text = _text(table[name])
    return _DistinctValues([convert(str(value)) for value in text.dictionary.to_pylist()], text.indices)


def _integer(low: int, high: int, default: int) -> Callable[[str], int | None]:
    """Return a converter to integers in [low, high]; an empty text becomes `default`."""

    def read(text: str) -> int | None:
        if text == "":
            return default
        try:
            return number if low <= (number := int(text)) <= high else None
        except ValueError:
            return None

    return read


def times(column: pa.ChunkedArray, path: Path) -> Ints:
    """Return Unix nanoseconds from integers or RFC 3339; an absent time becomes the smallest int64."""
    if pa.types.is_timestamp(column.type):
        return np.asarray(column.cast(pa.timestamp("ns")).cast(pa.int64()).fill_null(_NO_TIME).to_numpy(), np.int64)
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).fill_null(_NO_TIME).to_numpy(), np.int64)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    try:
        numbers = pc.if_else(pc.equal(column, ""), str(_NO_TIME), column).cast(pa.int64())
    except pa.ArrowInvalid:
        try:
            stamps = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            numbers = stamps.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise Misconfigured(
                f"{path}: the column time has neither Unix nanoseconds nor RFC 3339: {error}"
            ) from error
    return np.asarray(numbers.fill_null(_NO_TIME).to_numpy(), np.int64)


def _value_words(column: pa.ChunkedArray, counter: Mask, unknown: Mask | None) -> tuple[Words, Mask]:
    """Return the values as words (counters exactly), and the mask of rows with an invalid value."""
    if pa.types.is_floating(column.type):
        return _words_of_floats(column.to_numpy().astype(np.float64, copy=False), counter)
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        words = np.where(counter, numbers.astype(np.uint64), numbers.astype(np.float64).view(np.uint64))
        return words, counter & (numbers < 0)
    known = counter if unknown is None else counter & ~unknown
    return _words_of_text(pc.fill_null(column.cast(pa.string()), "").combine_chunks(), known)


def _words_of_floats(numbers: npt.NDArray[np.float64], counter: Mask) -> tuple[Words, Mask]:
    # Each step converts all rows, because selecting the counters takes longer than converting the other values too.
    wrong = ~np.isfinite(numbers) | (counter & ~((numbers >= 0) & (numbers < 2.0**64)))
    with np.errstate(invalid="ignore"):
        words = np.where(counter, numbers.astype(np.uint64), numbers.view(np.uint64))
    if wrong.any():
        words[wrong] = 0
    return words, wrong


def _words_of_text(text: pa.StringArray, counter: Mask) -> tuple[Words, Mask]:
    """Return the words of texts; converts plain digits as integers, because a double may not represent a counter."""
    number = np.asarray(pc.match_substring_regex(text, _NUMBER).to_numpy(zero_copy_only=False), bool)
    plain = number & counter
    if plain.any():
        plain &= np.asarray(pc.match_substring_regex(text, _PLAIN).to_numpy(zero_copy_only=False), bool)
    read = pc.if_else(pa.array(number), pc.replace_substring_regex(text, r"^\+", ""), "0")
    words, wrong = _words_of_floats(read.cast(pa.float64()).to_numpy(), counter & ~plain & number)
    if plain.any():
        words[plain] = text.filter(pa.array(plain)).cast(pa.uint64()).to_numpy()
    for row in np.flatnonzero(number & counter & ~plain):
        digits = text[int(row)].as_py()
        exact = int(digits) if digits.isdigit() else int(float(digits)) if not wrong[row] else -1
        wrong[row] = not 0 <= exact < 2**64
        words[row] = 0 if wrong[row] else exact
    return words, wrong | ~number
