"""The settings that every collector has, whatever it reads: `[collect.<name>]` begins with these."""

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from collectors.core.affinity import Cpu
from collectors.core.buffer_limits import PublisherParams
from collectors.core.status_schedule import EVERY_S


class CollectorParams(BaseModel):
    """What the Params of a collector extend; frozen, and strict about keys that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status_every_s: float = Field(default=EVERY_S, ge=0.5)
    """How often a target is said to be reached while its samples say it; otherwise that is said at each cadence."""
    publisher: PublisherParams = PublisherParams()
    cpu: Cpu | None = None
    """The CPU that the process stays on: its number, or `one` for any one; where the scheduler likes if unset."""
    supports_spool: ClassVar[bool] = True
    """Whether what it reads is gone once read, so that a spool is worth its disk."""

    def files(self) -> tuple[Path, ...]:
        """The files that these settings name and that are read again when they change."""
        return ()


class TargetParams(CollectorParams):
    """What the Params of a collector of many targets extend."""

    share_group: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    """Processes of one group, each told all targets, share them out; without it this one reads all that it is told."""
    share_session_s: float = Field(default=10.0, ge=6, le=300)
    """When one is gone for so long, the others have its targets. Brokers take no less than 6 unless told to."""
