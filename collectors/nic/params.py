"""Defines the settings of the NIC collector: the host, the kernel's trees, cadence, and port selection."""

import socket
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from collectors.core.params import CollectorParams
from collectors.kernel.ports import Role


class Params(CollectorParams):
    """Settings of `[collect.nic]`.

    A pattern (`fabric`, `management`, `exclude`) is a glob over any name of a port: RDMA device, netdev, MAC, GUID
    or PCI address.
    """

    device: str = ""
    """The host's name in the inventory; default: its host name."""
    root: Path = Path("/")
    """Directory of `sys` and `proc`, or a sysfs itself. Another machine's tree is read without ethtool."""
    ethtool: bool = True
    """Reads driver statistics; without them Ethernet ports have no physical-layer counters."""
    ethtool_dir: Path | None = None
    """A directory with the output of `ethtool -S` as `<netdev>.statistics`, read instead of the machine's own."""
    cadence_s: float = Field(default=1.0, ge=0.1, le=3600)
    """The interval of readings."""
    deadline_s: ClassVar[float] = 2.0
    """A port that exceeds it is skipped, and the others are read."""
    port_name: Literal["rdma", "netdev", "guid", "pci"] = "rdma"
    """The kind of name that is published; the others are aliases. A port without it is published under another."""
    roles: tuple[Role, ...] = (Role.FABRIC,)
    """The ports that are published. `--once --print` shows every port."""
    fabric: tuple[str, ...] = ()
    """Patterns of ports that belong to the fabric, whatever their kind suggests."""
    management: tuple[str, ...] = ()
    """Patterns of ports that belong to the management network."""
    exclude: tuple[str, ...] = ()
    """Ports that are never read, except for their names."""
    discover_every_s: ClassVar[float] = 60.0
    """An added, removed or recreated device is detected at the next reading; this interval is for changes in place."""
    facts_every_s: ClassVar[float] = 3600.0
    """The interval of facts: versions, serial numbers, modules."""
    max_ports: ClassVar[int] = 1024
    """The limit of ports; more are left out and counted."""

    def device_name(self) -> str:
        """Return the device name of all published records."""
        return self.device or socket.gethostname()
