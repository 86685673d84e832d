"""Thresholds of host/pcie-degraded."""

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class PcieParams(Thresholds):
    """host/pcie-degraded: how long a link is low, or full, before it counts."""

    open_after_s: Seconds = 60
    """Six readings: a link that trains anew after a reset or a hot plug is low for some seconds."""

    full_s: Seconds = 60
    """Full again for so long; one that trains up and down is one finding."""

    busy: Ratio = 0.5
    """Utilisation of a GPU at work: by nvidia-smi's manual its link may be slower and narrower while it idles."""
