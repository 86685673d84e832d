"""Thresholds of congestion/incast."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class IncastParams(Thresholds):
    """congestion/incast: more comes to one host's port than goes in (DETECTION 3, "Congestion")."""

    full: Ratio = 0.9
    """Of its speed that comes in: below it the link is not what holds the senders. Headers and gaps take the rest."""

    marked: Ratio = 0.1
    """Of its packets: DCQCN (SIGCOMM'15) marks one in a hundred at most while a queue is within its bounds."""

    drops_per_s: Annotated[float, Field(gt=0)] = 100
    """xmit_discards (DETECTION 3), where no ECN holds the senders back."""

    pauses: Ratio = 0.1
    """Of the time in which a host pauses the fabric: its part of what slowed a job by Greyhound's 10 %."""

    stalled: Ratio = 0.3
    """Of the seconds in which its NIC waits for PCIe: the host's doing (DETECTION 1)."""

    sustained_s: Seconds = 60
    """A collective's burst lasts seconds; what lasts for a minute is how the job's traffic is laid out."""

    peers: Ratio = 0.5
    """Of the same rail of the pod's other hosts: as many crowded at the same time are a load, and no incast."""

    quiet_s: Seconds = 120
    """Over when it was not crowded for so long: jobs come back to it each step."""

    remember_s: Seconds = 600
    """What is over is still compared with what began at the same time."""

    cnp_per_s: Annotated[float, Field(gt=0)] = 1000
    """Times that a sender is told to slow down: DCQCN (SIGCOMM'15) tells a flow so once in 50 us at most, 20,000 times
    a second; a twentieth of that keeps a sender down, and a healthy fabric is far below it."""

    cnp_s: Seconds = 30
    """Half of what an incast lasts to be one, so that its senders are known by then."""
