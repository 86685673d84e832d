"""Messages of Samples that differ from an earlier one in their numbers only, read without parsing them.

From reading to reading a device sends the same bytes but for the sequence, the times and the values: names, columns
and lengths repeat. What one message taught is compared as bytes, which is exact, and the rest is read at known places.
Whatever does not fit is left to the parser. That spares most of what decoding costs (`python -m tests.bench.
measure_cost` prints it), and the parser's habit of giving all free memory back to the system every 10,000 frees
(malloc_trim in protobuf's C code), which had each block of the sink's in pages that were mapped and cleared anew.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streams.fabric.catalogue import Metric
from streams.wire.models import RowKind, Samples, Source, Table

_COUNTER, _GAUGE = np.dtype("<u8"), np.dtype("<f8")

_SEQUENCE, _SAMPLED_AT, _RECEIVED_AT, _BOOT_ID = 0x28, 0x31, 0x39, 0x41
"""The first byte of each field that changes: its number and its wire type."""
_TIMES = struct.Struct("<BqBq")
_FIXED64 = struct.Struct("<Q")

_SEQUENCE_FIELD, _SAMPLED_FIELD, _RECEIVED_FIELD, _BOOT_FIELD = 5, 6, 7, 8
_ROW, _COUNTERS, _GAUGES = 10, 12, 13
_VALUES = 3

_MAX_DEVICES = 1 << 17
"""Six times the sources of the largest published fabric, 21,504."""

_MAX_BODY_BYTES = 64 << 20
_MAX_TEMPLATES_PER_DEVICE = 8
"""Kinds of rows and sources that a device has at once; a collector that restarts adds one, and the oldest goes."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of one table; `shape` is that of its values."""

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _BodyTemplate:
    """What the devices of a kind have in common: `head` until the counters' values, `middle` until the gauges'.

    Places are in bytes from the beginning of the head.
    """

    head: bytes
    middle: bytes
    counters_at: int
    middle_at: int
    gauges_at: int
    end: int
    row_kind: RowKind
    row: tuple[str, ...]
    rows_digest: int
    counters: _Columns
    gauges: _Columns


@dataclass(frozen=True, slots=True)
class _SenderTemplate:
    """What the messages of one sender have in common; `sender` is device, source, collector and its run as bytes."""

    sender: bytes
    end: int
    """Of the sender."""
    device: str
    source: Source
    collector: str
    collector_run: int
    shape: _BodyTemplate


class TemplateDecoder:
    """What messages taught, by device; never more of it than the bounds."""

    def __init__(self, most: int = _MAX_DEVICES, most_shape_bytes: int = _MAX_BODY_BYTES) -> None:
        self._most, self._most_shape_bytes = most, most_shape_bytes
        self._by_device: dict[bytes, tuple[_SenderTemplate, ...]] = {}
        self._shapes: dict[tuple[bytes, bytes], _BodyTemplate] = {}
        self._shape_bytes = 0

    def decode(self, data: bytes) -> Samples | None:
        """The message in these bytes where one like it was learned; its tables are views of the bytes."""
        for stencil in self._by_device.get(_device_of(data), ()):
            if data.startswith(stencil.sender) and (found := _read(stencil, data)) is not None:
                return found
        return None

    def add(self, data: bytes, samples: Samples) -> None:
        """Remember what repeats of a message that the parser has read."""
        # Delays differ from message to message: such a one is not taken apart in vain each time.
        if not samples.row or samples.row_delay_us or (cuts := _field_offsets(data)) is None:
            return
        sizes = (len(samples.row) * 8 * len(table.metric) for table in (samples.counters, samples.gauges))
        if (cuts.counters_end - cuts.counters_at, len(data) - cuts.gauges_at) != tuple(sizes):
            return  # it has a metric that this version does not know
        self._evict_if_full()
        shape = self._shape(data, cuts, samples)
        stencil = _SenderTemplate(
            data[: cuts.sender_end],
            cuts.sender_end,
            samples.device,
            samples.source,
            samples.collector,
            samples.collector_run,
            shape,
        )
        known = self._by_device.get(_device_of(data), ())
        self._by_device[_device_of(data)] = (stencil, *known)[:_MAX_TEMPLATES_PER_DEVICE]

    def _shape(self, data: bytes, cuts: "_FieldOffsets", samples: Samples) -> _BodyTemplate:
        head, middle = data[cuts.head_at : cuts.counters_at], data[cuts.counters_end : cuts.gauges_at]
        if (shape := self._shapes.get((head, middle))) is None:
            counters, gauges = (
                _Columns(table.metric, table.index, (len(table.metric), len(samples.row)))
                for table in (samples.counters, samples.gauges)
            )
            shape = self._shapes[head, middle] = _BodyTemplate(
                head,
                middle,
                cuts.counters_at - cuts.head_at,
                cuts.counters_end - cuts.head_at,
                cuts.gauges_at - cuts.head_at,
                len(data) - cuts.head_at,
                samples.row_kind,
                samples.row,
                samples.rows_digest,
                counters,
                gauges,
            )
            self._shape_bytes += len(head) + len(middle)
        return shape

    def _evict_if_full(self) -> None:
        if len(self._by_device) >= self._most or self._shape_bytes >= self._most_shape_bytes:
            self._by_device.clear()
            self._shapes.clear()
            self._shape_bytes = 0


def _device_of(data: bytes) -> bytes:
    """The first field, where it is the device; any bytes may be given."""
    return data[: data[1] + 2] if len(data) > 1 else b""


def _read(stencil: _SenderTemplate, data: bytes) -> Samples | None:
    """The message, its beginning being the stencil's; None where the rest does not fit it."""
    shape, at = stencil.shape, stencil.end
    try:
        sequence, at = _varint(data, at + 1) if data[at] == _SEQUENCE else (0, at)
        sampled, sampled_at_ns, received, received_at_ns = _TIMES.unpack_from(data, at)
        at += _TIMES.size
        boot_id = 0
        if data[at] == _BOOT_ID:
            (boot_id,) = _FIXED64.unpack_from(data, at + 1)
            at += 1 + _FIXED64.size
    except (IndexError, ValueError, struct.error):
        return None
    if (
        sampled != _SAMPLED_AT
        or received != _RECEIVED_AT
        or at + shape.end != len(data)
        or not data.startswith(shape.head, at)
        or not data.startswith(shape.middle, at + shape.middle_at)
    ):
        return None
    counters, gauges = shape.counters, shape.gauges
    return Samples(
        stencil.device,
        stencil.source,
        stencil.collector,
        stencil.collector_run,
        sequence,
        sampled_at_ns,
        received_at_ns,
        boot_id,
        shape.row_kind,
        shape.row,
        shape.rows_digest,
        Table(counters.metric, counters.index, np.ndarray(counters.shape, _COUNTER, data, at + shape.counters_at)),
        Table(gauges.metric, gauges.index, np.ndarray(gauges.shape, _GAUGE, data, at + shape.gauges_at)),
    )


@dataclass(frozen=True, slots=True)
class _FieldOffsets:
    """Where a message's parts end and begin, in bytes."""

    sender_end: int
    head_at: int
    counters_at: int
    counters_end: int
    gauges_at: int


def _field_offsets(data: bytes) -> _FieldOffsets | None:
    """Where to cut a message whose fields are in the order of their numbers, each once; None for another."""
    begins: dict[int, int] = {}
    tables: dict[int, tuple[int, int]] = {}
    last = 0
    try:
        for number, begin, value, end in _fields(data, 0, len(data)):
            if number > _GAUGES or number < last or (number == last != _ROW):
                return None
            last = number
            begins.setdefault(number, begin)
            if number in (_COUNTERS, _GAUGES):
                tables[number] = (_values_at(data, value, end), end)
    except (IndexError, ValueError):
        return None
    if not {_SAMPLED_FIELD, _RECEIVED_FIELD} <= begins.keys() or not tables:
        return None
    gauges_at, _ = tables.get(_GAUGES, (len(data), len(data)))
    no_counters = begins.get(_GAUGES, len(data))
    counters_at, counters_end = tables.get(_COUNTERS, (no_counters, no_counters))
    head_at = min(begin for number, begin in begins.items() if number > _BOOT_FIELD)
    return _FieldOffsets(
        begins.get(_SEQUENCE_FIELD, begins[_SAMPLED_FIELD]), head_at, counters_at, counters_end, gauges_at
    )


def _values_at(data: bytes, at: int, end: int) -> int:
    """Where the values of a table begin, which are to be its last field; raises ValueError where they are not."""
    last = 0
    for number, _, value, next_at in _fields(data, at, end):
        if number != last + 1 or (number == _VALUES and next_at != end):
            raise ValueError("a table of another order")
        last = number
        begin = value
    if last != _VALUES:
        raise ValueError("a table without values")
    return begin


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, where it begins, where its value begins, where it ends) of each field; raises ValueError, IndexError."""
    while at < end:
        begin = at
        tag, at = _varint(data, at)
        value = at
        match tag & 7:
            case 0:
                _, at = _varint(data, at)
            case 1:
                at += 8
            case 2:
                size, value = _varint(data, at)
                at = value + size
            case _:
                raise ValueError("a field of another wire type")
        if at > end:
            raise ValueError("a field that is cut off")
        yield tag >> 3, begin, value, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; raises IndexError, and ValueError for one of more than 63 bits."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 56:
            raise ValueError("a number too long")
