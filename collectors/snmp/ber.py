"""Decodes the part of BER (X.690) that the varbinds of an SNMP response need. Pure; every length is checked.

pyasn1 builds an object for every varbind, which is most of the cost of pysnmp; this loop takes 1 µs each (`railsight
bench snmp` measures all of it). Encodings that SNMP does not allow raise Reject.
"""

from collections.abc import Iterable
from typing import NamedTuple

from streams.wire.errors import Reject

SEQUENCE, INTEGER, OCTETS, OID = 0x30, 0x02, 0x04, 0x06
COUNTER32, GAUGE32, TIMETICKS, COUNTER64 = 0x41, 0x42, 0x43, 0x46
RESPONSE, REPORT = 0xA2, 0xA8
NOTHING = frozenset({0x80, 0x81, 0x82})
"""The tags noSuchObject, noSuchInstance, endOfMibView (RFC 3416): no value."""

_UNSIGNED = frozenset({COUNTER32, GAUGE32, TIMETICKS, COUNTER64, 0x47})
_LONGEST_INTEGER = 9
"""Bytes of a Counter64 with a leading zero."""
_LONGEST_OID = 128 * 5
"""Bytes of 128 sub-identifiers (RFC 3416) of at most 32 bits."""

Value = int | bytes
Column = dict[bytes, Value]
"""The cells of a column or a subtree by the rest of their OID, which is the row."""


Varbind = tuple[bytes, int, Value]
"""The encoded content of the OID, the tag, and the value: a number, or the bytes of any other type."""


class Span(NamedTuple):
    """The position of one element's content in a message."""

    start: int
    end: int


def varbinds(  # noqa: C901 — one loop without calls: calls would double its cost
    data: bytes, start: int, end: int
) -> list[Varbind]:
    """Return the varbinds in a list's content. Raises Reject."""
    found: list[Varbind] = []
    take, number = found.append, int.from_bytes
    if end > len(data):
        raise Reject("varbind list longer than its message")
    i = start
    try:
        while i < end:
            if data[i] != SEQUENCE:
                raise Reject("not a varbind")
            size = data[i + 1]
            i += 2
            if size > 127:
                size, i = _long(data, i, size)
            stop = i + size
            if stop > end or data[i] != OID:
                raise Reject("varbind longer than its list, or without an OID")
            size = data[i + 1]
            i += 2
            if size > 127:
                size, i = _long(data, i, size)
            if not 0 < size <= _LONGEST_OID:
                raise Reject("OID of invalid length")
            at = i + size
            oid, tag, size = data[i:at], data[at], data[at + 1]
            at += 2
            if size > 127:
                size, at = _long(data, at, size)
            if at + size != stop:
                raise Reject("value length differs from its varbind's")
            value: Value = data[at:stop]
            if tag in _UNSIGNED:
                if not 0 < size <= _LONGEST_INTEGER:
                    raise Reject("number of invalid length")
                value = number(data[at:stop], "big")
            elif tag == INTEGER:
                if not 0 < size <= _LONGEST_INTEGER:
                    raise Reject("number of invalid length")
                value = number(data[at:stop], "big", signed=True)
            take((oid, tag, value))
            i = stop
    except IndexError as error:
        raise Reject("message ends within a varbind") from error
    return found


def _long(data: bytes, i: int, first: int) -> tuple[int, int]:
    """Return a length of several bytes and the start of the content; SNMP does not allow the indefinite form."""
    count = first & 127
    if not 0 < count <= 4:
        raise Reject("length field of invalid length")
    return int.from_bytes(data[i : i + count], "big"), i + count


def element(data: bytes, i: int, end: int, tag: int | None = None) -> Span:
    """Return the content of the element that starts at `i`, within `end`. Raises Reject."""
    if i + 2 > end or end > len(data):
        raise Reject("message ends too early")
    if tag is not None and data[i] != tag:
        raise Reject(f"tag {data[i]:#x} instead of {tag:#x}")
    size = data[i + 1]
    i += 2
    if size > 127:
        size, i = _long(data, i, size)
    if i + size > end:
        raise Reject("element longer than its container")
    return Span(i, i + size)


def encoded(tag: int, content: bytes) -> bytes:
    """Encode an element."""
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def integer(number: int) -> bytes:
    """Encode the content of a non-negative number."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def oid_bytes(oid: Iterable[int]) -> bytes:
    """Encode the content of an OID."""
    first, second, *rest = oid
    found = bytearray()
    for number in (40 * first + second, *rest):
        septets = [number & 127]
        while number := number >> 7:
            septets.append(number & 127 | 128)
        found += bytes(reversed(septets))
    return bytes(found)


def oid_of(text: str) -> tuple[int, ...]:
    """Parse `1.3.6` to numbers."""
    return tuple(int(part) for part in text.split("."))


def sub_identifiers(content: bytes) -> tuple[int, ...]:
    """Return the numbers of an OID's tail, such as an index. Raises Reject if one is incomplete or exceeds 32 bits."""
    found, number = [], 0
    for byte in content:
        number = number << 7 | byte & 127
        if number >> 32:
            raise Reject("sub-identifier over 32 bits")
        if byte < 128:
            found.append(number)
            number = 0
    if content and content[-1] > 127:
        raise Reject("OID ends within a sub-identifier")
    return tuple(found)


def oid_numbers(content: bytes) -> tuple[int, ...]:
    """Return all numbers of an OID. Raises Reject."""
    first, *rest = sub_identifiers(content)
    top = min(first // 40, 2)
    return (top, first - 40 * top, *rest)
