"""Encodes requests without pyasn1, which would build and encode an object for each name.

Pure; models.py decides on the message around a request.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyasn1.type import univ
from pysnmp.proto import rfc1905

from collectors.snmp import ber

GET, GETBULK = 0xA0, 0xA5
_ZERO = b"\x02\x01\x00"
_NULL = b"\x05\x00"


class Request(NamedTuple):
    """GET or GETBULK of some names. No two requests have the same number."""

    tag: int
    number: int
    repetitions: int
    """0 for GET."""
    varbinds: bytes
    """The list of names, encoded."""

    def content(self, number: int) -> bytes:
        """Return the content of the PDU, under another number if the message needs one. Numbers are below 2^31."""
        repetitions = ber.encoded(ber.INTEGER, ber.integer(self.repetitions))
        return ber.encoded(ber.INTEGER, ber.integer(number)) + _ZERO + repetitions + self.varbinds


def request(tag: int, number: int, names: Iterable[bytes], repetitions: int = 0) -> Request:
    """Return a request of these encoded OIDs."""
    encoded = b"".join([ber.encoded(ber.SEQUENCE, ber.encoded(ber.OID, name) + _NULL) for name in names])
    return Request(tag, number, repetitions, ber.encoded(ber.SEQUENCE, encoded))


class EncodedPdu(univ.Any):  # type: ignore[misc]
    """A PDU that pyasn1 copies into a message unchanged."""

    def clone(self, *_: Any, **__: Any) -> Any:
        """Return an empty PDU of pysnmp's: it is sent to discover the device's engine (RFC 3414, 4)."""
        return rfc1905.GetRequestPDU()


class _EncodedGet(EncodedPdu):
    tagSet = rfc1905.GetRequestPDU.tagSet  # noqa: N815 — pyasn1's name


class _EncodedBulk(EncodedPdu):
    tagSet = rfc1905.GetBulkRequestPDU.tagSet  # noqa: N815 — pyasn1's name


def encoded_pdu(pdu: Request) -> EncodedPdu:
    """Return the PDU for pysnmp to encrypt, sign and send."""
    return (_EncodedBulk if pdu.tag == GETBULK else _EncodedGet)(pdu.content(pdu.number))
