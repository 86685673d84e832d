"""Encodes requests and slices responses without pyasn1, which would build an object for each name and value. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyasn1.type import univ
from pysnmp.proto import rfc1905

from collectors.snmp import ber
from streams.wire.errors import Reject

GET, GETBULK = 0xA0, 0xA5
_ZERO = b"\x02\x01\x00"
_NULL = b"\x05\x00"


class Request(NamedTuple):
    """A GET or GETBULK of some names. No two requests have the same number."""

    tag: int
    number: int
    repetitions: int
    """0 for GET."""
    varbinds: bytes
    """The list of names, encoded."""

    def content(self, number: int) -> bytes:
        """Return the content of the PDU, with another number if the message needs one. Numbers are below 2^31."""
        repetitions = ber.encoded(ber.INTEGER, ber.integer(self.repetitions))
        return ber.encoded(ber.INTEGER, ber.integer(number)) + _ZERO + repetitions + self.varbinds


def request(tag: int, number: int, names: Iterable[bytes], repetitions: int = 0) -> Request:
    """Return a request of these encoded OIDs."""
    encoded = b"".join([ber.encoded(ber.SEQUENCE, ber.encoded(ber.OID, name) + _NULL) for name in names])
    return Request(tag, number, repetitions, ber.encoded(ber.SEQUENCE, encoded))


class EncodedPdu(univ.Any):  # type: ignore[misc]
    """A PDU that pyasn1 copies into a message unchanged."""

    def clone(self, *_: Any, **__: Any) -> Any:
        """Return an empty PDU of pysnmp's class: it is sent to discover the device's engine (RFC 3414, 4)."""
        return rfc1905.GetRequestPDU()


class _EncodedGet(EncodedPdu):
    tagSet = rfc1905.GetRequestPDU.tagSet  # noqa: N815 — pyasn1's name


class _EncodedBulk(EncodedPdu):
    tagSet = rfc1905.GetBulkRequestPDU.tagSet  # noqa: N815 — pyasn1's name


def encoded_pdu(pdu: Request) -> EncodedPdu:
    """Return the PDU for pysnmp to encrypt, sign and send."""
    return (_EncodedBulk if pdu.tag == GETBULK else _EncodedGet)(pdu.content(pdu.number))


_LARGEST_REPORT = 2048
"""Limit of a Report, which has one counter: pyasn1 decodes it, so larger ones are refused."""
_USM = b"\x03"
_NO_VARBINDS = b"\x30\x00"


class Answer(NamedTuple):
    """A Response: the number of its request, its error status, and the position of its varbinds in the message."""

    number: int
    status: int
    data: bytes
    span: ber.Span

    def varbinds(self) -> list[ber.Varbind]:
        """Return the varbinds. Raises Reject."""
        return ber.varbinds(self.data, *self.span)


class SlicedMessage(NamedTuple):
    """A message without its varbinds, the answer that was cut out, and its context."""

    rest: bytes
    answer: Answer
    context_engine: bytes
    context: bytes


class EncryptedMessage(NamedTuple):
    """A v3 message whose PDU is encrypted."""

    number: int
    """The message id, which differs from the PDU's number."""
    largest: int
    """The largest message that the sender accepts."""
    flags: int
    security: bytes
    """The security parameters, encoded."""
    encrypted: bytes


def answer_v2c(message: bytes) -> tuple[bytes, Answer]:
    """Return the community and the Response. Raises Reject for anything except one complete v2c Response."""
    body, version = _opened(message)
    community = ber.element(message, version.end, body.end, ber.OCTETS)
    _, answer = _response(message, community.end, body.end)
    return message[community.start : community.end], answer


def slice_v3(message: bytes) -> SlicedMessage | None:
    """Return the sliced message; None if the PDU is encrypted or a Report. Raises Reject."""
    body, _, security = _opened_v3(message)
    if message[security.end : security.end + 1] == bytes((ber.OCTETS,)):
        return None
    if (scoped := slice_scoped(message, security.end, body.end)) is None:
        return None
    return scoped._replace(rest=ber.encoded(ber.SEQUENCE, message[body.start : security.end] + scoped.rest))


def encrypted_v3(message: bytes) -> EncryptedMessage | None:
    """Return the parts of a message with an encrypted PDU; None if it is not encrypted. Raises Reject."""
    body, header, security = _opened_v3(message)
    if message[security.end : security.end + 1] != bytes((ber.OCTETS,)):
        return None
    sealed = ber.element(message, security.end, body.end, ber.OCTETS)
    if sealed.end != body.end:
        raise Reject("bytes after the PDU")
    number = ber.element(message, header.start, header.end, ber.INTEGER)
    largest = ber.element(message, number.end, header.end, ber.INTEGER)
    flags = ber.element(message, largest.end, header.end, ber.OCTETS)
    model = ber.element(message, flags.end, header.end, ber.INTEGER)
    if model.end != header.end or message[model.start : model.end] != _USM or flags.end - flags.start != 1:
        raise Reject("header of another kind")
    return EncryptedMessage(
        _whole(message, number), _whole(message, largest), message[flags.start],
        message[security.start : security.end], message[sealed.start : sealed.end],
    )  # fmt: skip


def _opened(message: bytes) -> tuple[ber.Span, ber.Span]:
    """Return the position of a complete message, and of its version. Raises Reject."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    if body.end != len(message):
        raise Reject("bytes after the message")
    return body, ber.element(message, body.start, body.end, ber.INTEGER)


def _opened_v3(message: bytes) -> tuple[ber.Span, ber.Span, ber.Span]:
    """Return the positions of a complete v3 message, its header and its security parameters. Raises Reject."""
    body, version = _opened(message)
    header = ber.element(message, version.end, body.end, ber.SEQUENCE)
    return body, header, ber.element(message, header.end, body.end, ber.OCTETS)


def _whole(data: bytes, number: ber.Span) -> int:
    """Return a number of at most 31 bits."""
    if not 0 < number.end - number.start <= 4 or data[number.start] > 127:
        raise Reject("number of invalid length")
    return int.from_bytes(data[number.start : number.end], "big")


def slice_scoped(data: bytes, start: int, end: int) -> SlicedMessage | None:
    """Slice a scoped PDU; None if it is a Report. Bytes after it are padding. Raises Reject."""
    body = ber.element(data, start, end, ber.SEQUENCE)
    engine = ber.element(data, body.start, body.end, ber.OCTETS)
    context = ber.element(data, engine.end, body.end, ber.OCTETS)
    if data[context.end : context.end + 1] == bytes((ber.REPORT,)):
        if end - start > _LARGEST_REPORT:
            raise Reject("report of invalid length")
        return None
    numbers, answer = _response(data, context.end, body.end)
    pdu = ber.encoded(ber.RESPONSE, data[numbers.start : numbers.end] + _NO_VARBINDS)
    return SlicedMessage(
        ber.encoded(ber.SEQUENCE, data[body.start : context.end] + pdu), answer,
        data[engine.start : engine.end], data[context.start : context.end],
    )  # fmt: skip


def _response(data: bytes, start: int, end: int) -> tuple[ber.Span, Answer]:
    """Return the position of the PDU's numbers, and the PDU."""
    pdu = ber.element(data, start, end, ber.RESPONSE)
    if pdu.end != end:
        raise Reject("bytes after the PDU")
    i, numbers = pdu.start, []
    for _ in ("request-id", "error-status", "error-index"):
        number = ber.element(data, i, pdu.end, ber.INTEGER)
        if not 0 < number.end - number.start <= 4:
            raise Reject("number of invalid length")
        numbers.append(int.from_bytes(data[number.start : number.end], "big", signed=True))
        i = number.end
    span = ber.element(data, i, pdu.end, ber.SEQUENCE)
    if span.end != pdu.end:
        raise Reject("bytes after the varbinds")
    return ber.Span(pdu.start, i), Answer(numbers[0], numbers[1], data, span)
