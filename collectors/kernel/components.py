"""What a host's ports are, as Facts: a component each, with every name that something else may use for it. Pure."""

from collections.abc import Iterable

from collectors.kernel.ports import Port, Role
from streams.wire.models import Component

_KIND = {Role.FABRIC: "nic", Role.MANAGEMENT: "nic-management"}


def components(ports: Iterable[tuple[Port, str, Role]]) -> tuple[Component, ...]:
    """One for each port that is one, in the order of their names; each is given with its name and role."""
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
