"""Thresholds of congestion/pfc-storm."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class StormParams(Thresholds):
    """congestion/pfc-storm: pause without traffic, and for how long."""

    paused: Ratio = 0.8
    """Of the time. SONiC asks for pause that stays on; a reading's own jitter takes a part of an interval of seconds.

    Where only frames are counted, each pauses for 65535 quanta of 512 bit times at most (IEEE 802.1Qbb).
    """

    traffic: Ratio = 0.01
    """Of its speed at most goes the way that is paused: an incast of a hundred senders leaves each one hundredth."""

    transitions_per_s: Annotated[float, Field(ge=0)] = 1
    """Between on and off, where they are counted: congestion switches thousands of times, in a storm pause stays."""

    sustained_s: Seconds = 3
    """Between what a switch's watchdog waits (SONiC: 0.2 s) and a NIC's own guard (mlx5: 8 s)."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC waited for PCIe: then its host is the cause (DETECTION 1)."""

    quiet_s: Seconds = 30
    """Over when the port was free for so long: storms come back as the queue that made them fills again."""
