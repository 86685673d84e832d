"""Reads recordings: files of past observations, as the messages that collectors would have sent.

Samples and events are Parquet or CSV (gzip allowed), facts, status and controls JSON lines of the proto (DESIGN 6).
A row that cannot be read is skipped and counted by reason.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from streams.replay import group_rows, table_files
from streams.replay.typed_columns import OPTIONAL, SAMPLES, SOURCES, ColumnReader, RejectedRows, TypedRows, times
from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import CollectorStatus, Control, Event, EventKind, Facts, Samples

__all__ = ["RejectedRows", "read_events", "read_lines", "read_samples", "stream_samples"]

Model = TypeVar("Model", Facts, CollectorStatus, Control)

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_EVENTS = ("time", "device", "port", "kind", "code", "detail")


def stream_samples(
    paths: Sequence[Path], rejected: RejectedRows, chunk_rows: int = table_files.CHUNK_ROWS
) -> Iterator[Samples]:
    """Yield all samples in the order (time, device, source) as files are read; raises like `read_samples`."""
    reader = ColumnReader(rejected)
    return group_rows.group_messages([_rows(path, reader, chunk_rows) for path in paths], reader)


def read_samples(
    paths: Sequence[Path], rejected: RejectedRows, chunk_rows: int = table_files.CHUNK_ROWS
) -> list[Samples]:
    """Return all samples in the order (time, device, source); raises Misconfigured for a missing file or column."""
    return list(stream_samples(paths, rejected, chunk_rows))


def _rows(path: Path, reader: ColumnReader, chunk_rows: int) -> Iterator[TypedRows]:
    """Yield the rows of a file in the order of time."""
    for chunk in table_files.read_chunks(path, SAMPLES, (*SAMPLES, *OPTIONAL), chunk_rows):
        rows = reader.read(chunk, path)
        yield rows if bool((np.diff(rows.time) >= 0).all()) else rows.select(np.argsort(rows.time, kind="stable"))


def read_events(paths: Sequence[Path], rejected: RejectedRows) -> list[Event]:
    """Return all events in the order of time; raises Misconfigured for a missing file or column."""
    events: list[Event] = []
    for path in paths:
        table = table_files.read_table(path, _EVENTS)
        at = times(table["time"], path)
        rows = table.select([c for c in (*_EVENTS, "source") if c in table.column_names]).to_pylist()
        for at_ns, row in zip(at.tolist(), rows, strict=True):
            kind = EventKind.__members__.get(str(row["kind"]).upper())
            source = SOURCES.get(str(row.get("source") or "gnmi").lower())
            code = str(row["code"] or "0")
            if kind is None or not row["device"] or at_ns < 0:
                rejected.reasons[f"{path.name}: events without time, device or known kind"] += 1
            elif source is None or not _INTEGER.fullmatch(code):
                what = "of unknown source" if source is None else "whose code is not a number"
                rejected.reasons[f"{path.name}: events {what}"] += 1
            else:
                events.append(
                    Event(
                        str(row["device"]), str(row["port"] or ""), kind, at_ns, at_ns, source, "recording", 1,
                        len(events) + 1, str(row["detail"] or ""), int(code),
                    )
                )  # fmt: skip
    return sorted(events, key=lambda event: (event.at_ns, event.device, event.source))


def read_lines(model: type[Model], path: Path, rejected: RejectedRows) -> list[Model]:
    """Return messages from JSON lines of the proto; raises Misconfigured where the file cannot be read."""
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
            rejected.reasons[f"{path.name}: {error}"] += 1
    return messages
