"""Thresholds of host/pcie-degraded."""

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class PcieParams(Thresholds):
    """`[detect.pcie]`: how long a link is degraded, or restored, before it counts."""

    open_after_s: Seconds = 60
    """Six readings: a link that trains after a reset or a hot plug is degraded for some seconds."""

    full_s: Seconds = 60
    """Restored for this long; a link that trains up and down is one finding."""

    busy: Ratio = 0.5
    """Utilization of a GPU at work: by nvidia-smi's manual its link may be slower and narrower while it idles."""
