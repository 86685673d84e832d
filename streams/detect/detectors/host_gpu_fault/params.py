"""Thresholds of host/gpu-fault."""

from streams.detect.thresholds import Seconds, Thresholds


class GpuParams(Thresholds):
    """`[detect.gpu]`: when a fault closes whose end is not reported."""

    quiet_s: Seconds = 3600
    """Corrected and contained: the driver reports the same row or program again within minutes, if at all."""

    reset_quiet_s: Seconds = 86_400
    """A fault that needs a reset which was not observed: gpud and NVSentinel wait for the restart; a reset alone is
    not reported. After a day the GPU was repaired, or its next Xid begins a finding of its own."""
