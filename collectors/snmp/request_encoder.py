"""A request as it stands on the wire. pyasn1 would build an object for each of its names, and again encode them.

Pure; what is sent as which version is decided in cut.py.
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
    """GET or GETBULK of some names. Of two that are sent, no two have the same number."""

    tag: int
    number: int
    repetitions: int
    """0 for GET."""
    varbinds: bytes
    """The list of names, encoded."""

    def content(self, number: int) -> bytes:
        """What is in the PDU, under another number where the wire needs one. Numbers are below 2^31."""
        repetitions = ber.encoded(ber.INTEGER, ber.integer(self.repetitions))
        return ber.encoded(ber.INTEGER, ber.integer(number)) + _ZERO + repetitions + self.varbinds


def request(tag: int, number: int, names: Iterable[bytes], repetitions: int = 0) -> Request:
    """Ask for these OIDs, as they are on the wire."""
    asked = b"".join([ber.encoded(ber.SEQUENCE, ber.encoded(ber.OID, name) + _NULL) for name in names])
    return Request(tag, number, repetitions, ber.encoded(ber.SEQUENCE, asked))


class EncodedPdu(univ.Any):  # type: ignore[misc]
    """A PDU that pyasn1 puts into a message as it is."""

    def clone(self, *_: Any, **__: Any) -> Any:
        """An empty one of pysnmp's: what it asks while it does not know the device's engine yet (RFC 3414, 4)."""
        return rfc1905.GetRequestPDU()


class _WrittenGet(EncodedPdu):
    tagSet = rfc1905.GetRequestPDU.tagSet  # noqa: N815 — pyasn1's name


class _WrittenBulk(EncodedPdu):
    tagSet = rfc1905.GetBulkRequestPDU.tagSet  # noqa: N815 — pyasn1's name


def encoded_pdu(asked: Request) -> EncodedPdu:
    """For pysnmp to encrypt, sign and send."""
    return (_WrittenBulk if asked.tag == GETBULK else _WrittenGet)(asked.content(asked.number))
