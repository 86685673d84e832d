"""The NIC ports of a host by the names that the NIC collector gives them. Pure.

That collector looks at more, and is a process of its own; what both must agree on (a port's name, and whether it is of
the fabric) is said here a second time, and a test holds the two together on the same trees.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

_MUCH_SLOWER = 4
"""See collectors/nic/roles.py: a card of another model at this fraction of the fastest is not there for the same."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """One port of one NIC. `folder` is that of its PCI function; empty where none is behind it."""

    rdma: str = ""
    number: int = 0
    of_several: bool = False
    netdev: str = ""
    mac: str = ""
    node_guid: str = ""
    port_guid: str = ""
    pci: str = ""
    function: str = ""
    dev_port: int = 0
    folder: str = ""
    is_infiniband: bool = False
    is_virtual: bool = False
    has_default_route: bool = False
    speed_bps: float = 0.0
    model: str = ""
    board: str = ""
    firmware: str = ""
    driver: str = ""
    part_number: str = ""
    serial: str = ""
    name: str = ""
    is_fabric: bool = False

    @property
    def identity(self) -> str:
        """What stays the same when the kernel renames or renumbers."""
        if self.rdma:
            known = "@".join(part for part in (self.node_guid, self.pci) if part)
            return f"{known or self.rdma}/{self.number}"
        if self.pci and not self.is_virtual:
            return "/".join(part for part in (self.pci, self.function, f"netdev{self.dev_port}") if part)
        return f"{self.mac}@{self.netdev}"

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name that something else may use for it."""
        named = self._numbered(self.rdma) if self.rdma else ""
        exact = f"{self.rdma}/{self.number}" if self.rdma else ""
        names = (named, exact, self.netdev, self.mac, self.node_guid, self.port_guid, self.pci)
        return tuple(dict.fromkeys(name for name in names if name))

    def called(self, kind: str) -> str:
        """By the kind of name asked for, or the next best one that it has."""
        wanted = {
            "rdma": self._numbered(self.rdma),
            "netdev": self.netdev,
            "guid": self._numbered(self.node_guid) if self.rdma else self.mac,
            "pci": self._numbered(self.pci),
        }
        order = (kind, "rdma", "netdev", "guid", "pci")
        return next((wanted[key] for key in order if wanted[key]), self.identity)

    def matches(self, patterns: Iterable[str]) -> bool:
        """Whether one of its names matches one of the globs."""
        return any(fnmatchcase(alias, pattern) for pattern in patterns for alias in self.aliases)

    def _numbered(self, name: str) -> str:
        return f"{name}/{self.number}" if name and self.of_several else name


def judged(ports: Sequence[HostPort], fabric: Iterable[str], management: Iterable[str]) -> tuple[HostPort, ...]:
    """With `is_fabric`, by what the host shows; what the user says goes first."""
    fabric, management = tuple(fabric), tuple(management)
    rdma = [port for port in ports if port.rdma and not port.is_virtual]
    without_route = [port for port in rdma if not port.has_default_route]
    among = without_route or rdma
    fastest = max((port.speed_bps for port in among), default=0.0)
    models = {(port.model, port.board) for port in among if fastest and port.speed_bps == fastest}

    def is_fabric(port: HostPort) -> bool:
        if port.matches(fabric):
            return True
        if port.matches(management) or port.is_virtual or not port.rdma:
            return False
        if port.is_infiniband:
            return True
        if port.has_default_route and without_route:
            return False
        is_slow = bool(port.speed_bps) and port.speed_bps * _MUCH_SLOWER <= fastest
        return not (is_slow and (port.model, port.board) not in models)

    return tuple(replace(port, is_fabric=is_fabric(port)) for port in ports)


class Names:
    """What each port is called, for as long as the process lives, and which one a line of the log is about."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._given: dict[str, str] = {}
        self._by_pci: dict[str, dict[str, HostPort]] = {}
        self.ports: tuple[HostPort, ...] = ()
        self.wants_look = False
        """Whether a line told of something that is not known, or has another name by now."""

    def adopt(self, ports: Iterable[HostPort]) -> None:
        """The ports as they are now. One that is gone is still known: the log tells of it while it goes."""
        self.wants_look = False
        taken: dict[str, str] = {}
        named = []
        for port in sorted(ports, key=lambda port: port.identity not in self._given):
            name = self._given.get(port.identity) or port.called(self._kind)
            if taken.get(name, port.identity) != port.identity:
                name = port.identity
            taken[name] = port.identity
            self._given[port.identity] = name
            named.append(replace(port, name=name))
        self.ports = tuple(sorted(named, key=lambda port: port.name))
        fresh: dict[str, dict[str, HostPort]] = {}
        for port in self.ports:
            if port.pci:
                fresh.setdefault(port.pci, {})[port.identity] = port
        self._by_pci.update(fresh)

    def of(self, pci: str, netdev: str = "") -> HostPort | None:
        """The port of a PCI function, by its netdev where it is named; None rather than the wrong one."""
        found = list(self._by_pci.get(pci, {}).values())
        if netdev and (named := [port for port in found if port.netdev == netdev]):
            return named[0]
        # The kernel's first name, before udev gives another; a function with representors has many such.
        is_of_the_function = not netdev or netdev.startswith("eth") or not any(port.netdev for port in found)
        own = [port for port in found if not port.is_virtual]
        if len(own) == 1 and is_of_the_function and (not netdev or len(found) == 1):
            return own[0]
        return found[0] if len(found) == 1 and is_of_the_function else None

    def by_netdev(self, netdev: str) -> HostPort | None:
        """The port of a netdev."""
        return next((port for port in self.ports if port.netdev == netdev), None)
