"""Thresholds of device/down."""

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class DeviceDownParams(Thresholds):
    """device/down: a silent device whose neighbours also lost it."""

    links_down_ratio: Ratio = 0.5
    """Of its links, at least this share is down as its neighbours see it. Half: a line card can take a quarter."""

    merge_s: Seconds = 60
    """Two signs of a restart closer than this are one restart."""
