"""Defines the settings of the probe collector: the host, the mesh, the rates and the limits of the responder."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from collectors.core.params import HostParams, InventoryParams


class Params(InventoryParams, HostParams):
    """Settings of `[collect.probe]`.

    The aliases of hosts' ports in the inventory's table `ports` are the addresses of rails. The aliases of switches'
    ports name the hops of a path.
    """

    seed: ClassVar[int] = 1
    """Selects the targets; the same on all hosts."""
    port: int = Field(default=20_000, ge=1024, le=65_519)
    """The UDP port of the responders; the same on all hosts. A rail sends its probes from the 16 ports after it."""
    source_ports: ClassVar[int] = 16
    """Source ports per rail: ECMP has this many paths to choose from."""
    dscp: int = Field(default=0, ge=0, lt=64)
    """The traffic class of probes and replies; set RoCE's class to measure its queues."""
    interval_s: ClassVar[float] = 1.0
    """The interval between two probes of a flow."""
    tor_targets: ClassVar[int] = 3
    """The number of rails on the same leaf that each rail probes: rail/unreachable needs three."""
    fabric_flows: int = Field(default=10, ge=0, le=128)
    """Flows of each rail to other leaves. If a leaf has as many rails as uplinks, 10 flows at 1/s give each directed
    uplink 20 probes/s, which shows 1 % of loss within a minute (docs/collectors/probe.md)."""
    rotated_per_hour: ClassVar[float] = 0.2
    """The share of the flows that get another target each hour."""
    window_s: ClassVar[float] = 10.0
    """The interval of the reports."""
    timeout_s: ClassVar[float] = 0.5
    """A report waits for replies for twice this time after its window; a later reply counts as lost."""
    tick_s: ClassVar[float] = 0.2
    """The interval of sending due probes and reading replies. Replies wait with the kernel's timestamps, because one
    wake-up costs more than the probes."""
    stall_s: ClassVar[float] = 0.05
    """A tick that is this late is a stall of this process: probes in flight are not evaluated."""
    max_hops: ClassVar[int] = 5
    """The number of switches on the longest path: 1 on a leaf, 3 in a pod, 5 between pods."""
    traces_per_s: ClassVar[float] = 1.0
    """Paths that each rail traces per second, one packet per hop: switches limit the ICMP errors that they send."""
    trace_every_s: ClassVar[float] = 600.0
    """The interval at which the path of a healthy flow is traced again."""
    trace_after_losses: ClassVar[int] = 3
    """The number of consecutive losses after which the path of a flow is traced at once."""
    answers_per_source_s: ClassVar[float] = 100.0
    """Requests of one address that are answered per second; a rail receives up to 13 probes, and its traces."""
    answers_per_s: ClassVar[float] = 2000.0
    """Requests of all addresses that are answered per second."""
    key_file: Path | None = None
    """A secret of up to 64 bytes that all hosts share: packets without its tag are ignored."""
