"""Keeps pyasn1 from varbinds: a response's are cut out before it sees the message, and travel beside the PDU.

pysnmp's engine, message processing and security do all else. These are subclasses of its own parts, given to an engine
of ours; nothing of pysnmp is changed for anybody else. What is asked is a Question, what comes back an Answer. Of v2c,
which has neither digest nor header, nothing is left for pyasn1; of v3 a digest is checked on the message as it came:
what is cut away is cut after that, or handed around it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pysnmp.proto import errind, error
from pysnmp.proto.mpmod.rfc2576 import SnmpV2cMessageProcessingModel
from pysnmp.proto.mpmod.rfc3412 import SnmpV3MessageProcessingModel
from pysnmp.proto.secmod.rfc2576 import SnmpV2cSecurityModel
from pysnmp.proto.secmod.rfc3414 import SnmpUSMSecurityModel

from collectors.snmp import ber
from collectors.snmp.question import Question, written
from streams.wire.errors import Reject

_PDU = 7
"""The place of the PDU in what `prepare_data_elements` returns."""
_LARGEST_REPORT = 2048
"""A Report holds one counter; pyasn1 reads it, so it shall not be given more than that."""
_VERSION_2C = b"\x02\x01\x01"
_NO_VARBINDS = b"\x30\x00"


class Answer(NamedTuple):
    """A Response: the number that it answers, its error status, and where its varbinds are in what came."""

    number: int
    status: int
    data: bytes
    span: ber.Span

    def varbinds(self) -> list[ber.Varbind]:
        """Raises Reject."""
        return ber.varbinds(self.data, *self.span)


class Cut(NamedTuple):
    """A message without its varbinds, and what was cut out."""

    rest: bytes
    answer: Answer


def answer_v2c(message: bytes) -> tuple[bytes, Answer]:
    """The community and the Response. Raises Reject for anything but one whole v2c Response."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    if body.end != len(message):
        raise Reject("bytes after the message")
    version = ber.element(message, body.start, body.end, ber.INTEGER)
    community = ber.element(message, version.end, body.end, ber.OCTETS)
    _, answer = _response(message, community.end, body.end)
    return message[community.start : community.end], answer


def cut_v3(message: bytes) -> Cut | None:
    """None where there is nothing to cut: the PDU is encrypted, or a Report. Raises Reject."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    if body.end != len(message):
        raise Reject("bytes after the message")
    version = ber.element(message, body.start, body.end, ber.INTEGER)
    header = ber.element(message, version.end, body.end, ber.SEQUENCE)
    security = ber.element(message, header.end, body.end, ber.OCTETS)
    if message[security.end : security.end + 1] == bytes((ber.OCTETS,)):
        return None
    if (scoped := cut_scoped(message, security.end, body.end)) is None:
        return None
    return Cut(ber.encoded(ber.SEQUENCE, message[body.start : security.end] + scoped.rest), scoped.answer)


def cut_scoped(data: bytes, start: int, end: int) -> Cut | None:
    """A scoped PDU; None where it holds a Report. What follows it is padding. Raises Reject."""
    body = ber.element(data, start, end, ber.SEQUENCE)
    engine = ber.element(data, body.start, body.end, ber.OCTETS)
    context = ber.element(data, engine.end, body.end, ber.OCTETS)
    if data[context.end : context.end + 1] == bytes((ber.REPORT,)):
        if end - start > _LARGEST_REPORT:
            raise Reject("a report of impossible length")
        return None
    numbers, answer = _response(data, context.end, body.end)
    pdu = ber.encoded(ber.RESPONSE, data[numbers.start : numbers.end] + _NO_VARBINDS)
    return Cut(ber.encoded(ber.SEQUENCE, data[body.start : context.end] + pdu), answer)


def _response(data: bytes, start: int, end: int) -> tuple[ber.Span, Answer]:
    """Where the numbers of the PDU are, and the PDU."""
    pdu = ber.element(data, start, end, ber.RESPONSE)
    if pdu.end != end:
        raise Reject("bytes after the PDU")
    i, numbers = pdu.start, []
    for _ in ("request-id", "error-status", "error-index"):
        number = ber.element(data, i, pdu.end, ber.INTEGER)
        if not 0 < number.end - number.start <= 4:
            raise Reject("a number of impossible length")
        numbers.append(int.from_bytes(data[number.start : number.end], "big", signed=True))
        i = number.end
    span = ber.element(data, i, pdu.end, ber.SEQUENCE)
    if span.end != pdu.end:
        raise Reject("bytes after the varbinds")
    return ber.Span(pdu.start, i), Answer(numbers[0], numbers[1], data, span)


class Community(SnmpV2cSecurityModel):  # type: ignore[misc]
    """The community-based security model, for messages that are not pyasn1's."""

    def __init__(self) -> None:
        super().__init__()
        self.known: bytes | None = None
        """None until something was asked."""

    def of(self, engine: Any, name: Any) -> bytes:
        """The community of a security name: an engine of ours has one, which does not change."""
        if self.known is None:
            self.known = bytes(self._sec2com(engine, name, engine.snmpEngineID, b""))
        return self.known


class CutV2c(SnmpV2cMessageProcessingModel):  # type: ignore[misc]
    """Message processing of v2c: sends a Question and returns an Answer. On the wire each has a number of pysnmp's."""

    def __init__(self, security: Community) -> None:
        super().__init__()
        self._security = security

    def prepare_outgoing_message(
        self, engine: Any, domain: Any, address: Any, _model: Any, security_model: Any, name: Any, level: Any,
        _engine_id: Any, context: Any, _version: Any, pdu: Question, expects: Any, handle: Any,
    ) -> Any:  # fmt: skip
        """See pysnmp."""
        number = self._cache.new_message_id()
        community = self._security.of(engine, name)
        inside = ber.encoded(ber.OCTETS, community) + ber.encoded(pdu.tag, pdu.content(number))
        self._cache.push_by_message_id(
            number, sendPduHandle=handle, asked=pdu.number, about=(security_model, name, level)
        )
        return domain, address, ber.encoded(ber.SEQUENCE, _VERSION_2C + inside)

    def prepare_data_elements(self, engine: Any, domain: Any, address: Any, message: bytes) -> Any:
        """See pysnmp. Raises Reject."""
        community, answer = answer_v2c(message)
        if community != self._security.known:
            raise error.StatusInformation(errorIndication=errind.unknownCommunityName)
        try:
            asked = self._cache.pop_by_message_id(answer.number)
        except error.ProtocolError as why:
            raise error.StatusInformation(errorIndication=errind.dataMismatch) from why
        security_model, name, level = asked["about"]
        return (
            1, security_model, name, level, engine.snmpEngineID, b"", 1, answer._replace(number=asked["asked"]), None,
            asked["sendPduHandle"], None, None, None,
        )  # fmt: skip


class CutV3(SnmpV3MessageProcessingModel):  # type: ignore[misc]
    """Message processing of v3: sends a Question and returns an Answer.

    What its security model cut out of the same message is that message's, nothing older.
    """

    def __init__(self, security: "CutUsm") -> None:
        super().__init__()
        self._security = security

    def prepare_outgoing_message(self, *given: Any) -> Any:
        """See pysnmp."""
        *before, pdu, expects, handle = given
        return super().prepare_outgoing_message(*before, written(pdu), expects, handle)

    def prepare_data_elements(self, engine: Any, domain: Any, address: Any, message: bytes) -> Any:
        """See pysnmp. Raises Reject."""
        found = cut_v3(message)
        self._security.begin(message, found)
        try:
            said = super().prepare_data_elements(engine, domain, address, found.rest if found else message)
            if (found := self._security.found) is None:
                return said
            return (*said[:_PDU], found.answer, *said[_PDU + 1 :])
        finally:
            self._security.begin(b"", None)


class CutUsm(SnmpUSMSecurityModel):  # type: ignore[misc]
    """The user-based security model: checks the message as it came, and cuts what it decrypts."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = b""
        self.found: Cut | None = None
        services: dict[Any, Any] = SnmpUSMSecurityModel.PRIV_SERVICES
        self.PRIV_SERVICES = {name: _Private(each, self._keep) for name, each in services.items()}

    def begin(self, whole: bytes, found: Cut | None) -> None:
        """Forget what was; `whole` is the message that is to be checked."""
        self._whole, self.found = whole, found

    def _keep(self, found: Cut | None) -> None:
        self.found = found

    def process_incoming_message(
        self, engine: Any, model: Any, max_size: Any, parameters: Any, security_model: Any, level: Any, whole: bytes,
        message: Any,
    ) -> Any:  # fmt: skip
        """See pysnmp."""
        return super().process_incoming_message(
            engine, model, max_size, parameters, security_model, level, self._whole or whole, message
        )


class _Private:
    """A privacy protocol whose plain text is without its varbinds."""

    def __init__(self, service: Any, keep: Callable[[Cut | None], None]) -> None:
        self._service = service
        self._keep = keep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def decrypt_data(self, key: Any, parameters: Any, encrypted: Any) -> Any:
        """See pysnmp."""
        data = bytes(self._service.decrypt_data(key, parameters, encrypted))
        try:
            found = cut_scoped(data, 0, len(data))
        except Reject as why:
            raise error.StatusInformation(errorIndication=errind.decryptionError) from why
        self._keep(found)
        return found.rest if found else data
