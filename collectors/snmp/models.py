"""Adapts pysnmp's message processing and security so that pyasn1 never decodes a varbind.

These are subclasses of pysnmp's classes, used only by railsight's engines; pysnmp itself is not changed. A request is a
Request, its response an Answer. pyasn1 never receives a v2c message, which has neither digest nor header. For v3 the
digest and the clock are checked on the message as received; its varbinds are cut out afterwards, or passed around it.
"""

from collections.abc import Callable
from typing import Any

from pyasn1.type import univ
from pysnmp.proto import errind, error
from pysnmp.proto.mpmod.rfc2576 import SnmpV2cMessageProcessingModel
from pysnmp.proto.mpmod.rfc3412 import SnmpV3MessageProcessingModel
from pysnmp.proto.secmod.rfc2576 import SnmpV2cSecurityModel
from pysnmp.proto.secmod.rfc3414 import SnmpUSMSecurityModel

from collectors.snmp import ber
from collectors.snmp.messages import (
    EncryptedMessage,
    Request,
    SlicedMessage,
    answer_v2c,
    encoded_pdu,
    encrypted_v3,
    slice_scoped,
    slice_v3,
)
from streams.wire.errors import Reject

_PDU = 7
"""The index of the PDU in the result of `prepare_data_elements`."""
_VERSION_2C = b"\x02\x01\x01"
_USM, _AUTH_PRIV = 3, 3


class Community(SnmpV2cSecurityModel):  # type: ignore[misc]
    """The community-based security model, for messages that pyasn1 does not decode."""

    def __init__(self) -> None:
        super().__init__()
        self.known: bytes | None = None
        """The community; None until the first request."""

    def of(self, engine: Any, name: Any) -> bytes:
        """Return the community of a security name; an engine has one community, which does not change."""
        if self.known is None:
            self.known = bytes(self._sec2com(engine, name, engine.snmpEngineID, b""))
        return self.known


class SlicedV2c(SnmpV2cMessageProcessingModel):  # type: ignore[misc]
    """Message processing of v2c: sends a Request and returns an Answer. On the wire each has a pysnmp number."""

    def __init__(self, security: Community) -> None:
        super().__init__()
        self._security = security

    def prepare_outgoing_message(
        self, engine: Any, domain: Any, address: Any, _model: Any, security_model: Any, name: Any, level: Any,
        _engine_id: Any, context: Any, _version: Any, pdu: Request, expects: Any, handle: Any,
    ) -> Any:  # fmt: skip
        """See pysnmp."""
        number = self._cache.new_message_id()
        community = self._security.of(engine, name)
        inside = ber.encoded(ber.OCTETS, community) + ber.encoded(pdu.tag, pdu.content(number))
        self._cache.push_by_message_id(
            number, sendPduHandle=handle, number=pdu.number, login=(security_model, name, level)
        )
        return domain, address, ber.encoded(ber.SEQUENCE, _VERSION_2C + inside)

    def prepare_data_elements(self, engine: Any, domain: Any, address: Any, message: bytes) -> Any:
        """See pysnmp. Raises Reject."""
        community, answer = answer_v2c(message)
        if community != self._security.known:
            raise error.StatusInformation(errorIndication=errind.unknownCommunityName)
        try:
            request = self._cache.pop_by_message_id(answer.number)
        except error.ProtocolError as why:
            raise error.StatusInformation(errorIndication=errind.dataMismatch) from why
        security_model, name, level = request["login"]
        return (
            1, security_model, name, level, engine.snmpEngineID, b"", 1,
            answer._replace(number=request["number"]), None, request["sendPduHandle"], None, None, None,
        )  # fmt: skip


class SlicedV3(SnmpV3MessageProcessingModel):  # type: ignore[misc]
    """Message processing of v3: sends a Request and returns an Answer.

    The parts that its security model cut out always belong to the current message.
    """

    def __init__(self, security: "SlicedUsm") -> None:
        super().__init__()
        self._security = security

    def prepare_outgoing_message(self, *given: Any) -> Any:
        """See pysnmp."""
        *before, pdu, expects, handle = given
        return super().prepare_outgoing_message(*before, encoded_pdu(pdu), expects, handle)

    def prepare_data_elements(self, engine: Any, domain: Any, address: Any, message: bytes) -> Any:
        """See pysnmp. Raises Reject."""
        outer = encrypted_v3(message)
        if outer is not None and (elements := self._opened(engine, message, outer)) is not None:
            return elements
        found = None if outer else slice_v3(message)
        self._security.begin(message, found)
        try:
            elements = super().prepare_data_elements(engine, domain, address, found.rest if found else message)
            if (found := self._security.found) is None:
                return elements
            return (*elements[:_PDU], found.answer, *elements[_PDU + 1 :])
        finally:
            self._security.begin(b"", None)

    def _opened(self, engine: Any, message: bytes, outer: EncryptedMessage) -> Any:
        """Process a Response with an encrypted PDU (RFC 3412, 7.2); return None for any other. Raises Reject."""
        if outer.flags & 3 != _AUTH_PRIV:
            raise Reject("encrypted without the privacy flag")
        security = self._security
        security.begin(message, None)
        try:
            _, name, _, largest, state = security.process_incoming_message(
                engine, _USM, outer.largest, outer.security, _USM, _AUTH_PRIV, message, _Parts(outer.encrypted)
            )
            found = security.found
        except error.StatusInformation as why:
            if (state := why.get("securityStateReference")) is not None:
                security.release_state_information(state)
            raise
        finally:
            security.begin(b"", None)
        security.release_state_information(state)
        if found is None:
            return None
        try:
            request = self._cache.pop_by_message_id(outer.number)
        except error.ProtocolError as why:
            raise error.StatusInformation(errorIndication=errind.dataMismatch) from why
        if (
            request["securityModel"] != _USM or request["securityLevel"] != _AUTH_PRIV
            or request["securityName"] != name or request["contextEngineId"] != found.context_engine
            or request["contextName"] != found.context
        ):  # fmt: skip
            raise error.StatusInformation(errorIndication=errind.dataMismatch)
        return (
            _USM, _USM, name, _AUTH_PRIV, found.context_engine, found.context, 1, found.answer, None,
            request["sendPduHandle"], largest, None, None,
        )  # fmt: skip


class _Parts:
    """The parts of a message that the security model reads: an encrypted PDU, in a form that it cannot decode."""

    _AS_IT_IS = univ.Any()

    def __init__(self, encrypted: bytes) -> None:
        self._parts = {0: self._AS_IT_IS, 1: univ.OctetString(encrypted), 3: self}

    def getComponentByPosition(self, place: int) -> Any:  # noqa: N802 — pyasn1's name
        """Return the message's data at 3; its encrypted PDU is at 1."""
        return self._parts[place]

    def setComponentByPosition(self, _place: int) -> "_Parts":  # noqa: N802 — pyasn1's name
        """Ignore the change."""
        return self


class SlicedUsm(SnmpUSMSecurityModel):  # type: ignore[misc]
    """The user-based security model: checks the message as received, and slices the decrypted PDU."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = b""
        self.found: SlicedMessage | None = None
        services: dict[Any, Any] = SnmpUSMSecurityModel.PRIV_SERVICES
        self.PRIV_SERVICES = {name: _Private(each, self._set_found) for name, each in services.items()}

    def begin(self, whole: bytes, found: SlicedMessage | None) -> None:
        """Reset the state; `whole` is the message to check."""
        self._whole, self.found = whole, found

    def _set_found(self, found: SlicedMessage | None) -> None:
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
    """A privacy protocol that removes the varbinds from its plain text."""

    def __init__(self, service: Any, on_decrypted: Callable[[SlicedMessage | None], None]) -> None:
        self._service = service
        self._set_found = on_decrypted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def decrypt_data(self, key: Any, parameters: Any, encrypted: Any) -> Any:
        """See pysnmp."""
        data = bytes(self._service.decrypt_data(key, parameters, encrypted))
        try:
            found = slice_scoped(data, 0, len(data))
        except Reject as why:
            raise error.StatusInformation(errorIndication=errind.decryptionError) from why
        self._set_found(found)
        return found.rest if found else data
