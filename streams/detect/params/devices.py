"""What makes a device down or unread, and many losses one: thresholds of device/*, telemetry/* and attribution."""

from typing import Annotated

from pydantic import Field

from streams.detect.params.shape import Ratio, Seconds, Thresholds, ns


class DeviceDownParams(Thresholds):
    """device/down: a silent device whose neighbours also lost it."""

    links_down_ratio: Ratio = 0.5
    """Of its links, at least this share is down as its neighbours see it. Half: a line card can take a quarter."""

    merge_s: Seconds = 60
    """Two signs of a restart closer than this are one restart."""


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


class TogetherParams(Thresholds):
    """What began together has one cause: how close, and how many are too many for chance."""

    links_s: Seconds = 10
    """Between one link of a device and the next. A cadence: neighbours read a device's loss at their own moments."""

    links: Annotated[int, Field(ge=2)] = 3
    """A fault a day in a fabric (DETECTION 3, base rate): three at one device within seconds are no chance."""

    device_ratio: Ratio = 0.8
    """Of its links, lost together as their other ends tell: the device, whether or not anyone reads it. Above a half,
    which a host loses with one plane of two, and a leaf with all that is above it."""

    devices_s: Seconds = 60
    """Between one device and the next: the last samples of slow cadences lie so far apart (as device_down.merge_s)."""

    devices: Annotated[int, Field(ge=2)] = 3
    devices_ratio: Ratio = 0.5
    """Of a tier of a pod, or of a plane: a rack of several shares no more than power."""

    outlive_s: Seconds = 300
    """A link that is still down so long after its device is back has a fault of its own; ports train within it."""
