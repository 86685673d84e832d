"""Thresholds that several detectors share, and the settings that every detector may read."""

from dataclasses import dataclass
from typing import ClassVar

from streams.detect.thresholds import Thresholds


class LinkParams(Thresholds):
    """`[detect.link]`: which observations do not count against a link."""

    admin_grace_s: ClassVar[float] = 30
    """An administrative down known within this of a transition excuses it: the time in which link/down waits."""
    restart_grace_s: ClassVar[float] = 60
    """Ports of a device that restarted train for this long after its first sample."""
    repeats: ClassVar[int] = 3
    """Findings of a link within 28 days that make it a repeat offender: one more than coincidence brings in a year.

    A fault in 5 days on 400 servers (DETECTION 3) is one in five years a server.
    """


class WindowParams(Thresholds):
    """`[detect.window]`: the windows of event time that `measure` emits; see docs/writing-a-detector.md."""

    width_s: ClassVar[float] = 60
    """Six readings at the usual cadence. Detection in minutes suffices, and each window of a healthy port costs."""
    readings_s: ClassVar[float] = 60
    """Interval in which the readings of ports with a recent fault are published, as evidence for their restore."""
    watch: ClassVar[int] = 10
    """Windows of a port that are emitted after a notable one, including those in which it is healthy."""
    ber_step_decades: ClassVar[float] = 0.25
    """A step of the pre-FEC BER: about 1.8 times. At 400 Gb/s a minute counts 2.4e13 bits: 1e-8 is known to 0.2 %."""
    ber_report: ClassVar[float] = 5e-6
    """From this pre-FEC BER on each window is emitted: half of what DETECTION 3 calls failed."""
    optics_step_db: ClassVar[float] = 0.5
    """Power and SNR; modules read them to 0.1 dB, and the temperature of a day moves them by some 0.3 dB."""
    optics_dip_db: ClassVar[float] = 2
    """A reading of power or SNR so far below the level that was emitted last counts, although the level comes back
    within the window: from there link/degrading calls a level bad (`drop_clear_db`)."""
    heat_step_c: ClassVar[float] = 10
    """DETECTION 3: +10 degrees between readings."""
    symbols_per_min: ClassVar[float] = 2
    """IBTA's 120 symbol errors an hour (DETECTION 3)."""


class TrendParams(Thresholds):
    """The least quality of a level's course for a forecast."""

    points: ClassVar[int] = 4
    """Steps in one direction: a decade of BER, two decibels."""
    span_s: ClassVar[float] = 600
    """The least time they cover: a module that warms up after it was plugged in moves for some minutes."""
    r2: ClassVar[float] = 0.9
    """The least coefficient of determination: steps that do not lie on a line are no trend."""
    horizon_s: ClassVar[float] = 7 * 86_400
    """A forecast beyond this is not reported: spare parts and people are available within a week."""


class GroupingParams(Thresholds):
    """`[detect.grouping]`: how close in time findings begin that share a cause, and how many cannot be coincidence."""

    links_s: ClassVar[float] = 10
    """Between one link of a device and the next. A cadence: neighbors read the loss of a device at different times."""
    links: ClassVar[int] = 3
    """One fault a day in a fabric (DETECTION 3, base rate): three at one device within seconds are no coincidence."""
    device_ratio: ClassVar[float] = 0.8
    """Share of a device's links that were lost together, by their other ends: the device is down, whether or not it is
    read. Above a half, which a host loses with one plane of two, and a leaf with all its uplinks."""
    devices_s: ClassVar[float] = 60
    """Between one device and the next: the last samples of slow cadences lie so far apart (as device_down.merge_s)."""
    devices: ClassVar[int] = 3
    """Devices of a tier or plane that are lost together and cannot be coincidence."""
    devices_ratio: ClassVar[float] = 0.5
    """Of a tier of a pod, or of a plane: a rack of several shares no more than power."""
    clocks_ratio: ClassVar[float] = 0.05
    """Of the devices of a site, whose clocks are found off together: one NTP server. As `stale.unseen_ratio`."""
    outlive_s: ClassVar[float] = 300
    """A link that is still down this long after its device is back has a fault of its own; ports train within it. After
    another link came back, it is as long as both were down, at least `links_s` and at most this."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """Settings that every detector may read beside its own params."""

    digest: str
    """Names all settings in every finding."""
    lateness_s: float
    link: LinkParams
    window: WindowParams
    grouping: GroupingParams
    link_retention_ns: int
    """Observations of links that are older are pruned: the longest that a detector needs."""
