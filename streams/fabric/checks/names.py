"""Rules for port names: an alias must identify exactly one port."""

from collections import defaultdict
from collections.abc import Iterator

from streams.fabric.checks.problem import Problem
from streams.fabric.checks.tables import Tables


def unknown_device(tables: Tables) -> Iterator[Problem]:
    """Report each port name of a device that the table of devices does not contain."""
    for index, name in enumerate(tables.inventory.ports):
        if not tables.is_known(name.device):
            message = f"{name.device} is not among the devices"
            yield Problem("ports", (tables.row("ports", index),), "unknown-device", message, is_error=True)


def alias_of_two_ports(tables: Tables) -> Iterator[Problem]:
    """Report each alias of several ports; a look-up goes by device and alias, for all sources."""
    ports_by_alias: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, name in enumerate(tables.inventory.ports):
        ports_by_alias[name.device, name.alias][name.port].append(index)
    for (device, alias), ports in ports_by_alias.items():
        if len(ports) > 1:
            rows = tables.rows("ports", [index for indexes in ports.values() for index in indexes])
            message = f"on {device}, {alias} is an alias of {' and of '.join(ports)}"
            yield Problem("ports", rows, "alias-of-two-ports", message)


def alias_of_an_alias(tables: Tables) -> Iterator[Problem]:
    """Report each alias of an alias, and each alias that is itself the end of a link; an alias is resolved once."""
    names = tables.inventory.ports
    if not names:
        return
    aliases = {(name.device, name.alias) for name in names if name.alias != name.port}
    linked = {end for link in tables.inventory.links for end in (link[:2], link[2:4])}
    for index, name in enumerate(names):
        if name.alias == name.port:
            continue
        row = (tables.row("ports", index),)
        if (name.device, name.alias) in linked:
            message = f"on {name.device}, {name.alias} is an alias of {name.port} and itself the end of a link"
            yield Problem("ports", row, "alias-of-an-alias", message)
        elif (name.device, name.port) in aliases:
            message = f"on {name.device}, {name.alias} is an alias of {name.port}, which is itself an alias"
            yield Problem("ports", row, "alias-of-an-alias", message)
