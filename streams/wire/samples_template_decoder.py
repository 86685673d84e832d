"""Decodes messages of Samples that differ from an earlier one only in their numbers, without parsing them.

A device sends the same bytes in each message except for the sequence, the times and the values: names, columns and
lengths repeat. The decoder compares the constant bytes with an earlier message, which is exact, and reads the numbers
at known offsets. The parser decodes every message that does not match. This saves most of the decoding cost (`python -m
tests.bench.measure_cost` prints it). It also avoids malloc_trim, which protobuf's C code calls every 10,000 frees, and
which caused the pages of each block of the sink to be mapped and cleared again.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streams.fabric.catalogue import Metric
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.models import RowKind, Samples, Source, Table

_COUNTER, _GAUGE = np.dtype("<u8"), np.dtype("<f8")

_SEQUENCE, _SAMPLED_AT, _RECEIVED_AT, _BOOT_ID = 0x28, 0x31, 0x39, 0x41
"""The first byte of each variable field: its number and its wire type."""
_TIMES = struct.Struct("<BqBq")
_FIXED64 = struct.Struct("<Q")

_SEQUENCE_FIELD, _SAMPLED_FIELD, _RECEIVED_FIELD, _BOOT_FIELD = 5, 6, 7, 8
_ROW, _COUNTERS, _GAUGES = 10, 12, 13
_VALUES = 3

_MAX_DEVICES = 1 << 17
"""The most devices: six times the sources of the largest published fabric, 21,504."""

_MAX_BODY_BYTES = 64 << 20
_MAX_TEMPLATES_PER_DEVICE = 8
"""The most (row kind, source) pairs of a device; a restarted collector adds one and evicts the oldest."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of one table; `shape` is the shape of the array of values."""

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _BodyTemplate:
    """The constant bytes of similar devices: `head` up to the values of counters, `middle` up to the values of gauges.

    Offsets are in bytes from the start of the head.
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
    """The constant part of one sender's messages; `sender` is device, source, collector and collector run as bytes."""

    sender: bytes
    end: int
    """The offset after the sender."""
    device: str
    source: Source
    collector: str
    collector_run: int
    body: _BodyTemplate


class TemplateDecoder:
    """A bounded cache of templates by device."""

    def __init__(self, max_devices: int = _MAX_DEVICES, max_body_bytes: int = _MAX_BODY_BYTES) -> None:
        self._max_devices, self._max_body_bytes = max_devices, max_body_bytes
        self._by_device: dict[bytes, tuple[_SenderTemplate, ...]] = {}
        self._bodies: dict[tuple[bytes, bytes], _BodyTemplate] = {}
        self._body_bytes = 0

    def decode(self, data: bytes) -> Samples | None:
        """Decode a message that matches a template, else return None; its tables are views of the bytes."""
        for template in self._by_device.get(_device_of(data), ()):
            if data.startswith(template.sender) and (found := _read(template, data)) is not None:
                return found
        return None

    def add(self, data: bytes, samples: Samples) -> None:
        """Add a template of a message that the parser decoded."""
        # Delays differ between messages, so that a template would never match.
        if not samples.row or samples.row_delay_us or (offsets := _field_offsets(data)) is None:
            return
        sizes = (len(samples.row) * 8 * len(table.metric) for table in (samples.counters, samples.gauges))
        if (offsets.counters_end - offsets.counters_at, len(data) - offsets.gauges_at) != tuple(sizes):
            return  # a metric that this version does not know
        self._evict_if_full()
        body = self._body_template(data, offsets, samples)
        template = _SenderTemplate(
            data[: offsets.sender_end],
            offsets.sender_end,
            samples.device,
            samples.source,
            samples.collector,
            samples.collector_run,
            body,
        )
        known = self._by_device.get(_device_of(data), ())
        self._by_device[_device_of(data)] = (template, *known)[:_MAX_TEMPLATES_PER_DEVICE]

    def _body_template(self, data: bytes, offsets: "_FieldOffsets", samples: Samples) -> _BodyTemplate:
        head, middle = data[offsets.head_at : offsets.counters_at], data[offsets.counters_end : offsets.gauges_at]
        if (body := self._bodies.get((head, middle))) is None:
            counters, gauges = (
                _Columns(table.metric, table.index, (len(table.metric), len(samples.row)))
                for table in (samples.counters, samples.gauges)
            )
            body = self._bodies[head, middle] = _BodyTemplate(
                head,
                middle,
                offsets.counters_at - offsets.head_at,
                offsets.counters_end - offsets.head_at,
                offsets.gauges_at - offsets.head_at,
                len(data) - offsets.head_at,
                samples.row_kind,
                samples.row,
                samples.rows_digest,
                counters,
                gauges,
            )
            self._body_bytes += len(head) + len(middle)
        return body

    def _evict_if_full(self) -> None:
        if len(self._by_device) >= self._max_devices or self._body_bytes >= self._max_body_bytes:
            self._by_device.clear()
            self._bodies.clear()
            self._body_bytes = 0


def _device_of(data: bytes) -> bytes:
    """Return the bytes of the first field, which is the device in a valid message; accepts any bytes."""
    return data[: data[1] + 2] if len(data) > 1 else b""


def _read(template: _SenderTemplate, data: bytes) -> Samples | None:
    """Decode a message whose sender matches; None if the rest does not match the template."""
    body, at = template.body, template.end
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
        or not 0 <= sampled_at_ns <= MAX_TIME_NS
        or not 0 <= received_at_ns <= MAX_TIME_NS
        or at + body.end != len(data)
        or not data.startswith(body.head, at)
        or not data.startswith(body.middle, at + body.middle_at)
    ):
        return None
    counters, gauges = body.counters, body.gauges
    return Samples(
        template.device,
        template.source,
        template.collector,
        template.collector_run,
        sequence,
        sampled_at_ns,
        received_at_ns,
        boot_id,
        body.row_kind,
        body.row,
        body.rows_digest,
        Table(counters.metric, counters.index, np.ndarray(counters.shape, _COUNTER, data, at + body.counters_at)),
        Table(gauges.metric, gauges.index, np.ndarray(gauges.shape, _GAUGE, data, at + body.gauges_at)),
    )


@dataclass(frozen=True, slots=True)
class _FieldOffsets:
    """The offsets of the parts of a message, in bytes."""

    sender_end: int
    head_at: int
    counters_at: int
    counters_end: int
    gauges_at: int


def _field_offsets(data: bytes) -> _FieldOffsets | None:
    """Return the offsets of a message whose fields are in numeric order, each once; else None."""
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
    """Return the offset of the values of a table; raises ValueError if they are not its last field."""
    last = 0
    for number, _, value, next_at in _fields(data, at, end):
        if number != last + 1 or (number == _VALUES and next_at != end):
            raise ValueError("the fields of a table are not in order")
        last = number
        begin = value
    if last != _VALUES:
        raise ValueError("a table without values")
    return begin


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, start, start of the value, end) of each field; raises ValueError or IndexError."""
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
                raise ValueError("a field of an unexpected wire type")
        if at > end:
            raise ValueError("a truncated field")
        yield tag >> 3, begin, value, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and its end offset; raises IndexError, and ValueError for more than 63 bits."""
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
