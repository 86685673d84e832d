"""Base of all thresholds: frozen, with unknown keys refused; and seconds in the unit of event time."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]


class Thresholds(BaseModel):
    """A section of `[detect.…]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def ns(seconds: float) -> int:
    """Return seconds as the nanoseconds in which event time counts."""
    return round(seconds * 1_000_000_000)
