"""As much of BER (X.690) as an SNMP response's varbinds need. Pure; every length is held against what is there.

pyasn1 builds an object for every varbind, which is most of what pysnmp costs; this loop takes 1 µs for each
(`railsight bench snmp` has the whole). What the shape of SNMP does not allow is a Reject, whoever sent it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from streams.wire.errors import Reject

SEQUENCE, INTEGER, OCTETS, NULL, OID = 0x30, 0x02, 0x04, 0x05, 0x06
IP_ADDRESS, COUNTER32, GAUGE32, TIMETICKS, OPAQUE, COUNTER64 = 0x40, 0x41, 0x42, 0x43, 0x44, 0x46
RESPONSE, REPORT = 0xA2, 0xA8
NOTHING = frozenset({0x80, 0x81, 0x82})
"""noSuchObject, noSuchInstance, endOfMibView (RFC 3416): no value."""

_UNSIGNED = frozenset({COUNTER32, GAUGE32, TIMETICKS, COUNTER64, 0x47})
_LONGEST_INTEGER = 9
"""A Counter64 with a leading zero."""
_LONGEST_OID = 128 * 5
"""128 sub-identifiers (RFC 3416) of at most 32 bits."""

Value = int | bytes
Column = dict[bytes, Value]
"""The cells of a column, or of a subtree, by the rest of their OID, which is the row."""


Varbind = tuple[bytes, int, Value]
"""The content of the OID as it is on the wire, the tag, and a number or the bytes of anything else."""


class Span(NamedTuple):
    """The content of one element of a message."""

    start: int
    end: int


def varbinds(  # noqa: C901 — one loop without calls: calls would double its cost
    data: bytes, start: int, end: int
) -> list[Varbind]:
    """The varbinds of a list's content. Raises Reject."""
    found: list[Varbind] = []
    take, number = found.append, int.from_bytes
    if end > len(data):
        raise Reject("a list longer than its message")
    i = start
    try:
        while i < end:
            if data[i] != SEQUENCE:
                raise Reject("no varbind")
            size = data[i + 1]
            i += 2
            if size > 127:
                size, i = _long(data, i, size)
            stop = i + size
            if stop > end or data[i] != OID:
                raise Reject("a varbind longer than its list, or without a name")
            size = data[i + 1]
            i += 2
            if size > 127:
                size, i = _long(data, i, size)
            if not 0 < size <= _LONGEST_OID:
                raise Reject("a name of impossible length")
            at = i + size
            oid, tag, size = data[i:at], data[at], data[at + 1]
            at += 2
            if size > 127:
                size, at = _long(data, at, size)
            if at + size != stop:
                raise Reject("a value of another length than its varbind")
            value: Value = data[at:stop]
            if tag in _UNSIGNED:
                if not 0 < size <= _LONGEST_INTEGER:
                    raise Reject("a number of impossible length")
                value = number(data[at:stop], "big")
            elif tag == INTEGER:
                if not 0 < size <= _LONGEST_INTEGER:
                    raise Reject("a number of impossible length")
                value = number(data[at:stop], "big", signed=True)
            take((oid, tag, value))
            i = stop
    except IndexError as error:
        raise Reject("the message ends within a varbind") from error
    return found


def _long(data: bytes, i: int, first: int) -> tuple[int, int]:
    """A length in more than one byte and where the content begins; the indefinite form is not allowed in SNMP."""
    count = first & 127
    if not 0 < count <= 4:
        raise Reject("a length of impossible length")
    return int.from_bytes(data[i : i + count], "big"), i + count


def element(data: bytes, i: int, end: int, tag: int | None = None) -> Span:
    """The content of the element that begins at `i`, within `end`. Raises Reject."""
    if i + 2 > end or end > len(data):
        raise Reject("the message ends too early")
    if tag is not None and data[i] != tag:
        raise Reject(f"tag {data[i]:#x} where {tag:#x} is due")
    size = data[i + 1]
    i += 2
    if size > 127:
        size, i = _long(data, i, size)
    if i + size > end:
        raise Reject("an element longer than what holds it")
    return Span(i, i + size)


def encoded(tag: int, content: bytes) -> bytes:
    """An element."""
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def integer(number: int) -> bytes:
    """The content of a number that is not negative."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def oid_bytes(oid: Iterable[int]) -> bytes:
    """The content of an OID on the wire."""
    first, second, *rest = oid
    found = bytearray()
    for number in (40 * first + second, *rest):
        septets = [number & 127]
        while number := number >> 7:
            septets.append(number & 127 | 128)
        found += bytes(reversed(septets))
    return bytes(found)


def oid_of(text: str) -> tuple[int, ...]:
    """`1.3.6` as numbers."""
    return tuple(int(part) for part in text.split("."))


def sub_identifiers(content: bytes) -> tuple[int, ...]:
    """The numbers of an OID's tail, as an index is. Raises Reject where it ends within one, or is over 32 bits."""
    found, number = [], 0
    for byte in content:
        number = number << 7 | byte & 127
        if number >> 32:
            raise Reject("a sub-identifier over 32 bits")
        if byte < 128:
            found.append(number)
            number = 0
    if content and content[-1] > 127:
        raise Reject("a name that ends within a sub-identifier")
    return tuple(found)


def oid_numbers(content: bytes) -> tuple[int, ...]:
    """All numbers of an OID. Raises Reject."""
    first, *rest = sub_identifiers(content)
    top = min(first // 40, 2)
    return (top, first - 40 * top, *rest)
