"""Extracts Facts: a device's identity, the components in its ports, and its LLDP neighbors. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from collectors.snmp import mib, vendor_optics
from collectors.snmp.ber import Column, Value, sub_identifiers
from collectors.snmp.octet_text import address, text, whole
from collectors.snmp.optics import Entities, Mapped, Owners, entity_row, mapped
from collectors.snmp.port_index import PortIndex
from streams.wire.errors import Reject
from streams.wire.models import Component, Neighbor

_CHASSIS, _SENSOR = 3, 8
_MAC, _INTERFACE_ALIAS, _INTERFACE_NAME, _LOCAL = 3, 1, 5, 7
"""LldpPortIdSubtype values."""
_CHASSIS_MAC = 4
_VENDORS = {
    9: "Cisco", 11: "HPE", 2011: "Huawei", 2636: "Juniper", 5624: "Enterasys", 6027: "Dell", 6486: "Alcatel-Lucent",
    8072: "net-snmp", 1916: "Extreme Networks", 1991: "Brocade", 25506: "H3C", 30065: "Arista Networks",
    33049: "NVIDIA", 40310: "Cumulus", 47196: "Aruba", 674: "Dell", 4413: "Broadcom", 26543: "Lenovo",
    22420: "Accton", 259: "Edgecore", 27282: "Edgecore", 6527: "Nokia", 12356: "Fortinet", 14988: "MikroTik",
    36673: "IP Infusion",
}  # fmt: skip
"""Switch vendors by IANA's private enterprise number."""


_HOSTS = frozenset({8072})
"""Agents of hosts, which have no optics."""


def is_switch(vendor: int | None) -> bool:
    """Return True for the enterprise number of a switch's vendor."""
    return vendor in _VENDORS.keys() - _HOSTS


class Identity(NamedTuple):
    """The identity of a device; a field is empty if the device does not report it."""

    vendor: str = ""
    model: str = ""
    serial: str = ""
    os_version: str = ""


class Extracted(NamedTuple):
    """The content of a device's tables; `unread` has the rows of tables that are not read, by reason."""

    optics: Mapped
    sensor_rows: dict[bytes, frozenset[bytes]]
    unread: dict[str, tuple[str, ...]]
    identity: Identity
    components: tuple[Component, ...]
    neighbors: tuple[Neighbor, ...]


def extract(cells: Mapping[bytes, Column], scalars: Mapping[bytes, Value], ports: PortIndex) -> Extracted:
    """Return the sensors, the identity, the components and the neighbors of a device."""
    found = entities(cells, ports)
    owners = Owners(found, ports.labels, {number: ports.name[row] for row, number in ports.index.items()})
    optics = mapped(cells, found, owners, vendor_optics.sensors(cells, owners, ports.name))
    columns = {sensor.column for sensor in optics.sensors}
    limits = vendor_optics.limits(cells, optics.sensors, ports.name)
    return Extracted(
        optics, {column: frozenset(cells[column]) for column in columns},
        vendor_optics.unread(cells, vendor_optics.enterprise(scalars.get(mib.SYS_OBJECT_ID))),
        identity(cells, scalars), components(cells, ports, owners, limits), neighbors(cells, ports),
    )  # fmt: skip


def entities(cells: Mapping[bytes, Column], ports: PortIndex) -> Entities:
    """Return the entities of ENTITY-MIB, with the ports that it maps to interfaces."""
    rows = set(cells[mib.ENTITY_DESCR]) | set(cells[mib.ENTITY_NAME])
    columns = (cells[mib.ENTITY_DESCR], cells[mib.ENTITY_NAME])
    names = {row: " ".join(text(column.get(row)) for column in columns).strip() for row in rows}
    parent = {row: entity_row(whole(value)) for row, value in cells[mib.ENTITY_PARENT].items()}
    return Entities(names, parent, dict(_aliases(cells[mib.ENTITY_ALIAS], ports)))


def _aliases(column: Column, ports: PortIndex) -> Iterator[tuple[bytes, str]]:
    """Yield entities with their port; a row is entity.logical, the value an instance of ifIndex."""
    for row, value in column.items():
        if not isinstance(value, bytes) or not value.startswith(mib.IF_INDEX):
            continue
        name = ports.name.get(value[len(mib.IF_INDEX) :])
        try:
            entity = sub_identifiers(row)[0]
        except (Reject, IndexError):
            continue
        if name is not None:
            yield entity_row(entity), name


def identity(cells: Mapping[bytes, Column], scalars: Mapping[bytes, Value]) -> Identity:
    """Return the values of the first chassis (a stack entity has none), else the vendor by its number."""
    chassis = [row for row, kind in cells[mib.ENTITY_CLASS].items() if kind == _CHASSIS]
    row = min(chassis, key=lambda row: (len(row), row), default=b"")

    def name(column: bytes) -> str:
        return text(cells[column].get(row))

    descr = text(scalars.get(mib.SYS_DESCR))
    vendor = _VENDORS.get(vendor_optics.enterprise(scalars.get(mib.SYS_OBJECT_ID)) or 0) or name(mib.ENTITY_MAKER)
    return Identity(vendor, name(mib.ENTITY_MODEL), name(mib.ENTITY_SERIAL), name(mib.ENTITY_SOFTWARE) or descr)


def components(
    cells: Mapping[bytes, Column], ports: PortIndex, owners: Owners, limits: Mapping[str, Mapping[str, float]]
) -> tuple[Component, ...]:
    """Return each port with its other names and its module's own limits, and its modules with a part or serial number.

    Devices disagree about a module's class: an Arista's transceivers are containers.
    """
    others: dict[str, list[str]] = {}
    for name, port in ports.labels.items():
        if name != port:
            others.setdefault(port, []).append(name)
    for row, port in ports.name.items():
        if mac := address(cells[mib.IF_PHYS_ADDRESS].get(row)):
            others.setdefault(port, []).append(mac)
    found = [
        Component(port, "port", alias=tuple(others.get(port, ())), limit=dict(limits.get(port, {})))
        for port in ports.name.values()
    ]
    for row, kind in cells[mib.ENTITY_CLASS].items():
        part, serial = text(cells[mib.ENTITY_MODEL].get(row)), text(cells[mib.ENTITY_SERIAL].get(row))
        if kind in (_CHASSIS, _SENSOR) or not (part or serial) or (port_ := owners.port(row)) is None:
            continue
        firmware = text(cells[mib.ENTITY_FIRMWARE].get(row)) or text(cells[mib.ENTITY_SOFTWARE].get(row))
        found.append(Component(port_, "transceiver", part, serial, firmware))
    return tuple(sorted(found, key=lambda component: (component.name, component.kind, component.serial)))


def neighbors(cells: Mapping[bytes, Column], ports: PortIndex) -> tuple[Neighbor, ...]:
    """Return the LLDP neighbors of each port that advertised both their device and their port."""
    found: set[tuple[str, str, str]] = set()
    for row, kind in cells[mib.LLDP_PORT_KIND].items():
        try:
            _, local, _ = sub_identifiers(row)
        except (Reject, ValueError):
            continue
        port = _local_port(cells, ports, local)
        chassis = cells[mib.LLDP_CHASSIS].get(row)
        is_mac = cells[mib.LLDP_CHASSIS_KIND].get(row) == _CHASSIS_MAC
        device = text(cells[mib.LLDP_NAME].get(row)) or (address(chassis) if is_mac else text(chassis))
        remote = _id(kind, cells[mib.LLDP_PORT].get(row)) or text(cells[mib.LLDP_PORT_DESCR].get(row))
        if port and device and remote:
            found.add((port, device, remote))
    return tuple(Neighbor(*one) for one in sorted(found))


def _id(kind: Value, value: Value | None) -> str:
    if kind == _MAC:
        return address(value)
    return text(value) if kind in (_INTERFACE_ALIAS, _INTERFACE_NAME, _LOCAL) else ""


def _local_port(cells: Mapping[bytes, Column], ports: PortIndex, local: int) -> str:
    """Return the port by the names of LLDP's local port; else the port whose ifIndex is the local port's number."""
    row = entity_row(local)
    kind = cells[mib.LLDP_LOCAL_KIND].get(row, 0)
    for name in (_id(kind, cells[mib.LLDP_LOCAL_ID].get(row)), text(cells[mib.LLDP_LOCAL_DESCR].get(row))):
        if kind != _LOCAL and name in ports.labels:
            return ports.labels[name]
    if kind == _LOCAL:  # the ifIndex on most devices, or a name
        name = text(cells[mib.LLDP_LOCAL_ID].get(row))
        if name.isascii() and name.isdigit() and (port := ports.name.get(entity_row(int(name[:9])))) is not None:
            return port
        if name in ports.labels:
            return ports.labels[name]
    return ports.name.get(row, "")
