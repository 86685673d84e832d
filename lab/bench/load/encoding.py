"""Encodes messages that differ only in times, numbers and values, from a template of one encoded message.

The codec's bytes for one message of a device are cut at the fields that change; later messages join the pieces with new
fields: 2 µs instead of the codec's 40 for eight ports. A test compares the result with the codec's bytes.
"""

import struct
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from streams.wire.codec import to_bytes
from streams.wire.models import CollectorStatus, Samples, Table

FIRST_SEQUENCE = 1 << 14
"""From this number to 2,097,151 a varint has three bytes, so that all messages of a device have one length."""

_STAMP = struct.Struct("<BQBBBBBqBqBQ")
# Tags of collector_run, sequence, sampled_at_ns, received_at_ns and boot_id, as telemetry.proto numbers them.
_RUN, _SEQUENCE, _SAMPLED, _RECEIVED, _BOOT = 0x21, 0x28, 0x31, 0x39, 0x41
_TIME = struct.Struct("<q")
_MARK_NS = 0x5AA5_C33C_0FF0_6996
_OTHER_MARK_NS = 0x4BB4_D22D_1EE1_7887


def stamp(run: int, sequence: int, sampled_at_ns: int, received_at_ns: int, boot_id: int) -> bytes:
    """Return the encoded fields of Samples that identify the reading."""
    return _STAMP.pack(
        _RUN, run, _SEQUENCE, sequence & 0x7F | 0x80, sequence >> 7 & 0x7F | 0x80, sequence >> 14,
        _SAMPLED, sampled_at_ns, _RECEIVED, received_at_ns, _BOOT, boot_id,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SamplesPieces:
    """The bytes before the stamp, before the counters' values, before the gauges' values, and after them."""

    head: bytes
    before_counters: bytes
    before_gauges: bytes
    tail: bytes

    def message(self, stamped: bytes, counters: npt.NDArray[np.uint64], gauges: npt.NDArray[np.float64]) -> bytes:
        """Return the message of one reading."""
        return b"".join(
            (
                self.head,
                stamped,
                self.before_counters,
                counters.tobytes(),
                self.before_gauges,
                gauges.tobytes(),
                self.tail,
            )
        )


def samples_pieces(samples: Samples) -> SamplesPieces:
    """Cut the codec's bytes for this message; its times, numbers and values are not used."""
    shape = samples.counters.values.shape
    counters = np.arange(1 << 40, (1 << 40) + shape[0] * shape[1], dtype="<u8").reshape(shape)
    shape = samples.gauges.values.shape
    gauges = np.arange(1, 1 + shape[0] * shape[1], dtype="<f8").reshape(shape) * np.pi
    whole = to_bytes(
        replace(
            samples,
            sequence=FIRST_SEQUENCE,
            sampled_at_ns=_MARK_NS,
            received_at_ns=_OTHER_MARK_NS,
            boot_id=_MARK_NS,
            counters=Table(samples.counters.metric, samples.counters.index, counters),
            gauges=Table(samples.gauges.metric, samples.gauges.index, gauges),
        )
    )
    marks = (
        stamp(samples.collector_run, FIRST_SEQUENCE, _MARK_NS, _OTHER_MARK_NS, _MARK_NS),
        counters.tobytes(),
        gauges.tobytes(),
    )
    return SamplesPieces(*_cut(whole, marks))


@dataclass(frozen=True, slots=True)
class StatusPieces:
    """The bytes before `at_ns`, before `last_sample_at_ns`, and after it."""

    head: bytes
    middle: bytes
    tail: bytes

    def message(self, at_ns: int, last_sample_at_ns: int) -> bytes:
        """Return the message for these times."""
        return b"".join((self.head, _TIME.pack(at_ns), self.middle, _TIME.pack(last_sample_at_ns), self.tail))


def status_pieces(status: CollectorStatus) -> StatusPieces:
    """Cut the codec's bytes for this message; its times are not used."""
    whole = to_bytes(replace(status, at_ns=_MARK_NS, last_sample_at_ns=_OTHER_MARK_NS))
    return StatusPieces(*_cut(whole, (_TIME.pack(_MARK_NS), _TIME.pack(_OTHER_MARK_NS))))


def _cut(whole: bytes, marks: tuple[bytes, ...]) -> list[bytes]:
    """Return the pieces between the marks; each mark occurs once, in this order."""
    pieces, rest = [], whole
    for mark in marks:
        if rest.count(mark) != 1:
            raise AssertionError("the codec encodes this message differently than the load generator expects")
        piece, rest = rest.split(mark)
        pieces.append(piece)
    return [*pieces, rest]
