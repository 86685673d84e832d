"""The rows of a recording as typed columns: what each value means; rows that cannot be read are left out by name.

Texts become numbers once for each different one, so that no Python runs for a row. A row whose value is no plain number
of its kind (a counter of 20 digits, or written as a float) is looked at by itself.
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
    """What could not be read: reasons with their number of rows."""

    reasons: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """One line a reason."""
        return [f"{reason}: {count} rows left out" for reason, count in sorted(self.reasons.items())]


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Columns of one length: `device` and `port` are numbers of names, `column` a metric with its index."""

    time: Ints
    device: Codes
    source: npt.NDArray[np.int8]
    boot: Words
    port: Codes
    column: Ints
    words: Words

    def __len__(self) -> int:
        return len(self.time)

    def select(self, which: Any) -> "TypedRows":
        """Those of these places."""
        return TypedRows(*(getattr(self, name)[which] for name in _COLUMNS))


_COLUMNS = [column.name for column in fields(TypedRows)]


def concatenate(rows: Sequence[TypedRows]) -> TypedRows:
    """One after the other."""
    if len(rows) == 1:
        return rows[0]
    return TypedRows(*(np.concatenate([getattr(own, name) for own in rows]) for name in _COLUMNS))


@dataclass(slots=True)
class ColumnReader:
    """Types the rows of one recording; the numbers of its names hold for all its files."""

    rejected: RejectedRows
    devices: NameTable = field(default_factory=NameTable)
    ports: NameTable = field(default_factory=NameTable)

    def read(self, table: pa.Table, path: Path) -> TypedRows:
        """The rows of a piece of a file that can be read; raises Misconfigured where its times cannot."""
        metric = _told(table, "metric", lambda name: BY_NAME.get(name.lower()))
        source = _told(table, "source", lambda name: SOURCES.get(name.lower() or "gnmi"))
        no_metric, no_source = metric.wrong, source.wrong
        index, no_index = _counted(table, "index", NO_INDEX, 2**31 - 1, NO_INDEX)
        boot, no_boot = _counted(table, "boot_id", 0, 2**64 - 1, 0)
        time = times(table["time"], path)
        words, no_value = _words(table["value"], metric.each(lambda number: number in COUNTERS, np.bool_), no_metric)
        device, unnamed = _named(table["device"], self.devices)
        port, _ = _named(table["port"], self.ports)
        no_time = time == _NO_TIME
        kept: Mask | None = None
        for wrong, reason in (
            (no_metric, "a metric that is not in the catalogue"), (no_source, "an unknown source"),
            (no_time, "no time"), (no_value, "a value that is no number"),
            (no_index, "an index that is no number"), (no_boot, "a boot id that is no number"), (unnamed, "no device"),
        ):  # fmt: skip
            if wrong is None or not wrong.any():
                continue
            kept = np.ones(table.num_rows, bool) if kept is None else kept
            if number := int(np.count_nonzero(wrong & kept)):
                self.rejected.reasons[f"{path.name}: {reason}"] += number
            kept &= ~wrong
        column = metric.each(lambda number: column_code(number, 0), np.int64) + index
        rows = TypedRows(time, device, source.each(int, np.int8), boot, port, column, words)
        return rows if kept is None else rows.select(kept)


@dataclass(frozen=True, slots=True)
class _Told:
    """What each different text of a column means, None where that is nothing, and which of them each row has."""

    made: Sequence[int | None]
    places: pa.Array

    def each(self, convert: Callable[[int], int], kind: Any) -> npt.NDArray[Any]:
        """What is made of it, row by row; 0 is converted where it means nothing."""
        return _spread(np.array([convert(number or 0) for number in self.made], kind), self.places)

    @property
    def wrong(self) -> Mask | None:
        """The rows of which it means nothing; None where there are none."""
        return _marked([number is None for number in self.made], self.places)


def _spread(own: npt.NDArray[Any], places: pa.Array) -> npt.NDArray[Any]:
    """For each row what its text has. Arrow does it in half the time that numpy's index takes, flags as bytes."""
    plain = own.view(np.uint8) if own.dtype == np.bool_ else own
    return np.asarray(pc.take(pa.array(plain), places).to_numpy()).view(own.dtype)


def _marked(own: Sequence[bool], places: pa.Array) -> Mask | None:
    """The rows whose text is one of the marked ones; None where no text is."""
    return _spread(np.array(own, np.bool_), places) if any(own) else None


def _text(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column of names as numbers and names; an absent one is empty."""
    if not pa.types.is_dictionary(column.type):
        column = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if whole.null_count:
        whole = pc.fill_null(whole.cast(pa.string()), "").dictionary_encode()
    return whole


def _named(column: pa.ChunkedArray, names: NameTable) -> tuple[Codes, Mask | None]:
    """The numbers of names, and where there is none."""
    text = _text(column)
    own = [str(name) for name in text.dictionary.to_pylist()]
    # Half as wide as they might be: a message's are its pattern's key.
    codes = names.codes(own).astype(np.int32)
    return _spread(codes, text.indices), _marked([name == "" for name in own], text.indices)


def _counted(table: pa.Table, name: str, low: int, high: int, blank: int) -> tuple[Any, Mask | None]:
    """The integers in [low, high] of a column; an absent one is `blank`,."""
    kind = np.int64 if low < 0 else np.uint64
    if name in table.column_names and pa.types.is_integer((column := table[name]).type):
        if column.null_count == len(column):
            return np.full(len(column), blank, kind), None
        numbers = column.fill_null(blank).to_numpy() if column.null_count else column.to_numpy()
        return numbers.astype(kind, copy=False), (numbers < low) | (numbers > high)
    told = _told(table, name, _integer(low, high, blank))
    return told.each(int, kind), told.wrong


def _told(table: pa.Table, name: str, convert: Callable[[str], int | None]) -> _Told:
    """What `convert` makes of each different text of a column; an absent column is empty texts."""
    if name not in table.column_names:
        return _Told([convert("")], pa.array(np.zeros(table.num_rows, np.int32)))
    text = _text(table[name])
    return _Told([convert(str(own)) for own in text.dictionary.to_pylist()], text.indices)


def _integer(low: int, high: int, blank: int) -> Callable[[str], int | None]:
    """A reader of integers in [low, high]; an empty text is `blank`."""

    def read(text: str) -> int | None:
        if text == "":
            return blank
        try:
            return number if low <= (number := int(text)) <= high else None
        except ValueError:
            return None

    return read


def times(column: pa.ChunkedArray, path: Path) -> Ints:
    """Unix ns, from integers or RFC 3339; the smallest int64 where there is none."""
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
            raise Misconfigured(f"{path}: time is neither Unix ns nor RFC 3339: {error}") from error
    return np.asarray(numbers.fill_null(_NO_TIME).to_numpy(), np.int64)


def _words(column: pa.ChunkedArray, counter: Mask, unknown: Mask | None) -> tuple[Words, Mask]:
    """The values as words, counters exactly, and which are no values of their kind."""
    if pa.types.is_floating(column.type):
        return _of_floats(column.to_numpy().astype(np.float64, copy=False), counter)
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        words = np.where(counter, numbers.astype(np.uint64), numbers.astype(np.float64).view(np.uint64))
        return words, counter & (numbers < 0)
    known = counter if unknown is None else counter & ~unknown
    return _of_text(pc.fill_null(column.cast(pa.string()), "").combine_chunks(), known)


def _of_floats(numbers: npt.NDArray[np.float64], counter: Mask) -> tuple[Words, Mask]:
    # All rows in each step: to pick out the counters takes longer than to convert the rest in vain.
    wrong = ~np.isfinite(numbers) | (counter & ~((numbers >= 0) & (numbers < 2.0**64)))
    with np.errstate(invalid="ignore"):
        words = np.where(counter, numbers.astype(np.uint64), numbers.view(np.uint64))
    if wrong.any():
        words[wrong] = 0
    return words, wrong


def _of_text(text: pa.StringArray, counter: Mask) -> tuple[Words, Mask]:
    """A counter does not fit a double, so that plain digits are read as they are."""
    number = np.asarray(pc.match_substring_regex(text, _NUMBER).to_numpy(zero_copy_only=False), bool)
    plain = number & counter
    if plain.any():
        plain &= np.asarray(pc.match_substring_regex(text, _PLAIN).to_numpy(zero_copy_only=False), bool)
    read = pc.if_else(pa.array(number), pc.replace_substring_regex(text, r"^\+", ""), "0")
    words, wrong = _of_floats(read.cast(pa.float64()).to_numpy(), counter & ~plain & number)
    if plain.any():
        words[plain] = text.filter(pa.array(plain)).cast(pa.uint64()).to_numpy()
    for row in np.flatnonzero(number & counter & ~plain):
        said = text[int(row)].as_py()
        exact = int(said) if said.isdigit() else int(float(said)) if not wrong[row] else -1
        wrong[row] = not 0 <= exact < 2**64
        words[row] = 0 if wrong[row] else exact
    return words, wrong | ~number
