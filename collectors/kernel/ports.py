"""The ports of a host: identity, names, aliases, role, and their components in Facts. Pure.

A port is identified by its GUID or MAC and its PCI address; every other name may change while it runs. A management NIC
is not a fabric NIC (DETECTION 1). Neither names nor speeds alone decide the role: a fabric port that trained at a low
speed must remain a fabric port.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from streams.wire.models import Component


class Role(StrEnum):
    """The role of a port. Virtual: no port of the host (bonds, virtual functions, representors, bridges of NVLink)."""

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
    master: str = ""
    """The netdev that this one is a part of, such as a bond."""
    lag: str = ""
    """The RDMA device of several ports of a card that this port has no number of, or not alone: a LAG's leg."""
    mac: str = ""
    node_guid: str = ""
    port_guid: str = ""
    pci: str = ""
    parent: str = ""
    """The PCI address of the physical function of a virtual function or a subfunction."""
    switch: str = ""
    """The kernel's `phys_switch_id`, equal for all ports of a card; empty unless it switches."""
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
        """An identity that survives renumbering; members of a bond share its MAC, so a MAC alone is no identity."""
        if self.rdma:
            known = "@".join(part for part in (self.node_guid, self.pci) if part)
            return f"{known or self.rdma}/{self.number}"
        if self.pci and not self.is_virtual:
            return "/".join(part for part in (self.pci, self.function, f"netdev{self.dev_port}") if part)
        return f"{self.mac}@{self.netdev}"

    @property
    def has_rdma(self) -> bool:
        """True if the port carries RDMA, by a device of its own or of its LAG."""
        return bool(self.rdma or self.lag)

    @property
    def card(self) -> str:
        """The unit that can hang: the PCI function, else the device."""
        return self.pci or self.rdma or self.netdev

    @property
    def has_ethernet_state(self) -> bool:
        """True if the netdev has the port's state; the state of an IPoIB netdev also depends on the subnet manager."""
        return bool(self.netdev) and self.link_layer != "InfiniBand"

    @property
    def has_link_state(self) -> bool:
        """True if state and rate of the RDMA port are those of a link; EFA reports constants (efa_verbs.c)."""
        return self.driver != "efa" and self.link_layer != "Unspecified"

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
        """Return the name of this kind; the next available kind if there is none."""
        wanted = {
            "rdma": "" if self.lag else self._numbered(self.rdma),
            "netdev": self.netdev,
            "guid": self._numbered(self.node_guid) if self.rdma and not self.lag else self.mac,
            "pci": self._numbered(self.pci),
        }
        order = (kind, "rdma", "netdev", "guid", "pci")  # a LAG's RDMA device is no name of a leg
        return next((wanted[key] for key in order if wanted[key]), self.identity)

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return True if one of the port's names matches one of the globs."""
        return any(fnmatchcase(alias, pattern) for pattern in patterns for alias in self.aliases)

    def is_same_device(self, other: "Port") -> bool:
        """Return True if the kernel has not recreated or renamed the device between the two."""
        own = self.born, self.rdma, self.netdev, self.is_restricted
        return own == (other.born, other.rdma, other.netdev, other.is_restricted)

    def _numbered(self, name: str) -> str:
        return f"{name}/{self.number}" if name and self.of_several else name


_MUCH_SLOWER = 4
"""A card of another model with at most this fraction of the fastest port's speed carries other traffic: 100G beside
400G. Half the speed is one generation; a slow port of the same model is degraded."""


def roles(
    ports: Sequence[Port], fabric: Iterable[str] = (), management: Iterable[str] = ()
) -> dict[str, tuple[Role, str]]:
    """Return (role, evidence) by identity; a virtual netdev is a port only if a pattern other than `*` names it."""
    fabric, management = tuple(fabric), tuple(management)
    explicit = [pattern for pattern in fabric if pattern.strip("*")]
    rdma = [port for port in ports if port.has_rdma and not port.is_virtual]
    without_route = [port for port in rdma if not port.has_default_route]
    compared = without_route or rdma
    fastest = max((port.speed_bps or 0.0 for port in compared), default=0.0)
    models = {_model(port) for port in compared if port.speed_bps == fastest and fastest}
    has_efa = any(not port.has_link_state for port in rdma)
    found = {}
    for port in ports:
        if port.is_virtual and not port.matches(explicit):
            found[port.identity] = Role.VIRTUAL, "no port of its own"
        elif port.rdma and port.link_layer == "InfiniBand" and (port.is_restricted or has_efa):
            # Only root reads the mark; a host with EFA has no other InfiniBand than these bridges (p6-b300.48xlarge).
            found[port.identity] = Role.VIRTUAL, "a bridge that manages the switches of NVLink"
        elif port.matches(fabric):
            found[port.identity] = Role.FABRIC, "configured in the settings"
        elif port.matches(management):
            found[port.identity] = Role.MANAGEMENT, "configured in the settings"
        else:
            found[port.identity] = _role(port, fastest, models, others_are_free=bool(without_route))
    return found


def _role(port: Port, fastest: float, models: set[str], *, others_are_free: bool) -> tuple[Role, str]:
    if not port.has_rdma:
        return Role.MANAGEMENT, "no RDMA device"
    if port.link_layer == "InfiniBand":
        return Role.FABRIC, "InfiniBand"
    if port.has_default_route and others_are_free:
        return Role.MANAGEMENT, "carries the default route, and other RDMA ports do not"
    if port.speed_bps and port.speed_bps * _MUCH_SLOWER <= fastest and _model(port) not in models:
        return Role.MANAGEMENT, f"{port.speed_bps / 1e9:.0f}G beside {fastest / 1e9:.0f}G of another model"
    if not port.has_link_state:
        return Role.FABRIC, "EFA"
    return Role.FABRIC, f"RDMA over Ethernet, a part of {port.lag}" if port.lag else "RDMA over Ethernet"


def by_uplink(ports: Iterable[Port]) -> dict[str, list[Port]]:
    """Return the RDMA ports of virtual functions and subfunctions by the identity of their physical function's port."""
    ports = tuple(ports)
    uplinks: dict[str, Port] = {}
    for port in ports:
        if not port.is_virtual and port.pci:
            uplinks.setdefault(port.pci, port)
    found: dict[str, list[Port]] = {}
    for port in ports:
        if port.rdma and port.parent in uplinks:
            found.setdefault(uplinks[port.parent].identity, []).append(port)
    return found


def _model(port: Port) -> str:
    return f"{port.model}/{port.board}"


@dataclass(frozen=True, slots=True)
class KnownPort:
    """A port with its published name, its role, and the evidence for it."""

    port: Port
    name: str
    role: Role
    evidence: str = ""


class KnownPorts:
    """The ports of a host, for the life of the process; a renumbered port keeps its name.

    Without this, a renumbering left a finding open for ever (DETECTION 5). `fabric` and `management` are globs over
    names of ports; they override the host's evidence.
    """

    def __init__(self, kind: str, fabric: Iterable[str] = (), management: Iterable[str] = ()) -> None:
        self._kind = kind
        self._given: dict[str, str] = {}
        self._fabric, self._management = tuple(fabric), tuple(management)
        self._by_pci: dict[str, dict[str, KnownPort]] = {}
        self.ports: tuple[KnownPort, ...] = ()
        self.wants_look = False
        """True after a log line of an unknown port, or of a rename."""

    def adopt(self, ports: Iterable[Port]) -> None:
        """Set the present ports. A removed port stays known, because the log reports on it while it is removed."""
        self.wants_look = False
        ports = tuple(ports)
        decided = roles(ports, self._fabric, self._management)
        known = (KnownPort(port, name, *decided[port.identity]) for port, name in self._named(ports))
        self.ports = tuple(sorted(known, key=lambda port: port.name))
        fresh: dict[str, dict[str, KnownPort]] = {}
        for port in self.ports:
            if port.port.pci:
                fresh.setdefault(port.port.pci, {})[port.port.identity] = port
        self._by_pci.update(fresh)

    def _named(self, ports: tuple[Port, ...]) -> Iterator[tuple[Port, str]]:
        """Yield each port with a unique name; ports that already have a name come first."""
        taken: dict[str, str] = {}
        for port in sorted(ports, key=lambda port: port.identity not in self._given):
            name = self._given.get(port.identity) or port.name(self._kind)
            if taken.get(name, port.identity) != port.identity:
                name = port.identity
            taken[name] = port.identity
            self._given[port.identity] = name
            yield port, name

    def of(self, pci: str, netdev: str = "") -> KnownPort | None:
        """Return the port of a PCI function, by its netdev if given; None if it is ambiguous.

        Without a function, return the port of the netdev.
        """
        if not pci:
            known = (known for own in self._by_pci.values() for known in own.values())
            return next((one for one in known if netdev and one.port.netdev == netdev), None)
        found = list(self._by_pci.get(pci, {}).values())
        if netdev and (named := [known for known in found if known.port.netdev == netdev]):
            return named[0]
        # `eth*` is the kernel's first name, before udev renames it; a function with representors has many of these.
        is_of_the_function = not netdev or netdev.startswith("eth") or not any(known.port.netdev for known in found)
        own = [known for known in found if not known.port.is_virtual]
        if len(own) == 1 and is_of_the_function and (not netdev or len(found) == 1):
            return own[0]
        return found[0] if len(found) == 1 and is_of_the_function else None

    def of_rdma(self, rdma: str, number: int = 0) -> KnownPort | None:
        """Return the port of an RDMA device with this number; without one, the only port."""
        found = [known for known in self.ports if known.port.rdma == rdma and number in {0, known.port.number}]
        return found[0] if len(found) == 1 else None

    def by_netdev(self, netdev: str) -> KnownPort | None:
        """Return the port of a netdev."""
        return next((known for known in self.ports if known.port.netdev == netdev), None)


_KIND = {Role.FABRIC: "nic", Role.MANAGEMENT: "nic-management"}


def components(ports: Iterable[KnownPort]) -> tuple[Component, ...]:
    """Return a component for each fabric or management port, sorted by name, with all its alternative names."""
    found = [
        Component(
            known.name, _KIND[known.role], known.port.part_number or known.port.board or known.port.model,
            known.port.serial, known.port.firmware, tuple(name for name in known.port.aliases if name != known.name),
        )
        for known in ports
        if known.role in _KIND
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda component: component.name))
