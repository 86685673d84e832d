"""Encodes and decodes the packets of probes; all have one length, so that no answer is longer than its request. Pure.

With a key each packet carries a tag, and packets without a valid tag are ignored. Without a key, forged answers do not
match the random 64 bits of the prober's epoch.
"""

import hashlib
import hmac
import struct
from enum import IntEnum
from typing import NamedTuple

LENGTH = 64
MAGIC = b"RSPB\x01"
"""Protocol and version; the first bytes of each packet, which the kernel's filter compares."""

_FIELDS = struct.Struct("!5sBHQIIQQQI4s")
_TAG_BYTES = LENGTH - _FIELDS.size
_NO_TAG = bytes(_TAG_BYTES)
NO_HOP = bytes(4)


class Kind(IntEnum):
    """The purpose of a packet. Only requests are answered, each with at most one packet to its sender."""

    PROBE = 1
    """A request that the responder counts and answers with REPLY."""
    REPLY = 2
    TRACE = 3
    """A request with a limited TTL; a host that receives it answers with TRACE_REPLY and does not count it."""
    TRACE_REPLY = 4
    TRACE_BACK = 5
    """A request for a BACK with this TTL from the responder to another port of the sender."""
    BACK = 6
    HOP = 7
    """A report of an ICMP error that the responder received for a BACK: the address of a hop on the way back."""


_KINDS = {int(kind): kind for kind in Kind}
REQUESTS = frozenset({Kind.PROBE, Kind.TRACE, Kind.TRACE_BACK})


class Packet(NamedTuple):
    """One packet. Times are Unix ns of the host that set them."""

    kind: Kind
    epoch: int
    """A random number that is drawn when the prober starts."""
    flow: int
    sequence: int
    value: int = 0
    """The TTL; in a REPLY the number of requests that the responder's socket dropped, modulo 65,536."""
    sent_ns: int = 0
    received_ns: int = 0
    replied_ns: int = 0
    number: int = 0
    """In a REPLY the number of probes of the flow that arrived; else the port of a TRACE_BACK or BACK."""
    mark: bytes = NO_HOP
    """In a HOP the address; in a REPLY the run of the responder."""


def encode(packet: Packet, key: bytes = b"") -> bytes:
    """Return the bytes of a packet."""
    data = _FIELDS.pack(
        MAGIC, packet.kind, packet.value, packet.epoch, packet.flow, packet.sequence, packet.sent_ns,
        packet.received_ns, packet.replied_ns, packet.number, packet.mark,
    )  # fmt: skip
    return data + _tag(data, key)


def decode(data: bytes, key: bytes = b"") -> Packet | None:
    """Return the packet; None for other bytes, and for a packet whose tag does not match the key."""
    if len(data) != LENGTH or not data.startswith(MAGIC):
        return None
    fields = data[: _FIELDS.size]
    if key and not hmac.compare_digest(data[_FIELDS.size :], _tag(fields, key)):
        return None
    _, kind, value, epoch, flow, sequence, sent_ns, received_ns, replied_ns, number, mark = _FIELDS.unpack(fields)
    known = _KINDS.get(kind)
    if known is None:
        return None
    return Packet(known, epoch, flow, sequence, value, sent_ns, received_ns, replied_ns, number, mark)


def _tag(data: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(data, key=key, digest_size=_TAG_BYTES).digest() if key else _NO_TAG
