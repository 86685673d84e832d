"""Interprets traps and informs: linkDown, linkUp, coldStart, warmStart (RFC 2863, RFC 3418). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.snmp import mib
from collectors.snmp.ber import Value
from collectors.snmp.mib import oid
from collectors.snmp.octet_text import text
from collectors.snmp.optics import entity_row
from streams.wire.models import EventKind

_KINDS = {
    oid("1.3.6.1.6.3.1.1.5.1"): (EventKind.DEVICE_REBOOT, "coldStart"),
    oid("1.3.6.1.6.3.1.1.5.2"): (EventKind.DEVICE_REBOOT, "warmStart"),
    oid("1.3.6.1.6.3.1.1.5.3"): (EventKind.LINK_DOWN, "linkDown"),
    oid("1.3.6.1.6.3.1.1.5.4"): (EventKind.LINK_UP, "linkUp"),
}
_ABOUT_A_PORT = (mib.IF_INDEX, mib.IF_ADMIN_STATUS, mib.IF_OPER_STATUS, mib.IF_DESCR, mib.IF_NAME)


@dataclass(frozen=True, slots=True)
class Notification:
    """A trap's event; `row` is the port's ifIndex as the end of an OID, empty for none; `name` is the port's."""

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
    admin = {1: True, 2: False}.get(_number(varbinds.get(mib.IF_ADMIN_STATUS + row)))
    return Notification(kind, detail, row, name, admin)


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


def _number(value: Value | None) -> int:
    return value if isinstance(value, int) else -1
