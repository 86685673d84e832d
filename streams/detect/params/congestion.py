"""What makes traffic stand or crowd: thresholds of congestion/*."""

from typing import Annotated

from pydantic import Field

from streams.detect.params.shape import Ratio, Seconds, Thresholds


class StormParams(Thresholds):
    """congestion/pfc-storm: pause without traffic, and for how long."""

    paused: Ratio = 0.8
    """Of the time. SONiC asks for pause that stays on; a reading's own jitter takes a part of an interval of seconds.

    Where only frames are counted, each pauses for 65535 quanta of 512 bit times at most (IEEE 802.1Qbb).
    """

    traffic: Ratio = 0.01
    """Of its speed at most goes the way that is paused: an incast of a hundred senders leaves each one hundredth."""

    transitions_a_second: Annotated[float, Field(ge=0)] = 1
    """Between on and off, where they are counted: congestion switches thousands of times, in a storm pause stays."""

    sustained_s: Seconds = 3
    """Between what a switch's watchdog waits (SONiC: 0.2 s) and a NIC's own guard (mlx5: 8 s)."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC waited for PCIe: then its host is the cause (DETECTION 1)."""

    quiet_s: Seconds = 30
    """Over when the port was free for so long: storms come back as the queue that made them fills again."""


class IncastParams(Thresholds):
    """congestion/incast: more comes to one host's port than goes in (DETECTION 3, "Congestion")."""

    full: Ratio = 0.9
    """Of its speed that comes in: below it the link is not what holds the senders. Headers and gaps take the rest."""

    marked: Ratio = 0.1
    """Of its packets: DCQCN (SIGCOMM'15) marks one in a hundred at most while a queue is within its bounds."""

    drops_a_second: Annotated[float, Field(gt=0)] = 100
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

    slowed_a_second: Annotated[float, Field(gt=0)] = 1000
    """Times that a sender is told to slow down: DCQCN (SIGCOMM'15) tells a flow so once in 50 us at most, 20,000 times
    a second; a twentieth of that keeps a sender down, and a healthy fabric is far below it."""

    slowed_s: Seconds = 30
    """Half of what an incast lasts to be one, so that its senders are known by then."""


class ImbalanceParams(Thresholds):
    """congestion/imbalance: uplinks of one switch that differ persistently (DETECTION 3)."""

    uneven: Ratio = 0.15
    """Off the mean of its uplinks: five times what a healthy fabric stays within (3 %, `a100-roce-leaf`)."""

    busy: Ratio = 0.5
    """Of its speed that the fullest must carry at least: where none is half full, unevenness delays nobody."""

    unused: Ratio = 0.01
    """Of the fullest; what carries less is down, drained or a standby, and is not compared."""

    windows: Annotated[int, Field(ge=2)] = 5
    """In a row, uneven to open and even to close: flows of a collective that ends and begins anew are hashed anew."""


class CollapseParams(Thresholds):
    """congestion/collapse: pause up, throughput down, across a group (DETECTION 3).

    No source gives numbers for it: each says what it keeps apart.
    """

    paused: Ratio = 0.3
    """Of the time, by the network: three times what makes an incast of a host's own pause (`[detect.incast]`)."""

    fell: Ratio = 0.5
    """Of what it sent before, at most: a rail is slow from 10 % less on (Greyhound); here whole collectives stand."""

    busy: Ratio = 0.1
    """Of its speed that it sent before, at least: what sent hardly anything has nothing to fall from."""

    before_s: Seconds = 20
    """Of traffic before it, at least, to compare with: the last whole window and what came since."""

    hosts: Ratio = 0.5
    """Of the group's, at least, at the same time: fewer are the senders of an incast."""

    least: Annotated[int, Field(ge=2)] = 3
    """Hosts at least: two that wait for each other are no group."""

    sustained_s: Seconds = 60
    """As an incast: what is over within a minute is a phase of the job."""

    quiet_s: Seconds = 60
    """Over when too few were stifled for so long."""

    remember_s: Seconds = 600
    """What is over is still compared with what began at the same time."""
