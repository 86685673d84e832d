"""Defines the settings of the host collector: the host, its trees and kernel log, cadences and limits."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from collectors.core.params import LogParams, PortParams


class Params(LogParams, PortParams):
    """Settings of `[collect.host]`."""

    kernel_log: Path | None = None
    """`/dev/kmsg`, or a file of kernel lines; default: the machine's own log, and none for another root."""
    log_poll_s: ClassVar[float] = 0.25
    """Maximum delay of a line; reading an idle log is one system call."""
    backlog_s: ClassVar[float] = 3600.0
    """The maximum age of records from a ring buffer without a stored position: a GPU host takes several minutes from
    its boot to the first start of an agent (NVSentinel 1532). Older records are counted; a file has no limit."""
    state_name: ClassVar[str] = "host"
    events_per_s: ClassVar[float] = 1.0
    """The rate limit of one kind of event at one port; beyond it the newest waits and counts the replaced ones."""
    events_burst: ClassVar[int] = 20
    """Events of one kind at one port that are sent at once before `events_per_s` applies."""
    cadence_s: float = Field(default=10.0, ge=0.1, le=3600)
    """The interval of readings."""
    deadline_s: ClassVar[float] = 5.0
    """A device that exceeds this deadline is skipped, and the rest is read."""
    gpu: ClassVar[bool] = True
    """Queries the NVIDIA driver, if there is one."""
    lldpcli: str = "lldpcli"
    """The client program of lldpd; empty disables it."""
    neighbors_every_s: ClassVar[float] = 60.0
    """The interval of LLDP readings."""
    discover_every_s: ClassVar[float] = 60.0
    """The interval of the search for devices that changed in place."""
    facts_every_s: ClassVar[float] = 3600.0
    """The interval of facts: versions, serial numbers, modules."""
    max_ports: ClassVar[int] = 1024
    """The limit of ports; further ports are left out and counted."""
    nccl_logs: tuple[str, ...] = ()
    """Globs of NCCL's log files, which jobs write with NCCL_DEBUG=WARN to NCCL_DEBUG_FILE."""
    nccl_max_files: ClassVar[int] = 64
    """The limit of followed files; one file for each rank of this host is enough."""
    nccl_ras: str = Field(default="", pattern=r"^([^:\s]+:\d{1,5})?$")
    """The address of NCCL's RAS subsystem on this host (`localhost:28028`); it is not queried if this is empty."""
    nccl_ras_every_s: ClassVar[float] = 30.0
    """The interval of queries of the RAS subsystem."""
    nccl_straggler_queries: ClassVar[int] = 3
    """A rank is a straggler if its collectives are behind in this many consecutive queries (choice)."""
