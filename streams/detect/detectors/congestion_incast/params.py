"""Thresholds of congestion/incast."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class IncastParams(Thresholds):
    """`[detect.incast]`: more traffic arrives for a host's port than it drains (DETECTION 3, "Congestion")."""

    full: Ratio = 0.9
    """Of its speed that arrives: below it the link does not limit the senders. Headers and gaps take the rest."""

    marked: Ratio = 0.1
    """Of its packets: DCQCN (SIGCOMM'15) marks one in a hundred at most while a queue is within its bounds."""

    drops_per_s: Annotated[float, Field(gt=0)] = 100
    """xmit_discards (DETECTION 3), where ECN does not slow the senders; of the NIC, where a host cannot pause them."""

    pauses: Ratio = 0.1
    """Of the time in which a host pauses the fabric: its part of what slowed a job by Greyhound's 10 %."""

    stalled: Ratio = 0.3
    """Of the seconds in which its NIC waits for PCIe: then the host is the cause (DETECTION 1)."""

    sustained_s: Seconds = 60
    """The burst of a collective lasts seconds; one that lasts for a minute follows from the layout of the traffic."""

    peers: Ratio = 0.5
    """Of the same rail of the pod's other hosts: if as many are oversubscribed at once, it is load and no incast."""

    quiet_s: Seconds = 120
    """Closes after this time without incast: jobs cause it again in each step."""

    remember_s: Seconds = 600
    """A closed one is retained this long to compare it with others that began at the same time."""

    cnp_per_s: Annotated[float, Field(gt=0)] = 1000
    """Congestion notifications of a throttled sender: DCQCN (SIGCOMM'15) sends a flow one in 50 us at most, 20,000 a
    second; a twentieth of that keeps a sender slow, and a healthy fabric is far below it."""

    cnp_s: Seconds = 30
    """Half of the least duration of an incast, so that its senders are known by then."""
