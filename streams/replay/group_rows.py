"""Groups the rows of recordings into messages: one for each (time, device, source, boot), in this order.

Merges streams of rows, each sorted by time; rows of one device and time in several files form one message. The memory
has one chunk of each stream, and rows as new as the other streams' newest rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.replay.typed_columns import ColumnReader, TypedRows, concatenate
from streams.store.cell_layout import CellLayoutCache, Ints
from streams.wire.models import RowKind, Samples, Source

_SOURCES = {int(source): source for source in Source}


def group_messages(streams: Iterable[Iterator[TypedRows]], reader: ColumnReader) -> Iterator[Samples]:
    """Yield all messages of these streams, in the order (time, device, source, boot)."""
    builder = _MessageBuilder(reader)
    for rows in _merged([_Stream(rows) for rows in streams]):
        yield from builder.build(rows)


class _Stream:
    """A stream of rows in the order of time, with a buffer."""

    def __init__(self, chunks: Iterator[TypedRows]) -> None:
        self._chunks = chunks
        self.buffer: TypedRows | None = None
        self.is_exhausted = False
        self.fill()

    def fill(self) -> None:
        """Buffer the next chunk, if there is one."""
        chunk = next((chunk for chunk in self._chunks if len(chunk)), None)
        self.is_exhausted = chunk is None
        self.buffer = (
            concatenate([rows for rows in (self.buffer, chunk) if rows is not None])
            if not self.is_exhausted
            else self.buffer
        )

    @property
    def newest_ns(self) -> int | None:
        """The time of the last buffered row."""
        return None if self.buffer is None else int(self.buffer.time[-1])

    def take_until(self, until_ns: int | None) -> TypedRows | None:
        """Remove and return the rows before a time, or all rows if the time is None."""
        rows = self.buffer
        if rows is None:
            return None
        end = len(rows) if until_ns is None else int(np.searchsorted(rows.time, until_ns))
        self.buffer = rows.select(slice(end, None)) if end < len(rows) else None
        return rows.select(slice(end)) if end else None


def _merged(streams: Sequence[_Stream]) -> Iterator[TypedRows]:
    """Yield the rows of all streams up to the time that every stream has reached."""
    while any(stream.buffer is not None for stream in streams):
        # The next chunk of a stream may have more rows with the stream's newest time.
        newest = [stream.newest_ns for stream in streams if not stream.is_exhausted]
        until = min((at for at in newest if at is not None), default=None)
        ready = [rows for stream in streams if (rows := stream.take_until(until)) is not None]
        if ready:
            yield concatenate(ready)
        for stream in streams:
            if not stream.is_exhausted and stream.newest_ns == until:
                stream.fill()


class _MessageBuilder:
    """Builds messages from rows, with a sequence number per device."""

    def __init__(self, reader: ColumnReader) -> None:
        self._devices = reader.devices
        self._layouts = CellLayoutCache(reader.ports)
        self._sequences: dict[str, int] = {}

    def build(self, rows: TypedRows) -> Iterator[Samples]:
        """Yield the messages of rows that are sorted by time."""
        starts, ends, rows = _message_bounds(rows, self._devices.sort_ranks)
        heads = [column[starts].tolist() for column in (rows.time, rows.device, rows.source, rows.boot)]
        names, sequences, layouts = self._devices.names, self._sequences, self._layouts
        port, column, words = rows.port, rows.column, rows.words
        for first, last, at_ns, number, source, boot in zip(starts.tolist(), ends.tolist(), *heads, strict=True):
            device = names[number]
            sequence = sequences[device] = sequences.get(device, 0) + 1
            layout = layouts.layout_of(port[first:last], column[first:last])
            counters, gauges = layout.tables(words[first:last])
            kind = RowKind.ROW_KIND_PORT if layout.row != ("",) else RowKind.ROW_KIND_DEVICE
            yield Samples(
                device, _SOURCES[source], "recording", 1, sequence, at_ns, at_ns, boot, kind, layout.row, 0,
                counters, gauges,
            )  # fmt: skip


def _message_bounds(rows: TypedRows, order: Ints) -> tuple[Ints, Ints, TypedRows]:
    """Return the start and end of each message in order, and the rows, contiguous per message.

    Usually the rows are contiguous already. Otherwise sorts runs of rows of one message, without changing their order.
    """
    starts = np.flatnonzero(np.append(True, _differs(rows.time, rows.device, rows.source, rows.boot)))
    ends = np.append(starts[1:], len(rows))
    keys = (rows.boot[starts], rows.source[starts], order[rows.device[starts]], rows.time[starts])
    order_of_runs = np.lexsort(keys)
    is_new = _differs(*(key[order_of_runs] for key in keys))
    if is_new.all():
        return starts[order_of_runs], ends[order_of_runs], rows
    lengths = (ends - starts)[order_of_runs]
    begins = np.cumsum(lengths) - lengths
    rows = rows.select(np.repeat(starts[order_of_runs] - begins, lengths) + np.arange(len(rows)))
    starts = begins[np.append(True, is_new)]
    return starts, np.append(starts[1:], len(rows)), rows


def _differs(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask, from the second row on, of rows that differ from the previous row in any of these columns."""
    differs = np.zeros(max(0, len(columns[0]) - 1), bool)
    for column in columns:
        differs |= column[1:] != column[:-1]
    return differs
