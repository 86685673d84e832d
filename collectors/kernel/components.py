"""Converts a host's ports to components of Facts, each with all its alternative names. Pure."""

from collections.abc import Iterable

from collectors.kernel.ports import Port, Role
from streams.wire.models import Component

_KIND = {Role.FABRIC: "nic", Role.MANAGEMENT: "nic-management"}


def components(ports: Iterable[tuple[Port, str, Role]]) -> tuple[Component, ...]:
    """Return a component for each fabric or management port, sorted by name; input is (port, name, role)."""
    found = [
        Component(
            name=name,
            kind=_KIND[role],
            part_number=port.part_number or port.board or port.model,
            serial=port.serial,
            firmware=port.firmware,
            alias=tuple(alias for alias in port.aliases if alias != name),
        )
        for port, name, role in ports
        if role in _KIND
    ]
    return tuple(sorted(found, key=lambda component: component.name))
