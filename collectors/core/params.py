"""The settings that every collector has: the common keys of `[collect.<name>]`."""

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from collectors.core.affinity import Cpu
from collectors.core.buffer_limits import PublisherParams
from collectors.core.status_schedule import EVERY_S


class CollectorParams(BaseModel):
    """The base of every collector's Params; frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status_every_s: float = Field(default=EVERY_S, ge=0.5)
    """The interval of statuses of a target whose samples arrive; otherwise one is sent at each cadence."""
    publisher: PublisherParams = PublisherParams()
    cpu: Cpu | None = None
    """The CPU that the process is pinned to: its number, or `one` for any permitted one; not pinned if unset."""
    supports_spool: ClassVar[bool] = True
    """True if a reading cannot be repeated later, so that a spool is worth its disk space."""

    def files(self) -> tuple[Path, ...]:
        """Return the files that these settings name and that are reloaded when they change."""
        return ()


class TargetParams(CollectorParams):
    """The base of the Params of a collector with many targets."""

    share_group: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    """Processes of one group, each configured with all targets, divide them; without it this one reads all of them."""
    share_session_s: float = Field(default=10.0, ge=6, le=300)
    """The others take over a member's targets after so long without it. Brokers accept no less than 6 by default."""
