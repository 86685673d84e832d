"""Receives traps and informs with pysnmp, limited to known senders and to a rate.

A community is readable on the wire, and an address is easily forged within a site: a v2c trap is as trustworthy as the
management network. Version 3 authenticates the sender.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.ntfrcv import NotificationReceiver
from pysnmp.proto.rfc1902 import OctetString
from pysnmp.proto.rfc3412 import MsgAndPduDispatcher

from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber, mib
from collectors.snmp.ber import Value
from collectors.snmp.engine import GARBAGE, V2C, Login, add_login, open_transport
from collectors.snmp.mib import oid
from collectors.snmp.octet_text import text
from collectors.snmp.optics import entity_row
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import EventKind


class EngineSlots:
    """Limits the SNMPv3 engines whose keys are retained for the traps of a device.

    Any host can send a datagram with a device's address and an arbitrary engine id. An engine retains its slot only
    after one of its messages was authenticated. The others replace each other, so that forgeries block no trap.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._engines: dict[str, dict[bytes, bool]] = {}
        """Maps device and engine id to True after an authenticated message; ordered by the last such message."""

    def add(self, device: str, engine_id: bytes) -> tuple[bool, bytes | None]:
        """Return True if the engine is new, and the engine whose keys it replaces, unless another device has it."""
        engines = self._engines.setdefault(device, {})
        if engine_id in engines:
            return False, None
        is_new = not self._is_known(engine_id)
        evicted = None
        if len(engines) >= self._capacity:
            evicted = next((one for one, is_verified in engines.items() if not is_verified), next(iter(engines)))
            del engines[evicted]
        engines[engine_id] = False
        return is_new, None if evicted is None or self._is_known(evicted) else evicted

    def verify(self, device: str, engine_id: bytes) -> None:
        """Record that a message of the engine was authenticated."""
        engines = self._engines.get(device, {})
        if engine_id in engines:
            del engines[engine_id]
            engines[engine_id] = True

    def _is_known(self, engine_id: bytes) -> bool:
        return any(engine_id in engines for engines in self._engines.values())


_KINDS = {
    oid("1.3.6.1.6.3.1.1.5.1"): (EventKind.DEVICE_REBOOT, "coldStart"),
    oid("1.3.6.1.6.3.1.1.5.2"): (EventKind.DEVICE_REBOOT, "warmStart"),
    oid("1.3.6.1.6.3.1.1.5.3"): (EventKind.LINK_DOWN, "linkDown"),
    oid("1.3.6.1.6.3.1.1.5.4"): (EventKind.LINK_UP, "linkUp"),
}
_ABOUT_A_PORT = (mib.IF_INDEX, mib.IF_ADMIN_STATUS, mib.IF_OPER_STATUS, mib.IF_DESCR, mib.IF_NAME)


@dataclass(frozen=True, slots=True)
class Notification:
    """A trap's event; `row` is the port's ifIndex as the end of an OID, empty for none; `name` is the port's name."""

    kind: EventKind
    detail: str
    row: bytes = b""
    name: str = ""
    admin_up: bool | None = None


def notification(varbinds: Mapping[bytes, Value]) -> Notification | None:
    """Return the event in a trap's varbinds; None for other traps."""
    trap = varbinds.get(mib.TRAP_OID)
    if not isinstance(trap, bytes) or (known := _KINDS.get(trap)) is None:
        return None
    kind, detail = known
    if kind is EventKind.DEVICE_REBOOT:
        return Notification(kind, detail)
    row = _row(varbinds)
    name = text(varbinds.get(mib.IF_NAME + row)) or text(varbinds.get(mib.IF_DESCR + row))
    admin = varbinds.get(mib.IF_ADMIN_STATUS + row)
    admin_up = admin == 1 if admin in (1, 2) else None
    return Notification(kind, detail, row, name, admin_up)


def _row(varbinds: Mapping[bytes, Value]) -> bytes:
    """Return the row in the value of ifIndex, else in the instance of the other objects."""
    for name, value in varbinds.items():
        if name.startswith(mib.IF_INDEX) and isinstance(value, int):
            return entity_row(value)
    for name in varbinds:
        for column in _ABOUT_A_PORT:
            if name.startswith(column):
                return name[len(column) :]
    return b""


_LARGEST = 8192
"""Limit of a message: a linkDown has about 200 bytes, and pyasn1 is slow for large messages."""
_MOST_ENGINES = 4
"""Limit per device: a chassis has one or two supervisors, and creating an engine's keys takes some milliseconds."""
_V3 = b"\x03"

OnTrap = Callable[[str, dict[bytes, Value]], bool]
"""Receives the sender's address and the varbinds; returns False if they name an unknown port."""


class Traps:
    """Receives traps at one address. Use as an async context manager; entering raises Misconfigured."""

    def __init__(
        self, address: tuple[str, int], login_of: Callable[[str], Login | None], senders: Callable[[str], str | None],
        on_trap: OnTrap, metrics: CollectorMetrics, max_per_s: int,
    ) -> None:  # fmt: skip
        """Create it; `senders` returns the device of an address, and `login_of` its login."""
        self._address = address
        self._login_of = login_of
        self._added: set[Login] = set()
        self._senders = senders
        self._on_trap = on_trap
        self._metrics = metrics
        self._max_per_s = max_per_s
        self._second, self._counts = -1, dict[str, int]()
        self._slots = EngineSlots(_MOST_ENGINES)
        self._sender_engine = b""
        """The engine of the current message."""
        self.engine: Any = None
        self.port = 0

    async def __aenter__(self) -> "Traps":
        engine = SnmpEngine(msgAndPduDsp=_Dispatcher(self._refused, self._add_engine))
        try:
            _, endpoint = await open_transport(
                engine, self.is_allowed, is_v6=":" in self._address[0], local_addr=self._address
            )
        except OSError as error:
            raise Misconfigured(f"collect.snmp: traps: {self._address[0]}:{self._address[1]}: {error}") from error
        self.port = endpoint.get_extra_info("sockname")[1]
        NotificationReceiver(engine, self._received)
        self.engine = engine
        return self

    async def __aexit__(self, *_: object) -> None:
        self.engine.close_dispatcher()

    def is_allowed(self, data: bytes, address: tuple[Any, ...]) -> bool:
        """Return True if a datagram of this size and sender is accepted."""
        device = self._senders(address[0])
        if device is None or len(data) > _LARGEST:
            self._metrics.add("unreadable", device or "traps")
            return False
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._counts = second, {}
        self._counts[device] = self._counts.get(device, 0) + 1
        if self._counts[device] > self._max_per_s:
            self._metrics.add("throttled", device)
            return False
        return True

    def _add_engine(self, address: str, message: bytes) -> bool:
        """Add the login of the sender, and the engine of a v3 trap, because the keys depend on the engine id.

        Return True for a discovery: the receiver's engine protects an inform, so its sender discovers that engine
        first. Raises Reject for the login of another device.
        """
        self._sender_engine = b""
        login = self._login_of(address)
        if login is None or not _is_by(login, message):
            raise Reject("not the login of this device")
        if login not in self._added:
            add_login(self.engine, login, name=f"railsight{len(self._added)}")
            self._added.add(login)
        if (sender := _sender_engine(message)) is None:
            return False
        engine_id, user = sender
        if user != login.user.encode() or not 5 <= len(engine_id) <= 32:
            return not engine_id
        if engine_id == bytes(self.engine.snmpEngineID):
            return False
        is_new, replaced = self._slots.add(self._senders(address) or "", engine_id)
        if replaced is not None:
            self._metrics.add("throttled", self._senders(address) or "traps")
            config.delete_v3_user(self.engine, login.user, OctetString(replaced))
        if is_new:
            add_login(self.engine, login, OctetString(engine_id))
        self._sender_engine = engine_id
        return False

    def _refused(self, address: str) -> None:
        self._metrics.add("unreadable", self._senders(address) or "traps")

    def _received(self, engine: Any, _reference: Any, _engine: Any, _context: Any, varbinds: Any, _: Any) -> None:
        """Handle pysnmp's call while it reads the message."""
        address = engine.message_dispatcher.sender
        engine.message_dispatcher.has_understood = True
        self._slots.verify(self._senders(address) or "", self._sender_engine)
        varbinds = {ber.oid_bytes(tuple(name)): _value(value) for name, value in varbinds}
        if not self._on_trap(address, varbinds):
            self._metrics.add("unnamed", self._senders(address) or "traps")


class _Dispatcher(MsgAndPduDispatcher):  # type: ignore[misc]
    """A pysnmp dispatcher that records the sender; it refuses malformed messages and never raises."""

    def __init__(self, refused: Callable[[str], None], add_engine: Callable[[str, bytes], bool]) -> None:
        super().__init__()
        self._refused = refused
        self._add_engine = add_engine
        self.sender = ""
        self.has_understood = False

    def receive_message(self, engine: Any, domain: Any, address: Any, message: bytes) -> None:
        """See pysnmp."""
        self.sender, self.has_understood = address[0], False
        try:
            self.has_understood = self._add_engine(self.sender, message)
            super().receive_message(engine, domain, address, message)
        except GARBAGE:
            self.has_understood = False
        if not self.has_understood:
            self._refused(self.sender)


def _is_by(login: Login, message: bytes) -> bool:
    """Return True if a message has the version and the community of a login. Raises Reject."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    version = ber.element(message, body.start, body.end, ber.INTEGER)
    if (message[slice(*version)] == _V3) is (login.version == V2C):
        return False
    if login.version != V2C:
        return True
    return message[slice(*ber.element(message, version.end, body.end, ber.OCTETS))] == login.community.encode()


def _sender_engine(message: bytes) -> tuple[bytes, bytes] | None:
    """Return the engine id and the user of a v3 message; None for other versions. Raises Reject."""
    body = ber.element(message, 0, len(message), ber.SEQUENCE)
    version = ber.element(message, body.start, body.end, ber.INTEGER)
    if message[slice(*version)] != _V3:
        return None
    header = ber.element(message, version.end, body.end, ber.SEQUENCE)
    security = ber.element(message, header.end, body.end, ber.OCTETS)
    inner = ber.element(message, security.start, security.end, ber.SEQUENCE)
    engine_id = ber.element(message, inner.start, inner.end, ber.OCTETS)
    boots = ber.element(message, engine_id.end, inner.end, ber.INTEGER)
    time = ber.element(message, boots.end, inner.end, ber.INTEGER)
    user = ber.element(message, time.end, inner.end, ber.OCTETS)
    return message[slice(*engine_id)], message[slice(*user)]


def _value(value: Any) -> Value:
    """Convert a pyasn1 value to a number or bytes; an OID is encoded."""
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
