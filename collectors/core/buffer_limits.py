"""Settings of the publisher's buffer: its size in memory, its spool, and the delay before records are spooled."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class PublisherParams(BaseModel):
    """Settings of `[collect.<name>.publisher]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: int = Field(default=64 << 20, ge=1 << 16)
    """Records that wait for Kafka in memory; past it, and past the spool, the newest are refused and counted."""
    spool: Path | None = None
    """A folder with one file per collector, by its name. Without it, unsent records are lost when the process ends."""
    spool_bytes: int = Field(default=1 << 30, ge=1 << 16)
    """The limit of the spool; past it the newest records are refused and counted."""
    spool_after_s: float = Field(default=2.0, ge=0.1, le=60)
    """Records are spooled after Kafka has acknowledged none for so long; a kill loses those that came since."""
