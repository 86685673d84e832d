"""Thresholds of telemetry/stale."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds, ns


class StaleParams(Thresholds):
    """telemetry/stale: DESIGN 2, silent for longer than max(3 x cadence, 30 s)."""

    cadences: Annotated[float, Field(ge=1)] = 3
    at_least_s: Seconds = 30
    unseen_ratio: Ratio = 0.05
    """This share of the fabric unseen is CRITICAL (DETECTION 3a)."""

    unseen_after_s: Seconds = 60
    """And it lasts so long after it was told: by then neighbours have told (30 s) whether the devices are gone."""

    unlearned_s: Seconds = 300
    """The limit of a source that never said its cadence and was read too few times to tell."""

    def limit_ns(self, cadence_ns: int) -> int:
        """For how long a source of this cadence may be silent; 0 is a cadence that nobody knows."""
        return max(round(self.cadences * cadence_ns), ns(self.at_least_s)) if cadence_ns else ns(self.unlearned_s)
