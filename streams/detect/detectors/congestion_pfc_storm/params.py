"""Thresholds of congestion/pfc-storm."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class StormParams(Thresholds):
    """`[detect.storm]`: pause without traffic, and for how long."""

    paused: Ratio = 0.8
    """Of the time. SONiC requires continuous pause; the jitter of a reading is a part of an interval of seconds.

    Where only frames are counted, each pauses for 65535 quanta of 512 bit times at most (IEEE 802.1Qbb).
    """

    traffic: Ratio = 0.01
    """Traffic in the paused direction, as a share of speed: an incast of 100 senders leaves each one hundredth."""

    transitions_per_s: Annotated[float, Field(ge=0)] = 1
    """Between on and off, where they are counted: congestion switches thousands of times, in a storm pause stays."""

    sustained_s: Seconds = 3
    """Between the detection time of a switch's watchdog (SONiC: 0.2 s) and of a NIC's own guard (mlx5: 8 s)."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC waited for PCIe: then its host is the cause (DETECTION 1)."""

    quiet_s: Seconds = 30
    """Closes when the port was free for this long: storms recur as the queue that caused them fills again."""
