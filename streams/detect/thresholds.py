"""What all thresholds have in common: frozen, unknown keys refused; and seconds as event time counts them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]


class Thresholds(BaseModel):
    """A section of `[detect.…]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def ns(seconds: float) -> int:
    """Seconds as the nanoseconds that event time counts in."""
    return round(seconds * 1_000_000_000)
