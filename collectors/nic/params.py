"""What the NIC collector is told: whose ports, where the kernel's trees are, how often, and what to leave alone."""

import socket
from pathlib import Path
from typing import Literal

from pydantic import Field

from collectors.core.params import CollectorParams
from collectors.kernel.ports import Role


class Params(CollectorParams):
    """Settings of `[collect.nic]`.

    A pattern (`fabric`, `management`, `exclude`) is a glob over any name of a port: RDMA device, netdev, MAC, GUID
    or PCI address.
    """

    device: str = ""
    """The host's name in the inventory; its host name where nothing is said."""
    root: Path = Path("/")
    """Where `sys` and `proc` are, or a sysfs itself. Another than the machine's own is read without its ethtool."""
    ethtool: bool = True
    """Whether to read the drivers' own statistics; without them there are no physical-layer counters on Ethernet."""
    ethtool_dir: Path | None = None
    """A folder with the output of `ethtool -S` as `<netdev>.statistics`, read instead of the machine's own."""
    cadence_s: float = Field(default=1.0, ge=0.1, le=3600)
    deadline_s: float = Field(default=2.0, gt=0, le=60)
    """A port that does not answer for this long is left to itself, and the others are read without it."""
    port_name: Literal["rdma", "netdev", "guid", "pci"] = "rdma"
    """What a port is called in what is published; the rest are aliases. A port without that name goes by another."""
    roles: tuple[Role, ...] = (Role.FABRIC,)
    """The ports that are published. `--once --print` shows every port."""
    fabric: tuple[str, ...] = ()
    management: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Never touched: no file of theirs but the names is read."""
    discover_every_s: float = Field(default=60.0, ge=1)
    """A device that comes, goes or is made anew is noticed at the next reading; this is for what changes in place."""
    facts_every_s: float = Field(default=3600.0, ge=1)
    max_ports: int = Field(default=1024, ge=1)

    def device_name(self) -> str:
        """The name under which everything is published."""
        return self.device or socket.gethostname()
