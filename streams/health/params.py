"""Settings of the health checks of a process."""

from pydantic import BaseModel, ConfigDict, Field


class HealthParams(BaseModel):
    """The limits after which a process counts as stuck, or as not ready; times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stuck_s: float = Field(default=60.0, gt=0)
    """Not live: the event loop does not turn, or no record is processed though records wait, for this long. Longer than
    the takeover of the largest state, during which a stage processes nothing."""
    undelivered_s: float = Field(default=10.0, gt=0)
    """Not ready: records wait for so long to be written, or the brokers do not answer for so long."""
    probe_s: float = Field(default=5.0, gt=0)
    """The interval in which the brokers are asked for the ends of the inputs."""
