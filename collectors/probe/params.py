"""Defines the settings of the probe collector: the host, the mesh, the rates and the limits of the responder."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from collectors.core.params import HostParams


class Params(HostParams):
    """Settings of `[collect.probe]`.

    The addresses of rails are the aliases of hosts' ports in the inventory's table `ports`; those of switches name the
    hops of a path.
    """

    inventory: Path | None = None
    """Folder of the inventory. It is read again when a table changes."""
    inventory_check_s: ClassVar[float] = 60.0
    """The interval in which the inventory in effect is read again."""
    seed: ClassVar[int] = 1
    """Selects the targets; the same on all hosts."""
    port: int = Field(default=20_000, ge=1024, le=65_519)
    """UDP port of the responders; the same on all hosts. The probes of a rail leave from the 16 ports after it."""
    source_ports: ClassVar[int] = 16
    """Source ports by rail: so many paths does ECMP have to choose from."""
    dscp: int = Field(default=0, ge=0, lt=64)
    """Traffic class of probes and replies; that of RoCE traffic measures its queues."""
    interval_s: ClassVar[float] = 1.0
    """Between two probes of a flow."""
    tor_targets: ClassVar[int] = 3
    """Rails on the same leaf that each rail probes: rail/unreachable needs three."""
    fabric_flows: int = Field(default=10, ge=0, le=128)
    """Flows of each rail to other leaves: at 1/s, 10 probes a second give each directed uplink 20 where a leaf has as
    many rails as uplinks, which finds 1 % of loss within a minute (docs/collectors/probe.md)."""
    rotated_per_hour: ClassVar[float] = 0.2
    """Share of the flows that get another target each hour."""
    window_s: ClassVar[float] = 10.0
    """Interval of the reports."""
    timeout_s: ClassVar[float] = 0.5
    """A report waits for replies twice as long after its window; a later reply counts as lost."""
    tick_s: ClassVar[float] = 0.2
    """Interval in which due probes are sent and replies are read: the replies wait with the kernel's timestamps, and
    one wake-up costs more than the probes."""
    stall_s: ClassVar[float] = 0.05
    """A tick that is so late is a stall of this process: the probes on the way are not evaluated."""
    max_hops: ClassVar[int] = 5
    """Switches on the longest path: 1 on a leaf, 3 in a pod, 5 between pods."""
    traces_per_s: ClassVar[float] = 1.0
    """Paths that each rail traces in a second, one packet a hop: switches limit the ICMP errors that they send."""
    trace_every_s: ClassVar[float] = 600.0
    """Interval in which the path of a healthy flow is traced again."""
    trace_after_losses: ClassVar[int] = 3
    """Losses in a row after which the path of a flow is traced at once."""
    answers_per_source_s: ClassVar[float] = 100.0
    """Requests of one address that are answered in a second; a rail receives up to 13, and its traces."""
    answers_per_s: ClassVar[float] = 2000.0
    """Requests of all addresses that are answered in a second."""
    key_file: Path | None = None
    """A secret of up to 64 bytes that all hosts share: packets without its tag are ignored."""
