"""Resolves the port of a log line or a neighbor, with the same names as the NIC collector. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from collectors.kernel.ports import Names, Port, Role, roles


@dataclass(frozen=True, slots=True)
class KnownPort:
    """A port with its published name and its role."""

    port: Port
    name: str
    role: Role


class KnownPorts:
    """The ports of a host, for the life of the process.

    `fabric` and `management` are globs over names of ports; they override the host's evidence.
    """

    def __init__(self, kind: str, fabric: Iterable[str] = (), management: Iterable[str] = ()) -> None:
        self._names = Names(kind)
        self._fabric, self._management = tuple(fabric), tuple(management)
        self._by_pci: dict[str, dict[str, KnownPort]] = {}
        self.ports: tuple[KnownPort, ...] = ()
        self.wants_look = False
        """True after a log line of an unknown port, or of a rename."""

    def adopt(self, ports: Iterable[Port]) -> None:
        """Set the present ports. A removed one stays known: the log reports on it while it is removed."""
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
        """Return the port of a PCI function, by its netdev if given; None rather than a wrong one."""
        found = list(self._by_pci.get(pci, {}).values())
        if netdev and (named := [known for known in found if known.port.netdev == netdev]):
            return named[0]
        # The kernel's first name, before udev renames it; a function with representors has many of these.
        is_of_the_function = not netdev or netdev.startswith("eth") or not any(known.port.netdev for known in found)
        own = [known for known in found if not known.port.is_virtual]
        if len(own) == 1 and is_of_the_function and (not netdev or len(found) == 1):
            return own[0]
        return found[0] if len(found) == 1 and is_of_the_function else None

    def by_rdma(self, rdma: str) -> KnownPort | None:
        """Return the port of an RDMA device; None for one with several ports."""
        found = [known for known in self.ports if known.port.rdma == rdma]
        return found[0] if len(found) == 1 else None

    def by_netdev(self, netdev: str) -> KnownPort | None:
        """Return the port of a netdev."""
        return next((known for known in self.ports if known.port.netdev == netdev), None)
