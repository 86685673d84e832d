"""The ports of a host as they are known: their names, what they are, and by what they are called. Pure.

A port is known by its GUID or MAC and its PCI address; every other name of it may change while it runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Role(StrEnum):
    """What a port is for. Virtual: not a port of this host's own (bonds, virtual functions, representors)."""

    FABRIC = "fabric"
    MANAGEMENT = "management"
    VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class Port:
    """One port of one NIC, or a netdev that is no port of any.

    `rdma` and `number` are empty and 0 where it has no RDMA device, `netdev` is empty where none is in view.
    """

    rdma: str = ""
    number: int = 0
    of_several: bool = False
    netdev: str = ""
    mac: str = ""
    node_guid: str = ""
    port_guid: str = ""
    pci: str = ""
    function: str = ""
    """The innermost device, where that is no PCI function itself: `virtio2`, `1-1:1.0` of a USB adapter."""
    folder: str = ""
    """Where the device is in the tree; empty where none is behind the port."""
    link_layer: str = ""
    dev_port: int = 0
    is_virtual: bool = False
    board: str = ""
    model: str = ""
    firmware: str = ""
    driver: str = ""
    vendor: str = ""
    part_number: str = ""
    serial: str = ""
    is_restricted: bool = False
    has_default_route: bool = False
    speed_bps: float | None = None
    born: tuple[int, ...] = ()
    """Changes when the kernel makes the device anew."""

    @property
    def identity(self) -> str:
        """What stays the same when the kernel renames or renumbers; a bond gives its MAC to all of its members."""
        if self.rdma:
            known = "@".join(part for part in (self.node_guid, self.pci) if part)
            return f"{known or self.rdma}/{self.number}"
        if self.pci and not self.is_virtual:
            return "/".join(part for part in (self.pci, self.function, f"netdev{self.dev_port}") if part)
        return f"{self.mac}@{self.netdev}"

    @property
    def card(self) -> str:
        """What hangs as one when it hangs: the PCI function, else the device."""
        return self.pci or self.rdma or self.netdev

    @property
    def speaks_ethernet(self) -> bool:
        """Whether the netdev tells how the port is. An IPoIB netdev does not: it goes with the subnet manager too."""
        return bool(self.netdev) and self.link_layer != "InfiniBand"

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name that something else may use for it."""
        named = self._numbered(self.rdma) if self.rdma else ""
        exact = f"{self.rdma}/{self.number}" if self.rdma else ""
        return tuple(
            dict.fromkeys(
                name for name in (named, exact, self.netdev, self.mac, self.node_guid, self.port_guid, self.pci) if name
            )
        )

    def name(self, kind: str) -> str:
        """What it is called, by the name asked for, or the next best one that it has."""
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


class Names:
    """What each port is called, for as long as the process lives: what the kernel renumbers keeps its name here.

    DETECTION 5: a renumbering left a finding open for ever.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._given: dict[str, str] = {}

    def name(self, ports: Iterable[Port]) -> dict[str, str]:
        """Name by identity; no two the same."""
        ports = sorted(ports, key=lambda port: port.identity not in self._given)
        taken: dict[str, str] = {}
        found: dict[str, str] = {}
        for port in ports:
            name = self._given.get(port.identity) or port.name(self._kind)
            if taken.get(name, port.identity) != port.identity:
                name = port.identity
            taken[name] = port.identity
            self._given[port.identity] = found[port.identity] = name
        return found
