"""Recordings: what was once observed, as files, back into the messages that collectors would have sent.

Samples and events are Parquet or CSV (gzip allowed), facts, status and controls JSON lines of the proto (DESIGN 6).
A row that cannot be read is left out and said by name; the rest goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from streams.fabric.catalogue import BY_NAME, CATALOGUE, COUNTERS, Metric
from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import (
    ABSENT_COUNTER,
    NO_INDEX,
    CollectorStatus,
    Control,
    Event,
    EventKind,
    Facts,
    RowKind,
    Samples,
    Source,
    Table,
)

Model = TypeVar("Model", Facts, CollectorStatus, Control)

_SAMPLES = ("time", "device", "port", "metric", "index", "value")
_EVENTS = ("time", "device", "port", "kind", "code", "detail")
SOURCES = {source.name.removeprefix("SOURCE_").lower(): source for source in Source if source}


@dataclass(slots=True)
class Refused:
    """What could not be read: reasons with their number of rows."""

    reasons: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """One line a reason."""
        return [f"{reason}: {count} rows left out" for reason, count in sorted(self.reasons.items())]


def read_samples(paths: Sequence[Path], refused: Refused) -> list[Samples]:
    """All samples in the order (time, device, source); raises Misconfigured where a file or column is not there."""
    tables = [_prepared(_table(path, _SAMPLES), path, refused) for path in paths]
    rows = pa.concat_tables(tables)
    order = pc.sort_indices(rows, [(name, "ascending") for name in ("time", "device", "source", "boot_id", "port")])
    return list(_messages(rows.take(order).combine_chunks()))


def _table(path: Path, needed: Sequence[str]) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            with path.open("rb") as file:
                header = (pa.input_stream(file, compression="gzip") if path.suffix == ".gz" else file).read(65_536)
            names = header.decode(errors="replace").splitlines()[0].replace('"', "").split(",") if header else []
            text = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
            table = pa.csv.read_csv(path, convert_options=text)
    except (OSError, pa.ArrowException, EOFError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    if missing := [name for name in needed if name not in table.column_names]:
        raise Misconfigured(f"{path}: no column {', '.join(missing)}")
    return table


def _prepared(table: pa.Table, path: Path, refused: Refused) -> pa.Table:
    """The columns that messages are made of, typed; rows that cannot be read are left out and counted."""
    count = table.num_rows
    blank = pa.chunked_array([pa.array([""] * count, pa.string())])
    text = {
        name: pc.fill_null(table[name].cast(pa.string()), "") if name in table.column_names else blank
        for name in (*_SAMPLES, "source", "boot_id")
    }
    metric, unknown_metric = _mapped(text["metric"], lambda name: BY_NAME.get(name.lower()), "i8")
    source, unknown_source = _mapped(text["source"], lambda name: SOURCES.get(name.lower() or "gnmi"), "i8")
    times = _times(table["time"], path)
    values, bad_value = _values(text["value"])
    bad_value |= _no_counter(values, metric, ~bad_value)
    index, bad_index = _mapped(text["index"], _integer(NO_INDEX, 2**31 - 1, NO_INDEX), "i8")
    boot, bad_boot = _mapped(text["boot_id"], _integer(0, 2**64 - 1, 0), "u8")
    unnamed = np.asarray(pc.equal(text["device"].combine_chunks(), "").to_numpy(zero_copy_only=False), bool)
    kept = np.ones(count, bool)
    for wrong, reason in (
        (unknown_metric, "a metric that is not in the catalogue"), (unknown_source, "an unknown source"),
        (times == np.iinfo(np.int64).min, "no time"), (bad_value, "a value that is no number"),
        (bad_index, "an index that is no number"), (bad_boot, "a boot id that is no number"), (unnamed, "no device"),
    ):  # fmt: skip
        if number := int((wrong & kept).sum()):
            refused.reasons[f"{path.name}: {reason}"] += number
        kept &= ~wrong
    columns = {
        "time": times, "device": text["device"], "port": text["port"], "metric": metric, "index": index,
        "value": values, "source": source, "boot_id": boot,
    }  # fmt: skip
    return pa.table(columns).filter(pa.array(kept))


def _mapped(
    column: pa.ChunkedArray, convert: Callable[[str], int | None], dtype: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """What `convert` makes of each text (once for each different one), and where it makes nothing."""
    encoded = column.combine_chunks().dictionary_encode()
    made = [convert(text) for text in encoded.dictionary.to_pylist()]
    if not made:
        return np.empty(0, dtype), np.empty(0, bool)
    places = encoded.indices.to_numpy(zero_copy_only=False)
    wrong = np.array([number is None for number in made])[places]
    return np.array([number or 0 for number in made], dtype)[places], wrong


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


def _times(column: pa.ChunkedArray, path: Path) -> npt.NDArray[np.int64]:
    """Unix ns, from integers or RFC 3339; the smallest int64 where there is none."""
    absent = np.iinfo(np.int64).min
    if pa.types.is_timestamp(column.type):
        return np.asarray(column.cast(pa.timestamp("ns")).cast(pa.int64()).fill_null(absent).to_numpy(), np.int64)
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).fill_null(absent).to_numpy(), np.int64)
    try:
        numbers = pc.if_else(pc.equal(column, ""), str(absent), column).cast(pa.int64())
    except pa.ArrowInvalid:
        try:
            stamps = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            numbers = stamps.cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).fill_null(absent)
        except pa.ArrowInvalid as error:
            raise Misconfigured(f"{path}: time is neither Unix ns nor RFC 3339: {error}") from error
    return np.asarray(numbers.to_numpy(), np.int64)


_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def _values(column: pa.ChunkedArray) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    """The values as text still, because a counter does not fit a double; and which are no numbers."""
    text = column.combine_chunks()
    return text, ~np.asarray(
        pc.match_substring_regex(text, _NUMBER).fill_null(False).to_numpy(zero_copy_only=False), bool
    )


def _no_counter(
    text: pa.StringArray, metric: npt.NDArray[np.int64], numbers: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which numbers are no counter's, though their metric is one: negative, or beyond 64 bits."""
    plain = np.asarray(pc.match_substring_regex(text, r"^[0-9]{1,19}$").to_numpy(zero_copy_only=False), bool)
    counters = np.isin(metric, [int(m) for m in COUNTERS])
    wrong = np.zeros(len(text), bool)
    for row in np.flatnonzero(numbers & counters & ~plain):
        number = text[int(row)].as_py()
        exact = int(number) if number.isdigit() else float(number)
        wrong[row] = not 0 <= exact < 2**64
    return wrong


def _messages(rows: pa.Table) -> Iterator[Samples]:
    """One message for each (time, device, source, boot id)."""
    if rows.num_rows == 0:
        return
    keys = {name: rows[name].to_numpy() for name in ("time", "source", "boot_id", "metric", "index")}
    devices, ports = rows["device"].to_pylist(), rows["port"].to_pylist()
    values = rows["value"].to_pylist()
    device_codes = rows["device"].combine_chunks().dictionary_encode().indices.to_numpy()
    changes = np.zeros(rows.num_rows, bool)
    changes[0] = True
    for column in (keys["time"], keys["source"], keys["boot_id"], device_codes):
        changes[1:] |= column[1:] != column[:-1]
    starts = [*np.flatnonzero(changes).tolist(), rows.num_rows]
    sequences: Counter[str] = Counter()
    for first, last in pairwise(starts):
        device = devices[first]
        sequences[device] += 1
        own = slice(first, last)
        metrics, indices = keys["metric"][own].tolist(), keys["index"][own].tolist()
        counters, gauges, row = _tables(zip(ports[own], metrics, indices, values[own], strict=True))
        at_ns = int(keys["time"][first])
        yield Samples(
            device=device, source=Source(int(keys["source"][first])), collector="recording", collector_run=1,
            sequence=sequences[device], sampled_at_ns=at_ns, received_at_ns=at_ns,
            boot_id=int(keys["boot_id"][first]),
            row_kind=RowKind.ROW_KIND_PORT if row != ("",) else RowKind.ROW_KIND_DEVICE, row=row,
            rows_digest=0, counters=counters, gauges=gauges,
        )  # fmt: skip


def _tables(cells: Iterator[tuple[str, int, int, str]]) -> tuple[Table, Table, tuple[str, ...]]:
    rows: dict[str, int] = {}
    columns: dict[tuple[Metric, int], dict[int, str]] = {}
    for port, metric, index, value in cells:
        row = rows.setdefault(port, len(rows))
        columns.setdefault((Metric(metric), index), {})[row] = value
    tables = []
    for counter in (True, False):
        own = {key: column for key, column in columns.items() if CATALOGUE[key[0]].counter is counter}
        values: npt.NDArray[Any] = np.full(
            (len(own), len(rows)), ABSENT_COUNTER if counter else np.nan, "u8" if counter else "f8"
        )
        for place, column in enumerate(own.values()):
            for row, value in column.items():
                values[place, row] = (int(value) if value.isdigit() else int(float(value))) if counter else float(value)
        tables.append(Table(tuple(key[0] for key in own), tuple(key[1] for key in own), values))
    return tables[0], tables[1], tuple(rows)


def read_events(paths: Sequence[Path], refused: Refused) -> list[Event]:
    """All events in the order of time; raises Misconfigured where a file or column is not there."""
    events: list[Event] = []
    for path in paths:
        table = _table(path, _EVENTS)
        times = _times(table["time"], path)
        rows = table.select([c for c in (*_EVENTS, "source") if c in table.column_names]).to_pylist()
        for at_ns, row in zip(times.tolist(), rows, strict=True):
            kind = EventKind.__members__.get(str(row["kind"]).upper())
            if kind is None or not row["device"] or at_ns < 0:
                refused.reasons[f"{path.name}: an event without time, device or known kind"] += 1
                continue
            source = SOURCES.get(str(row.get("source") or "gnmi"), Source.SOURCE_GNMI)
            code = str(row["code"] or "0")
            events.append(
                Event(
                    str(row["device"]), str(row["port"] or ""), kind, at_ns, at_ns, source, "recording", 1,
                    len(events) + 1, str(row["detail"] or ""), int(code) if code.lstrip("-").isdigit() else 0,
                )
            )  # fmt: skip
    return sorted(events, key=lambda event: (event.at_ns, event.device, event.source))


def read_lines(model: type[Model], path: Path, refused: Refused) -> list[Model]:
    """Messages from JSON lines of the proto; raises Misconfigured where the file is not there."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    messages = []
    for line in lines:
        if not line.strip():
            continue
        try:
            messages.append(codec.from_json(model, line))
        except Reject as error:
            refused.reasons[f"{path.name}: {error}"] += 1
    return messages
