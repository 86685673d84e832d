"""The settings that every collector has, whatever it reads: `[collect.<name>]` begins with these."""

from pydantic import BaseModel, ConfigDict, Field

from collectors.core.bounds import PublisherParams
from collectors.core.statuses import EVERY_S


class CollectorParams(BaseModel):
    """What the Params of a collector extend; frozen, and strict about keys that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status_every_s: float = Field(default=EVERY_S, ge=0.5)
    """How often a target is said to be reached while its samples say it; otherwise that is said at each cadence."""
    publisher: PublisherParams = PublisherParams()
