"""Which port a line of the log or a neighbour is about, by the names that the NIC collector gives too. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from collectors.kernel.ports import Names, Port, Role
from collectors.kernel.roles import roles


@dataclass(frozen=True, slots=True)
class KnownPort:
    """A port with what it is called and what it is for."""

    port: Port
    name: str
    role: Role


class KnownPorts:
    """The ports of a host, for as long as the process lives.

    `fabric` and `management` are globs over names of ports, and go before what the host shows.
    """

    def __init__(self, kind: str, fabric: Iterable[str] = (), management: Iterable[str] = ()) -> None:
        self._names = Names(kind)
        self._fabric, self._management = tuple(fabric), tuple(management)
        self._by_pci: dict[str, dict[str, KnownPort]] = {}
        self.ports: tuple[KnownPort, ...] = ()
        self.wants_look = False
        """Whether a line told of something that is not known, or has another name by now."""

    def adopt(self, ports: Iterable[Port]) -> None:
        """The ports as they are now. One that is gone is still known: the log tells of it while it goes."""
        self.wants_look = False
        ports = tuple(ports)
        judged = roles(ports, self._fabric, self._management)
        name_of = self._names.name(ports)
        known = (KnownPort(port, name_of[port.identity], judged[port.identity][0]) for port in ports)
        self.ports = tuple(sorted(known, key=lambda port: port.name))
        fresh: dict[str, dict[str, KnownPort]] = {}
        for port in self.ports:
            if port.port.pci:
                fresh.setdefault(port.port.pci, {})[port.port.identity] = port
        self._by_pci.update(fresh)

    def of(self, pci: str, netdev: str = "") -> KnownPort | None:
        """The port of a PCI function, by its netdev where it is named; None rather than the wrong one."""
        found = list(self._by_pci.get(pci, {}).values())
        if netdev and (named := [known for known in found if known.port.netdev == netdev]):
            return named[0]
        # The kernel's first name, before udev gives another; a function with representors has many such.
        is_of_the_function = not netdev or netdev.startswith("eth") or not any(known.port.netdev for known in found)
        own = [known for known in found if not known.port.is_virtual]
        if len(own) == 1 and is_of_the_function and (not netdev or len(found) == 1):
            return own[0]
        return found[0] if len(found) == 1 and is_of_the_function else None

    def by_netdev(self, netdev: str) -> KnownPort | None:
        """The port of a netdev."""
        return next((known for known in self.ports if known.port.netdev == netdev), None)
