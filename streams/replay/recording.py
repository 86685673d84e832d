"""Recordings: what was once observed, as files, back into the messages that collectors would have sent.

Samples and events are Parquet or CSV (gzip allowed), facts, status and controls JSON lines of the proto (DESIGN 6).
A row that cannot be read is left out and said by name; the rest goes on.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from streams.replay import group_rows, table_files
from streams.replay.typed_columns import OPTIONAL, SAMPLES, SOURCES, ColumnReader, RejectedRows, TypedRows, times
from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import CollectorStatus, Control, Event, EventKind, Facts, Samples, Source

__all__ = ["RejectedRows", "read_events", "read_lines", "read_samples", "stream_samples"]

Model = TypeVar("Model", Facts, CollectorStatus, Control)

_EVENTS = ("time", "device", "port", "kind", "code", "detail")


def stream_samples(
    paths: Sequence[Path], refused: RejectedRows, piece_rows: int = table_files.CHUNK_ROWS
) -> Iterator[Samples]:
    """All samples in the order (time, device, source), as they are read; raises Misconfigured as `read_samples`."""
    reader = ColumnReader(refused)
    return group_rows.group_messages([_rows(path, reader, piece_rows) for path in paths], reader)


def read_samples(
    paths: Sequence[Path], refused: RejectedRows, piece_rows: int = table_files.CHUNK_ROWS
) -> list[Samples]:
    """All samples in the order (time, device, source); raises Misconfigured where a file or column is not there."""
    return list(stream_samples(paths, refused, piece_rows))


def _rows(path: Path, reader: ColumnReader, piece_rows: int) -> Iterator[TypedRows]:
    """The rows of a file in the order of time."""
    for piece in table_files.read_chunks(path, SAMPLES, (*SAMPLES, *OPTIONAL), piece_rows):
        rows = reader.read(piece, path)
        yield rows if bool((np.diff(rows.time) >= 0).all()) else rows.select(np.argsort(rows.time, kind="stable"))


def read_events(paths: Sequence[Path], refused: RejectedRows) -> list[Event]:
    """All events in the order of time; raises Misconfigured where a file or column is not there."""
    events: list[Event] = []
    for path in paths:
        table = table_files.read_table(path, _EVENTS)
        at = times(table["time"], path)
        rows = table.select([c for c in (*_EVENTS, "source") if c in table.column_names]).to_pylist()
        for at_ns, row in zip(at.tolist(), rows, strict=True):
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


def read_lines(model: type[Model], path: Path, refused: RejectedRows) -> list[Model]:
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
