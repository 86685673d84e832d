"""The rows of recordings as messages: one for each (time, device, source, boot), in this order.

Streams of rows, each in the order of time, become one; what several files say of one device at one time is one message.
Of a stream no more is held than a piece and what is not older than the other streams' newest.
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
    """All messages of these streams, in the order (time, device, source, boot)."""
    maker = _Maker(reader)
    for rows in _in_time([_Stream(own) for own in streams]):
        yield from maker.made(rows)


class _Stream:
    """Rows in the order of time, of which some are held."""

    def __init__(self, pieces: Iterator[TypedRows]) -> None:
        self._pieces = pieces
        self.held: TypedRows | None = None
        self.over = False
        self.fill()

    def fill(self) -> None:
        """Hold one piece more, if there is one."""
        more = next((piece for piece in self._pieces if len(piece)), None)
        self.over = more is None
        self.held = concatenate([own for own in (self.held, more) if own is not None]) if not self.over else self.held

    @property
    def newest_ns(self) -> int | None:
        """The time of the last row that is held."""
        return None if self.held is None else int(self.held.time[-1])

    def cut(self, until_ns: int | None) -> TypedRows | None:
        """Give away what is older; all without a time."""
        own = self.held
        if own is None:
            return None
        place = len(own) if until_ns is None else int(np.searchsorted(own.time, until_ns))
        self.held = own.select(slice(place, None)) if place < len(own) else None
        return own.select(slice(place)) if place else None


def _in_time(streams: Sequence[_Stream]) -> Iterator[TypedRows]:
    """The rows of all streams, cut where time has passed in each of them."""
    while any(stream.held is not None for stream in streams):
        # Of the newest time of a stream more may come with its next piece.
        newest = [stream.newest_ns for stream in streams if not stream.over]
        until = min((at for at in newest if at is not None), default=None)
        ready = [own for stream in streams if (own := stream.cut(until)) is not None]
        if ready:
            yield concatenate(ready)
        for stream in streams:
            if not stream.over and stream.newest_ns == until:
                stream.fill()


class _Maker:
    """Makes messages of rows; numbers those of each device on and on."""

    def __init__(self, reader: ColumnReader) -> None:
        self._devices = reader.devices
        self._patterns = CellLayoutCache(reader.ports)
        self._sequences: dict[str, int] = {}

    def made(self, rows: TypedRows) -> Iterator[Samples]:
        """The messages of rows that are in the order of time."""
        starts, ends, rows = _runs(rows, self._devices.sort_ranks)
        heads = [column[starts].tolist() for column in (rows.time, rows.device, rows.source, rows.boot)]
        names, sequences, patterns = self._devices.names, self._sequences, self._patterns
        port, column, words = rows.port, rows.column, rows.words
        for first, last, at_ns, number, source, boot in zip(starts.tolist(), ends.tolist(), *heads, strict=True):
            device = names[number]
            sequence = sequences[device] = sequences.get(device, 0) + 1
            pattern = patterns.layout_of(port[first:last], column[first:last])
            counters, gauges = pattern.tables(words[first:last])
            kind = RowKind.ROW_KIND_PORT if pattern.row != ("",) else RowKind.ROW_KIND_DEVICE
            yield Samples(
                device, _SOURCES[source], "recording", 1, sequence, at_ns, at_ns, boot, kind, pattern.row, 0,
                counters, gauges,
            )  # fmt: skip


def _runs(rows: TypedRows, order: Ints) -> tuple[Ints, Ints, TypedRows]:
    """Where each message begins and ends, in their order, and the rows with those of a message together.

    Mostly they are so already. Sorting is of runs of rows of one message, not of rows, and keeps their order.
    """
    starts = _starts(rows)
    ends = np.append(starts[1:], len(rows))
    keys = (rows.boot[starts], rows.source[starts], order[rows.device[starts]], rows.time[starts])
    placed = np.lexsort(keys)
    apart = _differs(*(key[placed] for key in keys))
    if apart.all():
        return starts[placed], ends[placed], rows
    lengths = (ends - starts)[placed]
    begins = np.cumsum(lengths) - lengths
    rows = rows.select(np.repeat(starts[placed] - begins, lengths) + np.arange(len(rows)))
    starts = begins[np.append(True, apart)]
    return starts, np.append(starts[1:], len(rows)), rows


def _starts(rows: TypedRows) -> Ints:
    return np.flatnonzero(np.append(True, _differs(rows.time, rows.device, rows.source, rows.boot)))


def _differs(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a row is not as the one before in all of these, from the second row on."""
    found = np.zeros(max(0, len(columns[0]) - 1), bool)
    for column in columns:
        found |= column[1:] != column[:-1]
    return found
