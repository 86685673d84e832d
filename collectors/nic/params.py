"""Defines the settings of the NIC collector: the host, the kernel's trees, cadence, and port selection."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from collectors.core.params import PortParams
from collectors.kernel.ports import Role


class Params(PortParams):
    """Settings of `[collect.nic]`."""

    ethtool: ClassVar[bool] = True
    """Enables driver statistics; without them Ethernet ports have no physical-layer counters."""
    ethtool_dir: Path | None = None
    """A directory with the output of `ethtool -S` as `<netdev>.statistics`, read instead of the machine's own."""
    cadence_s: float = Field(default=1.0, ge=0.1, le=3600)
    """The interval of readings."""
    deadline_s: ClassVar[float] = 2.0
    """A port that exceeds it is skipped, and the others are read."""
    roles: tuple[Literal[Role.FABRIC, Role.MANAGEMENT], ...] = (Role.FABRIC,)
    """The ports that are published. `--once --print` shows those of both roles."""
    discover_every_s: ClassVar[float] = 60.0
    """The interval of the search for devices that changed in place; other changes are detected at the next reading."""
    facts_every_s: ClassVar[float] = 3600.0
    """The interval of facts: versions, serial numbers, modules."""
    max_ports: ClassVar[int] = 1024
    """The limit of ports; further ports are left out and counted."""
