"""Thresholds of host/gpu-fault."""

from streams.detect.thresholds import Seconds, Thresholds


class GpuParams(Thresholds):
    """host/gpu-fault: when one is over of which nobody says that it is."""

    quiet_s: Seconds = 3600
    """Corrected and contained: the driver tells of the same row or program again within minutes, if at all."""

    reset_quiet_s: Seconds = 86_400
    """What needs a reset, where nobody saw one: gpud and NVSentinel wait for the restart; a reset alone tells nothing.

    A day later the GPU was looked after, or its next Xid begins a finding of its own.
    """
