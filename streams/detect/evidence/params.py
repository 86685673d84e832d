"""Defines thresholds that several detectors share, and the settings that every detector may read."""

from dataclasses import dataclass
from typing import ClassVar

from streams.detect.thresholds import Thresholds


class LinkParams(Thresholds):
    """`[detect.link]`: the observations that do not count against a link."""

    admin_grace_s: ClassVar[float] = 30
    """An administrative down known within this time of a transition excuses it, as link/down waits."""
    restart_grace_s: ClassVar[float] = 60
    """Ports of a device that restarted train for this long after its first sample."""
    repeats: ClassVar[int] = 3
    """Findings of a link within 28 days that make it a repeat offender: one more than coincidence causes in a year.

    A fault in 5 days on 400 servers (DETECTION 3) is one in five years per server.
    """


class WindowParams(Thresholds):
    """`[detect.window]`: the windows of event time that `measure` emits; see docs/writing-a-detector.md."""

    width_s: ClassVar[float] = 60
    """Six readings at the usual cadence. Detection within minutes suffices, and each window of a healthy port costs."""
    readings_s: ClassVar[float] = 60
    """The interval at which readings of ports with a recent fault are published, as evidence for their restore."""
    watch: ClassVar[int] = 10
    """The number of a port's windows emitted after a notable one, including healthy ones."""
    ber_step_decades: ClassVar[float] = 0.25
    """A step of the pre-FEC BER: about 1.8 times. At 400 Gb/s a minute counts 2.4e13 bits: 1e-8 is exact to 0.2 %."""
    ber_report: ClassVar[float] = 5e-6
    """Each window is emitted from this pre-FEC BER on: half of the BER that DETECTION 3 calls failed."""
    optics_step_db: ClassVar[float] = 0.5
    """A step of power and SNR; modules read them to 0.1 dB, and a day's temperature moves them by some 0.3 dB."""
    optics_dip_db: ClassVar[float] = 2
    """A reading of power or SNR this far below the last emitted level counts even if the level recovers within the
    window; from there link/degrading calls a level bad (`drop_clear_db`)."""
    heat_step_c: ClassVar[float] = 10
    """+10 degrees between readings (DETECTION 3)."""
    symbols_per_min: ClassVar[float] = 2
    """IBTA's 120 symbol errors an hour (DETECTION 3)."""


class TrendParams(Thresholds):
    """The requirements of a forecast on the course of a level."""

    points: ClassVar[int] = 4
    """The fewest steps in one direction: a decade of BER, two decibels."""
    span_s: ClassVar[float] = 600
    """The least time that they cover: a module that warms up after plugging moves for some minutes."""
    r2: ClassVar[float] = 0.9
    """The least coefficient of determination: steps that do not lie on a line are not a trend."""
    horizon_s: ClassVar[float] = 7 * 86_400
    """A later crossing is not reported: spare parts and people are available within a week."""


class GroupingParams(Thresholds):
    """`[detect.grouping]`: how close in time findings with one cause begin, and how many are no coincidence."""

    links_s: ClassVar[float] = 10
    """The most between two links of a device: one cadence, because neighbors read a loss at different times."""
    links: ClassVar[int] = 3
    """One fault a day in a fabric (DETECTION 3, base rate): three at one device within seconds are no coincidence."""
    device_ratio: ClassVar[float] = 0.8
    """Share of a device's links that were lost together, by their other ends, from which the device is down, read or
    not. Above a half, which a host loses with one plane of two, and a leaf with all its uplinks."""
    devices_s: ClassVar[float] = 60
    """The most between two devices: last samples of slow cadences are this far apart (as device_down.merge_s)."""
    devices: ClassVar[int] = 3
    """The fewest devices of a tier or plane that are no coincidence if they are lost together."""
    devices_ratio: ClassVar[float] = 0.5
    """Share of a tier of a pod, or of a plane: several devices in one rack share only power."""
    clocks_ratio: ClassVar[float] = 0.05
    """Share of a site's devices whose clocks become wrong together: one NTP server. As `stale.unseen_ratio`."""
    outlive_s: ClassVar[float] = 300
    """A link that stays down for this time after its device returned has its own fault; ports train within it. After
    another link returned, the time is as long as both were down, at least `links_s` and at most this."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """Settings that every detector may read besides its own parameters."""

    digest: str
    """Identifies all settings, in every finding."""
    lateness_s: float
    link: LinkParams
    window: WindowParams
    grouping: GroupingParams
    link_retention_ns: int
    """Older observations of links are pruned; the longest retention that a detector needs."""
