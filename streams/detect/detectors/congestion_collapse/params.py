"""Thresholds of congestion/collapse."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class CollapseParams(Thresholds):
    """congestion/collapse: pause up, throughput down, across a group (DETECTION 3).

    No source gives numbers for it: each says what it keeps apart.
    """

    paused: Ratio = 0.3
    """Of the time, by the network: three times what makes an incast of a host's own pause (`[detect.incast]`)."""

    max_tx_ratio: Ratio = 0.5
    """Of what it sent before, at most: a rail is slow from 10 % less on (Greyhound); here whole collectives stand."""

    busy: Ratio = 0.1
    """Of its speed that it sent before, at least: what sent hardly anything has nothing to fall from."""

    before_s: Seconds = 20
    """Of traffic before it, at least, to compare with: the last whole window and what came since."""

    hosts: Ratio = 0.5
    """Of the group's, at least, at the same time: fewer are the senders of an incast."""

    min_hosts: Annotated[int, Field(ge=2)] = 3
    """Hosts at least: two that wait for each other are no group."""

    sustained_s: Seconds = 60
    """As an incast: what is over within a minute is a phase of the job."""

    quiet_s: Seconds = 60
    """Over when too few were stifled for so long."""

    remember_s: Seconds = 600
    """What is over is still compared with what began at the same time."""
