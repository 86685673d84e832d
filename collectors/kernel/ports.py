"""Defines the ports of a host: identity, role, names and aliases. Pure.

A port is identified by its GUID or MAC and its PCI address; every other name may change while it runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Role(StrEnum):
    """The role of a port. Virtual: not a physical port (bonds, virtual functions, representors)."""

    FABRIC = "fabric"
    MANAGEMENT = "management"
    VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a NIC, or a netdev without a NIC.

    `rdma` and `number` are empty and 0 without an RDMA device; `netdev` is empty without a visible netdev.
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
    """The innermost device, if it is not a PCI function: `virtio2`, `1-1:1.0` of a USB adapter."""
    folder: str = ""
    """Path of the device in the tree; empty without a device."""
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
    """Inode numbers; they change when the kernel recreates the device."""

    @property
    def identity(self) -> str:
        """An identity that survives renumbering; the members of a bond share its MAC, so a MAC alone is none."""
        if self.rdma:
            known = "@".join(part for part in (self.node_guid, self.pci) if part)
            return f"{known or self.rdma}/{self.number}"
        if self.pci and not self.is_virtual:
            return "/".join(part for part in (self.pci, self.function, f"netdev{self.dev_port}") if part)
        return f"{self.mac}@{self.netdev}"

    @property
    def card(self) -> str:
        """The unit that can hang: the PCI function, else the device."""
        return self.pci or self.rdma or self.netdev

    @property
    def has_ethernet_state(self) -> bool:
        """True if the netdev has the port's state; an IPoIB netdev also depends on the subnet manager."""
        return bool(self.netdev) and self.link_layer != "InfiniBand"

    @property
    def aliases(self) -> tuple[str, ...]:
        """All alternative names, without duplicates."""
        named = self._numbered(self.rdma) if self.rdma else ""
        exact = f"{self.rdma}/{self.number}" if self.rdma else ""
        return tuple(
            dict.fromkeys(
                name for name in (named, exact, self.netdev, self.mac, self.node_guid, self.port_guid, self.pci) if name
            )
        )

    def name(self, kind: str) -> str:
        """Return the name of this kind, else the next available one."""
        wanted = {
            "rdma": self._numbered(self.rdma),
            "netdev": self.netdev,
            "guid": self._numbered(self.node_guid) if self.rdma else self.mac,
            "pci": self._numbered(self.pci),
        }
        order = (kind, "rdma", "netdev", "guid", "pci")
        return next((wanted[key] for key in order if wanted[key]), self.identity)

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return whether one of its names matches one of the globs."""
        return any(fnmatchcase(alias, pattern) for pattern in patterns for alias in self.aliases)

    def _numbered(self, name: str) -> str:
        return f"{name}/{self.number}" if name and self.of_several else name


class Names:
    """Assigns names to ports for the life of the process, so that a renumbered port keeps its name.

    DETECTION 5: a renumbering left a finding open for ever.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._given: dict[str, str] = {}

    def name(self, ports: Iterable[Port]) -> dict[str, str]:
        """Return unique names by identity."""
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
