"""Tables of a small switch, as they come over the wire."""

from collections.abc import Mapping

from collectors.snmp import mib
from collectors.snmp.ber import Column, Value, oid_bytes

EVERY = (
    *mib.INTERFACES, *mib.STATES, *mib.EVERY_COUNTER, *mib.ENTITIES, mib.ENTITY_ALIAS, *mib.SENSORS, *mib.LLDP_REMOTE,
    *mib.LLDP_LOCAL,
)  # fmt: skip


def row(*index: int) -> bytes:
    """An index as it ends an OID."""
    return oid_bytes((0, 0, *index))[1:]


def cells(said: Mapping[bytes, Mapping[int | tuple[int, ...], Value]]) -> dict[bytes, Column]:
    """These columns by index, every other one empty."""
    found: dict[bytes, Column] = {column: {} for column in EVERY}
    for column, values in said.items():
        found[column] = {row(*(i if isinstance(i, tuple) else (i,))): value for i, value in values.items()}
    return found


def switch(names: Mapping[int, str], **columns: Mapping[int, Value]) -> dict[bytes, Column]:
    """Ethernet ports of these names that are up; more columns by their names in `mib`."""
    said: dict[bytes, Mapping[int | tuple[int, ...], Value]] = {
        mib.IF_NAME: {i: name.encode() for i, name in names.items()},
        mib.IF_TYPE: dict.fromkeys(names, 6),
        mib.IF_OPER_STATUS: dict.fromkeys(names, 1),
        mib.IF_ADMIN_STATUS: dict.fromkeys(names, 1),
        mib.IF_HIGH_SPEED: dict.fromkeys(names, 100_000),
    }
    said |= {getattr(mib, name): dict(values) for name, values in columns.items()}
    return cells(said)
