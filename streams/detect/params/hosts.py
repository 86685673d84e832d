"""What makes a part of a host at fault: thresholds of rail/* and host/*."""

from typing import Annotated

from pydantic import Field

from streams.detect.params.shape import Ratio, Seconds, Thresholds


class RailParams(Thresholds):
    """rail/degraded: DETECTION 3, "Rails, against peers"."""

    slow: Ratio = 0.9
    """Of the median of both kinds of peers: Greyhound's 10 %. A healthy fabric stays within 3 % (`a100-roce-leaf`)."""

    sigmas: Annotated[float, Field(ge=0)] = 3
    """And so many robust deviations (MAD) of its peers below them: peers that differ much say little."""

    peers: Annotated[int, Field(ge=2)] = 3
    """The same rail on so many other hosts at least: with two NICs under a switch one is always 50 %."""

    other_rails: Annotated[int, Field(ge=1)] = 2
    busy: Ratio = 0.05
    """Of its speed that both kinds of peers must carry: below it a host is idle, and a share of nothing is noise."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC stalled on PCIe; the counter itself means more than 30 % of such a second."""

    timeouts_a_second: Annotated[float, Field(gt=0)] = 1
    restarts_a_second: Annotated[float, Field(gt=0)] = 10
    """local_ack_timeout and slow_restart (DETECTION 3)."""

    bad_windows: Annotated[int, Field(ge=2)] = 3
    """Minder waits 4 min, Aegis 10 (reported); three windows and the lateness stay within five minutes."""

    good_windows: Annotated[int, Field(ge=1)] = 5


class GpuParams(Thresholds):
    """host/gpu-fault: when one is over of which nobody says that it is."""

    quiet_s: Seconds = 3600
    """Corrected and contained: the driver tells of the same row or program again within minutes, if at all."""

    reset_quiet_s: Seconds = 86_400
    """What needs a reset, where nobody saw one: gpud and NVSentinel wait for the restart; a reset alone tells nothing.

    A day later the GPU was looked after, or its next Xid begins a finding of its own.
    """


class PcieParams(Thresholds):
    """host/pcie-degraded: how long a link is low, or full, before it counts."""

    open_after_s: Seconds = 60
    """Six readings: a link that trains anew after a reset or a hot plug is low for some seconds."""

    full_s: Seconds = 60
    """Full again for so long; one that trains up and down is one finding."""

    busy: Ratio = 0.5
    """Utilisation of a GPU at work: by nvidia-smi's manual its link may be slower and narrower while it idles."""
