"""What `decide` may do, and the limits of its guards."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class DecideParams(BaseModel):
    """Remediation is shadow unless told otherwise: it does no harm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["shadow", "act"] = "shadow"
    settle_s: Annotated[float, Field(ge=0)] = 10
    """Nothing is decided on a finding younger than this (DESIGN 2.2): by then its parent is known, if it has one."""

    capacity_floor: Annotated[float, Field(ge=0, le=1)] = 0.75
    """The share of its paths upwards that a group keeps; CorrOpt (SIGCOMM'17) evaluated 50 % and 75 %."""

    cool_down_s: Annotated[float, Field(ge=0)] = 1800
    """No second action on a target sooner than this after one was decided or undone: a quarter of the two hours in
    which SONiC allows three isolations of a link, so that a link that keeps failing meets a person, not a loop."""

    expires_s: Annotated[float, Field(gt=0)] = 600
    """A decision not acted on within this is stale: the fabric has moved on."""
