"""What a host's ports are, as Facts: a component each, with every name that something else may use for it. Pure."""

from collections.abc import Iterable, Mapping

from collectors.nic.ports import Port, Role
from streams.wire.models import Component

_KIND = {Role.FABRIC: "nic", Role.MANAGEMENT: "nic-management"}


def components(ports: Iterable[Port], names: Mapping[str, str], roles: Mapping[str, Role]) -> tuple[Component, ...]:
    """One for each port that is one, in the order of their names."""
    found = [
        Component(
            name=names[port.identity],
            kind=_KIND[roles[port.identity]],
            part_number=port.part_number or port.board or port.model,
            serial=port.serial,
            firmware=port.firmware,
            alias=tuple(alias for alias in port.aliases if alias != names[port.identity]),
        )
        for port in ports
        if roles[port.identity] in _KIND
    ]
    return tuple(sorted(found, key=lambda component: component.name))
