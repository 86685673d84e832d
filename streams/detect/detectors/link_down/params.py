"""Thresholds of link/down."""

from streams.detect.thresholds import Seconds, Thresholds


class DownParams(Thresholds):
    """`[detect.down]`: DETECTION's defaults, 30 s down to open and 5 s up to resolve."""

    open_after_s: Seconds = 30
    """Opens after this time down."""
    hold_up_s: Seconds = 5
    """Closes after this time up."""
