"""Settings of `decide`: its mode and the limits of its guards."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class DecideParams(BaseModel):
    """By default remediations are shadow, so they have no effect."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["shadow", "act"] = "shadow"
    settle_s: Annotated[float, Field(ge=0)] = 10
    """No decision is made on a younger finding (DESIGN 2.2): after this time the parent is known, if there is one."""

    capacity_floor: Annotated[float, Field(ge=0, le=1)] = 0.75
    """The minimum share of uplink paths that a group retains; CorrOpt (SIGCOMM'17) evaluated 50 % and 75 %."""

    cool_down_s: Annotated[float, Field(ge=0)] = 1800
    """Minimum time between two actions on a target, from the decision or its reversal: a quarter of the two hours in
    which SONiC allows three isolations of a link, so a link that fails repeatedly needs a person and causes no loop."""

    expires_s: Annotated[float, Field(gt=0)] = 600
    """A decision without a result within this time expires, because the fabric may have changed."""
