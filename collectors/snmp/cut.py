"""Keeps pyasn1 from a response's varbinds: they are cut out before it sees the message, and travel with the PDU.

pysnmp's engine, message processing and security do all else. These are subclasses of its own parts, given to an engine
of ours; nothing of pysnmp is changed for anybody else. A digest is checked on the message as it came: what is cut
away is cut after that, or handed around it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pysnmp.proto import errind, error
from pysnmp.proto.mpmod.rfc2576 import SnmpV2cMessageProcessingModel
from pysnmp.proto.mpmod.rfc3412 import SnmpV3MessageProcessingModel
from pysnmp.proto.secmod.rfc3414 import SnmpUSMSecurityModel

from collectors.snmp import ber
from streams.wire.errors import Reject

_PDU = 7
"""The place of the PDU in what `prepare_data_elements` returns."""
_LARGEST_REPORT = 2048
"""A Report holds one counter; pyasn1 reads it, so it shall not be given more than that."""


class Cut(NamedTuple):
    """A message without its varbinds, and where they are in what came."""

    rest: bytes
    data: bytes
    span: ber.Span


def cut_v2c(message: bytes) -> Cut:
    """Raises Reject for anything but one whole v2c Response."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    if body.end != len(message):
        raise Reject("bytes after the message")
    version = ber.element(message, body.start, body.end, ber.INTEGER)
    community = ber.element(message, version.end, body.end, ber.OCTETS)
    pdu, span = _cut_pdu(message, community.end, body.end)
    return Cut(ber.encoded(ber.SEQUENCE, message[body.start : community.end] + pdu), message, span)


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
    return Cut(ber.encoded(ber.SEQUENCE, message[body.start : security.end] + scoped.rest), message, scoped.span)


def cut_scoped(data: bytes, start: int, end: int) -> Cut | None:
    """A scoped PDU; None where it holds a Report. What follows it is padding. Raises Reject."""
    body = ber.element(data, start, end, ber.SEQUENCE)
    engine = ber.element(data, body.start, body.end, ber.OCTETS)
    context = ber.element(data, engine.end, body.end, ber.OCTETS)
    if data[context.end : context.end + 1] == bytes((ber.REPORT,)):
        if end - start > _LARGEST_REPORT:
            raise Reject("a report of impossible length")
        return None
    pdu, span = _cut_pdu(data, context.end, body.end)
    return Cut(ber.encoded(ber.SEQUENCE, data[body.start : context.end] + pdu), data, span)


def _cut_pdu(data: bytes, start: int, end: int) -> tuple[bytes, ber.Span]:
    pdu = ber.element(data, start, end, ber.RESPONSE)
    if pdu.end != end:
        raise Reject("bytes after the PDU")
    i = pdu.start
    for _ in ("request-id", "error-status", "error-index"):
        number = ber.element(data, i, pdu.end, ber.INTEGER)
        if not 0 < number.end - number.start <= 4:
            raise Reject("a number of impossible length")
        i = number.end
    span = ber.element(data, i, pdu.end, ber.SEQUENCE)
    if span.end != pdu.end:
        raise Reject("bytes after the varbinds")
    return ber.encoded(ber.RESPONSE, data[pdu.start : i] + b"\x30\x00"), span


class CutV2c(SnmpV2cMessageProcessingModel):  # type: ignore[misc]
    """Message processing of v2c; the PDU that it returns carries its own varbinds as `cut`."""

    def prepare_data_elements(self, engine: Any, domain: Any, address: Any, message: bytes) -> Any:
        """See pysnmp. Raises Reject."""
        found = cut_v2c(message)
        said = super().prepare_data_elements(engine, domain, address, found.rest)
        said[_PDU].cut = found
        return said


class CutV3(SnmpV3MessageProcessingModel):  # type: ignore[misc]
    """Message processing of v3. What its security model cut out of the same message is the PDU's, nothing older."""

    def __init__(self, security: "CutUsm") -> None:
        super().__init__()
        self._security = security

    def prepare_data_elements(self, engine: Any, domain: Any, address: Any, message: bytes) -> Any:
        """See pysnmp. Raises Reject."""
        found = cut_v3(message)
        self._security.begin(message, found)
        try:
            said = super().prepare_data_elements(engine, domain, address, found.rest if found else message)
            said[_PDU].cut = self._security.found
        finally:
            self._security.begin(b"", None)
        return said


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
