"""What may wait while Kafka is away: how much, where, and from when on."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class PublisherParams(BaseModel):
    """Settings of `[collect.<name>.publisher]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: int = Field(default=64 << 20, ge=1 << 16)
    spool: Path | None = None
    """A folder, in which each collector has a file by its name. Without it what waits ends with the process."""
    spool_bytes: int = Field(default=1 << 30, ge=1 << 16)
    spool_after_s: float = Field(default=2.0, ge=0.1, le=60)
    """When Kafka has taken nothing for so long, what waits is written to the spool; a kill takes what came since."""
