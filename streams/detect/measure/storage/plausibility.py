"""Rejects growth of byte counters that exceeds a port's speed, such as 500 Gb/s on a port of 100 Gb/s.

A counter in another unit, of another port, or of a wrapped register gives such a rate. Neither rails nor uplinks are
compared by it, and it is counted once per window and counter.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

_MARGIN = 1.05
"""Speeds are rounded to their nominal value."""
_SLACK_S = 2.0
"""The counters of one poll are up to a second apart in the recordings, at either end of an interval."""


def most_octets(seconds: Any, speed_bps: Any) -> Any:
    """Return the most octets that a port can have counted in a time; NaN if its speed is unknown."""
    return (seconds + _SLACK_S) * speed_bps * (_MARGIN / 8)


class Plausibility:
    """Counts rejected growth since it was last taken; callers first check whether there is any."""

    def __init__(self) -> None:
        self.rejected = 0

    def take(self) -> int:
        rejected, self.rejected = self.rejected, 0
        return rejected

    def reject(self, octets: Values, seconds: Values, speeds: Values) -> None:
        """Set impossible growth to NaN; shapes are (devices, ports), (devices,) and (devices, ports)."""
        beyond = octets > most_octets(seconds[:, None], speeds)
        if count := int(np.count_nonzero(beyond)):
            self.rejected += count
            octets[beyond] = np.nan
