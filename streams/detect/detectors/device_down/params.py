"""Thresholds of device/down."""

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class DeviceDownParams(Thresholds):
    """`[detect.device_down]`: a silent device that its neighbors lost as well."""

    links_down_ratio: Ratio = 0.5
    """Of its links, at least this share is down at their other ends. Half: a line card can take a quarter."""

    merge_s: Seconds = 60
    """Two signs of a restart closer than this are one restart."""
