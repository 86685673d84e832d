"""What the host agent is told: whose host, where its trees and its kernel log are, how often, what to leave alone."""

import socket
from pathlib import Path
from typing import Literal

from pydantic import Field

from collectors.core.params import CollectorParams


class Params(CollectorParams):
    """Settings of `[collect.host]`.

    `port_name`, `fabric`, `management` and `exclude` mean what they mean in `[collect.nic]`, and want the same values.
    """

    device: str = ""
    """The host's name in the inventory; its host name where nothing is said."""
    root: Path = Path("/")
    """Where `sys` and `proc` are, or a sysfs itself. Of another than the machine's own no GPU, LLDP or rtnetlink is
    asked."""
    kernel_log: Path | None = None
    """`/dev/kmsg`, or a file that kernel lines are written to; if unset the machine's own, and of another root none."""
    log_poll_s: float = Field(default=0.25, ge=0.01, le=10)
    """How long a line waits at most; a look at an idle log is one system call."""
    backlog_s: float = Field(default=300.0, ge=0)
    """Of a ring that was never read before, what is older than this stays unsaid; of a file, all."""
    state_file: Path = Path("/var/lib/railsight/host.json")
    """Where it keeps how far it has read the log, so that a restart neither repeats nor leaves out; and beside it, with
    `.shut` behind the name, which ports were told to be shut."""
    events_per_s: float = Field(default=1.0, gt=0)
    """Of one kind at one port, in the long run; the newest past it waits, and says how many it stands for."""
    events_burst: int = Field(default=20, ge=1)
    port_name: Literal["rdma", "netdev", "guid", "pci"] = "rdma"
    fabric: tuple[str, ...] = ()
    management: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    cadence_s: float = Field(default=10.0, ge=0.1, le=3600)
    deadline_s: float = Field(default=5.0, gt=0, le=60)
    """What does not answer for this long is left to itself, and the rest is read without it."""
    gpu: bool = True
    """Whether to ask the NVIDIA driver, where there is one."""
    lldpcli: str = "lldpcli"
    """The program that asks lldpd for neighbours; empty to ask nobody."""
    neighbors_every_s: float = Field(default=60.0, ge=1)
    discover_every_s: float = Field(default=60.0, ge=1)
    facts_every_s: float = Field(default=3600.0, ge=1)
    max_ports: int = Field(default=1024, ge=1)

    def device_name(self) -> str:
        """The name under which everything is published."""
        return self.device or socket.gethostname()
