"""Hears traps and informs: pysnmp's receiver behind a door that knows who may speak, and how often. I/O only.

A community is no secret on the wire, and an address is easily forged within a site: a v2c trap is believed as far as
the management network is. Version 3 proves who speaks.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp, udp6
from pysnmp.carrier.asyncio.dispatch import AsyncioDispatcher
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.ntfrcv import NotificationReceiver
from pysnmp.proto.rfc1902 import OctetString
from pysnmp.proto.rfc3412 import MsgAndPduDispatcher

from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber
from collectors.snmp.ber import Value
from collectors.snmp.engine import GARBAGE, V2C, Login, add_login
from streams.wire.errors import Misconfigured, Reject

_LARGEST = 8192
"""A linkDown is some 200 bytes; pyasn1 takes its time over large ones."""
_TICK_S = 2.0
_MOST_ENGINES = 4
"""Of one device: a chassis may have a supervisor or two, and making the keys for one takes some milliseconds."""
_V3 = b"\x03"

OnTrap = Callable[[str, dict[bytes, Value]], bool]
"""Is given the sender's address and the varbinds; False where it is about a port that nobody knows."""


class Traps:
    """Listens at one address. Use as an async context manager; entering raises Misconfigured."""

    def __init__(
        self, address: tuple[str, int], login: Login, senders: Callable[[str], str | None], heard: OnTrap,
        metrics: CollectorMetrics, max_per_s: int,
    ) -> None:  # fmt: skip
        """`senders` says whose an address is."""
        self._address = address
        self._login = login
        self._senders = senders
        self._heard = heard
        self._metrics = metrics
        self._most = max_per_s
        self._second, self._spoken = -1, dict[str, int]()
        self._engines_of: dict[str, set[bytes]] = {}
        self.engine: Any = None
        self.port = 0

    async def __aenter__(self) -> "Traps":
        loop = asyncio.get_running_loop()
        engine = SnmpEngine(msgAndPduDsp=_Dispatcher(self._refused, self._introduce))
        add_login(engine, self._login)
        is_v6 = ":" in self._address[0]
        transport: Any = (_Udp6 if is_v6 else _Udp)(self, loop=loop)
        try:
            endpoint, _ = await loop.create_datagram_endpoint(lambda: transport, local_addr=self._address)
        except OSError as error:
            raise Misconfigured(f"collect.snmp: traps: {self._address[0]}:{self._address[1]}: {error}") from error
        self.port = endpoint.get_extra_info("sockname")[1]
        dispatcher = AsyncioDispatcher(loop=loop)
        dispatcher.set_timer_resolution(_TICK_S)
        engine.register_transport_dispatcher(dispatcher)
        config.add_transport(engine, udp6.DOMAIN_NAME if is_v6 else udp.DOMAIN_NAME, transport)
        NotificationReceiver(engine, self._received)
        self.engine = engine
        return self

    async def __aexit__(self, *_: object) -> None:
        self.engine.close_dispatcher()

    def is_allowed(self, data: bytes, address: tuple[Any, ...]) -> bool:
        """Whether to read it at all."""
        device = self._senders(address[0])
        if device is None or len(data) > _LARGEST:
            self._metrics.add("unreadable", device or "traps")
            return False
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._spoken = second, {}
        self._spoken[device] = self._spoken.get(device, 0) + 1
        if self._spoken[device] > self._most:
            self._metrics.add("throttled", device)
            return False
        return True

    def _introduce(self, address: str, message: bytes) -> bool:
        """Learn the engine that sends a v3 trap, for its keys are made with its engine's id; True for a discovery.

        An inform is protected by our engine, which its sender asks for first. Raises Reject.
        """
        if self._login.version == V2C or (said := _sender_engine(message)) is None:
            return False
        speaker, user = said
        if user != self._login.user.encode() or not 5 <= len(speaker) <= 32:
            return not speaker
        known = self._engines_of.setdefault(self._senders(address) or "", set())
        if speaker not in known and speaker != bytes(self.engine.snmpEngineID):
            if len(known) >= _MOST_ENGINES:
                raise Reject("one device with many engines")
            known.add(speaker)
            add_login(self.engine, self._login, OctetString(speaker))
        return False

    def _refused(self, address: str) -> None:
        self._metrics.add("unreadable", self._senders(address) or "traps")

    def _received(self, engine: Any, _reference: Any, _engine: Any, _context: Any, said: Any, _: Any) -> None:
        """What pysnmp calls, within its reading of the message."""
        address = engine.message_dispatcher.sender
        engine.message_dispatcher.has_understood = True
        varbinds = {ber.oid_bytes(tuple(name)): _value(value) for name, value in said}
        if not self._heard(address, varbinds):
            self._metrics.add("unnamed", self._senders(address) or "traps")


class _Dispatcher(MsgAndPduDispatcher):  # type: ignore[misc]
    """pysnmp's dispatcher; it knows who is speaking, and what makes no sense is refused and never raises."""

    def __init__(self, refused: Callable[[str], None], introduce: Callable[[str, bytes], bool]) -> None:
        super().__init__()
        self._refused = refused
        self._introduce = introduce
        self.sender = ""
        self.has_understood = False

    def receive_message(self, engine: Any, domain: Any, address: Any, message: bytes) -> None:
        """See pysnmp."""
        self.sender, self.has_understood = address[0], False
        try:
            self.has_understood = self._introduce(self.sender, message)
            super().receive_message(engine, domain, address, message)
        except GARBAGE:
            self.has_understood = False
        if not self.has_understood:
            self._refused(self.sender)


class _Guarded:
    def __init__(self, door: Traps, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._door = door

    def datagram_received(self, data: bytes, address: Any) -> None:
        """See asyncio."""
        if self._door.is_allowed(data, address):
            super().datagram_received(data, address)  # type: ignore[misc]


class _Udp(_Guarded, udp.UdpAsyncioTransport):  # type: ignore[misc]
    pass


class _Udp6(_Guarded, udp6.Udp6AsyncioTransport):  # type: ignore[misc]
    pass


def _sender_engine(message: bytes) -> tuple[bytes, bytes] | None:
    """The engine's id and the user of a v3 message; None for other versions. Raises Reject."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    version = ber.element(message, body.start, body.end, ber.INTEGER)
    if message[slice(*version)] != _V3:
        return None
    header = ber.element(message, version.end, body.end, ber.SEQUENCE)
    security = ber.element(message, header.end, body.end, ber.OCTETS)
    inner = ber.element(message, security.start, security.end, ber.SEQUENCE)
    speaker = ber.element(message, inner.start, inner.end, ber.OCTETS)
    boots = ber.element(message, speaker.end, inner.end, ber.INTEGER)
    time = ber.element(message, boots.end, inner.end, ber.INTEGER)
    user = ber.element(message, time.end, inner.end, ber.OCTETS)
    return message[slice(*speaker)], message[slice(*user)]


def _value(value: Any) -> Value:
    """A pyasn1 value as a number, or as bytes; an OID as it is on the wire."""
    if hasattr(value, "getComponent"):
        return _value(value.getComponent())
    if hasattr(value, "asOctets"):
        return bytes(value.asOctets())
    if hasattr(value, "asTuple"):
        return ber.oid_bytes(value.asTuple())
    try:
        return int(value)
    except (TypeError, ValueError):
        return b""
