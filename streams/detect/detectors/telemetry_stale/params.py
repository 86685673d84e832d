"""Thresholds of telemetry/stale."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds, ns


class StaleParams(Thresholds):
    """`[detect.stale]`: DESIGN 2, silent for longer than max(3 x cadence, 30 s)."""

    cadences: Annotated[float, Field(ge=1)] = 3
    """A source is silent after so many of its usual intervals."""
    at_least_s: Seconds = 30
    """And after at least this time."""
    unseen_ratio: Ratio = 0.05
    """This share of the fabric unseen is CRITICAL (DETECTION 3a)."""

    unseen_devices: Annotated[int, Field(ge=1)] = 3
    """And at least so many devices: one switch is no large part of the fabric, however small its inventory is."""

    unseen_after_s: Seconds = 60
    """And it lasts this long after it was reported: by then neighbors have reported (30 s) whether devices are down."""

    unlearned_s: Seconds = 300
    """The limit of a source whose cadence is neither configured nor learned."""

    loss_s: Seconds = 300
    """A consumer that lost no input for this long is over it. As `clock.clear_s` (choice)."""

    def limit_ns(self, cadence_ns: int) -> int:
        """Return how long a source of a cadence may be silent; 0 is an unknown cadence."""
        return max(round(self.cadences * cadence_ns), ns(self.at_least_s)) if cadence_ns else ns(self.unlearned_s)
