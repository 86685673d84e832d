"""Thresholds of congestion/collapse."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class CollapseParams(Thresholds):
    """`[detect.collapse]`: pause up, throughput down, across a group (DETECTION 3).

    No source gives numbers for it: each comment names the condition from which the number divides a collapse.
    """

    paused: Ratio = 0.3
    """Of the time, by the network: three times the pause by which a host itself makes an incast (`[detect.incast]`)."""

    retransmits_per_s: Annotated[float, Field(gt=0)] = 100
    """Packets that a sender repeats, by `packet_sequence_errors` or `adaptive_retransmits`: as many as a switch drops
    in an incast (`[detect.incast]` `drops_per_s`)."""

    timeouts_per_s: Annotated[float, Field(gt=0)] = 10
    """Timeouts and slow restarts of a sender: slow_restart 10/s (DETECTION 3)."""

    max_tx_ratio: Ratio = 0.5
    """Of the traffic before it, at most: a rail is slow from 10 % less on (Greyhound); here whole collectives stop."""

    busy: Ratio = 0.1
    """Of its speed that it sent before, at least: a port that hardly sent cannot collapse."""

    before_s: Seconds = 20
    """The least duration of the traffic to compare with: the last whole window and the time since."""

    hosts: Ratio = 0.5
    """Of the group's, at least, at the same time: fewer are the senders of an incast."""

    min_hosts: Annotated[int, Field(ge=2)] = 3
    """Hosts at least: two that wait for each other are no group."""

    sustained_s: Seconds = 60
    """As an incast: a change that is over within a minute is a phase of the job."""

    quiet_s: Seconds = 60
    """Closes when too few were throttled for this long."""

    remember_s: Seconds = 600
    """A closed one is retained this long to compare it with others that began at the same time."""
