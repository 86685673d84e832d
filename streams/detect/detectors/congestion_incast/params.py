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

    delay_us: Annotated[float, Field(gt=0)] = 100
    """Probes that take so much longer than the same prober's other flows are delayed. A queue of 5 MB at 400 Gb/s, or
    1.25 MB at 100 Gb/s: more than congestion control tolerates (DCQCN, SIGCOMM'15, marks every packet of a queue of
    200 kB at 40 Gb/s, 40 us), less than a full one, in which packets wait for hundreds of microseconds to milliseconds
    (the part of a shared buffer of tens of MB that one port may take). The medians of an idle and of a busy host differ
    by 3 us (PROBES "Python, measured": 17 and 20)."""

    delayed_ratio: Ratio = 0.9
    """Of the flows from the rail: replies to all of them pass the queue before its port. Where the uplinks of its leaf
    are congested, those within the leaf, 3 of 13 (`[collect.probe]`), are not delayed."""

    delay_peers: Annotated[int, Field(ge=1)] = 3
    """Other hosts whose probes to the rail are delayed, while theirs to other rails are not; as `[detect.unreachable]`
    `peers`."""

    cnp_s: Seconds = 30
    """Half of the least duration of an incast, so that its senders are known by then."""
