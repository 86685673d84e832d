"""Thresholds of device/clock-skew."""

from streams.detect.thresholds import Seconds, Thresholds


class ClockParams(Thresholds):
    """`[detect.clock]`: the offset of a clock that is reported, and its severity."""

    min_offset_s: Seconds = 5
    """Below it the correction suffices: what two ends of a link report is joined within 5 s. A clock that is behind by
    less than 10 s looks like a delay."""

    warning_s: Seconds = 300
    """From this offset on WARNING, else INFO: Kerberos refuses such a host (RFC 4120, 5 min)."""

    clear_s: Seconds = 300
    """Right for this long; a clock that jumps forth and back is one finding. As `grouping.outlive_s` (choice)."""
