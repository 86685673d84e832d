"""Names of ports that lead to two ports, or to none: a source's name for a port must say which port it is."""

from collections import defaultdict
from collections.abc import Iterator

from streams.fabric.checks.problem import Problem
from streams.fabric.checks.tables import Tables


def unknown_device(tables: Tables) -> Iterator[Problem]:
    """Ports are of devices that the table of devices has."""
    for index, name in enumerate(tables.inventory.ports):
        if not tables.is_known(name.device):
            says = f"{name.device} is not among the devices"
            yield Problem("ports", (tables.row("ports", index),), "unknown-device", says, is_error=True)


def alias_of_two_ports(tables: Tables) -> Iterator[Problem]:
    """A name is looked up by device alone, whichever source uses it, so it means one port there."""
    meant: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, name in enumerate(tables.inventory.ports):
        meant[name.device, name.alias][name.port].append(index)
    for (device, alias), ports in meant.items():
        if len(ports) > 1:
            rows = tables.rows("ports", [index for indexes in ports.values() for index in indexes])
            says = f"on {device}, {alias} is another name of {' and of '.join(ports)}"
            yield Problem("ports", rows, "alias-of-two-ports", says)


def alias_of_an_alias(tables: Tables) -> Iterator[Problem]:
    """Another name is looked up once: it names a port as the links do, and no link uses it for another port."""
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
            says = f"on {name.device}, {name.alias} is another name of {name.port} and the end of a link itself"
            yield Problem("ports", row, "alias-of-an-alias", says)
        elif (name.device, name.port) in aliases:
            says = f"on {name.device}, {name.alias} is another name of {name.port}, which is one itself"
            yield Problem("ports", row, "alias-of-an-alias", says)
