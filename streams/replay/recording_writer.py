"""Writes a recording: messages as the files that `backtest` reads (docs/recordings.md).

Each row of samples has one value; absent values have no row. Rows of GPUs and other parts are omitted and counted,
because the format has no column for them.
"""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from streams.wire import codec
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, CollectorStatus, Control, Event, Facts, RowKind, Samples

SAMPLES, EVENTS = "samples.csv.gz", "events.csv.gz"
_LINES: dict[type[Any], str] = {Facts: "facts.jsonl", CollectorStatus: "status.jsonl", Control: "controls.jsonl"}
_SAMPLE_COLUMNS = ("time", "device", "port", "metric", "index", "value", "source", "boot_id")
_EVENT_COLUMNS = ("time", "device", "port", "kind", "code", "detail", "source")
_LEVEL = 6

Recorded = Samples | Event | Facts | CollectorStatus | Control


def write_recording(messages: Iterable[Recorded], folder: Path) -> Counter[str]:
    """Write the files into the folder; return the number of rows of each file, and of omitted rows."""
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        samples = stack.enter_context(_Table(folder / SAMPLES, _SAMPLE_COLUMNS))
        events = stack.enter_context(_Table(folder / EVENTS, _EVENT_COLUMNS))
        lines = {kind: stack.enter_context((folder / name).open("wb")) for kind, name in _LINES.items()}
        for message in messages:
            match message:
                case Samples() if message.row_kind is RowKind.ROW_KIND_PORT or message.row == ("",):
                    counts[SAMPLES] += samples.write(_values(message))
                case Samples():
                    counts["left out"] += len(message.row)
                case Event():
                    counts[EVENTS] += events.write([_event(message)])
                case _:
                    _write_line(lines[type(message)], message)
                    counts[_LINES[type(message)]] += 1
    for name in _LINES.values():
        if not counts[name]:
            (folder / name).unlink()
    return counts


class _Table:
    """A CSV file, compressed without a timestamp, so that equal messages give equal bytes."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self._stack = ExitStack()
        raw = self._stack.enter_context(path.open("wb"))
        packed = self._stack.enter_context(
            gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0)
        )
        text = self._stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8", newline=""))
        self._writer = csv.writer(text, lineterminator="\n")
        self._writer.writerow(columns)

    def write(self, rows: Iterable[tuple[object, ...]]) -> int:
        count = 0
        for row in rows:
            self._writer.writerow(row)
            count += 1
        return count

    def __enter__(self) -> "_Table":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _values(message: Samples) -> Iterator[tuple[object, ...]]:
    """Yield the values of one reading, port by port."""
    source = message.source.label
    for number, port in enumerate(message.row):
        delay_ns = 1000 * message.row_delay_us[number] if message.row_delay_us else 0
        for table, is_counter in ((message.counters, True), (message.gauges, False)):
            for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
                value = values[number]
                if value == ABSENT_COUNTER if is_counter else np.isnan(value):
                    continue
                yield (
                    message.sampled_at_ns + delay_ns, message.device, port, metric.name.lower(),
                    "" if index == NO_INDEX else index, int(value) if is_counter else repr(float(value)),
                    source, message.boot_id,
                )  # fmt: skip


def _event(event: Event) -> tuple[object, ...]:
    return (
        event.at_ns, event.device, event.port, event.kind.name.lower(), event.code, event.detail, event.source.label,
    )  # fmt: skip


def _write_line(file: BinaryIO, message: Facts | CollectorStatus | Control) -> None:
    file.write(codec.to_json(message) + b"\n")
