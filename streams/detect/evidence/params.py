"""Thresholds that several detectors share."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class LinkParams(Thresholds):
    """What link detectors share: which observations say nothing of the link's health."""

    admin_grace_s: Seconds = 30
    """An administrative down known within this of a transition explains it: the time in which link/down waits."""

    restart_grace_s: Seconds = 60
    """Ports of a device that restarted train for so long after its first sign of life."""


class WindowParams(Thresholds):
    """What `measure` tells of ports by windows of event time; see docs/writing-a-detector.md."""

    width_s: Seconds = 60
    """Six readings at the usual cadence. Minutes decide nothing here, and a window is what a healthy port costs."""

    watch: Annotated[int, Field(ge=1)] = 10
    """Windows of a port that are told after one in which something was notable: those in which it is well, too."""

    ber_step_decades: Annotated[float, Field(gt=0)] = 0.25
    """A step of the pre-FEC BER: about 1.8 times. At 400 Gb/s a minute counts 2.4e13 bits: 1e-8 is known to 0.2 %."""

    ber_report: Annotated[float, Field(gt=0, lt=1)] = 5e-6
    """From here a pre-FEC BER is told each window: half of what DETECTION 3 calls failed."""

    optics_step_db: Annotated[float, Field(gt=0)] = 0.5
    """Power and SNR; modules read them to 0.1 dB, and a day's warmth moves them by some 0.3 dB."""

    heat_step_c: Annotated[float, Field(gt=0)] = 10
    """DETECTION 3: +10 degrees between readings."""

    symbols_per_min: Annotated[float, Field(gt=0)] = 2
    """IBTA's 120 symbol errors an hour (DETECTION 3)."""


class TrendParams(Thresholds):
    """When a level's course carries a forecast."""

    points: Annotated[int, Field(ge=3)] = 4
    """Steps in one direction: a decade of BER, two decibels."""

    span_s: Seconds = 600
    """Over so long at least: a module that warms up after it was plugged moves for some minutes."""

    r2: Ratio = 0.9
    """Steps that are no line are no trend."""

    horizon_s: Seconds = 7 * 86_400
    """What lies further is no news: parts and people are had within a week."""


class GroupingParams(Thresholds):
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
