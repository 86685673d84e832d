"""Thresholds of rail/degraded."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Thresholds


class RailParams(Thresholds):
    """`[detect.rail]`: DETECTION 3, "Rails, against peers"."""

    slow: Ratio = 0.9
    """Of the median of both kinds of peers: Greyhound's 10 %. A healthy fabric stays within 3 % (`a100-roce-leaf`)."""

    sigmas: Annotated[float, Field(ge=0)] = 3
    """And this many robust deviations (MAD) of its peers below them: peers that differ much prove little."""

    peers: Annotated[int, Field(ge=2)] = 3
    """Other hosts with the same rail, at least: with two NICs under a switch one is always 50 %."""

    other_rails: Annotated[int, Field(ge=1)] = 2
    """Other rails of the same host, at least, with which a rail is compared."""
    busy: Ratio = 0.05
    """Of its speed that both kinds of peers must carry: below it a host is idle, and a share of nothing is noise."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC stalled on PCIe; the counter itself means more than 30 % of such a second."""

    timeouts_per_s: Annotated[float, Field(gt=0)] = 1
    """local_ack_timeout of a NIC: more are evidence of loss (DETECTION 3)."""
    restarts_per_s: Annotated[float, Field(gt=0)] = 10
    """local_ack_timeout and slow_restart (DETECTION 3)."""

    bad_windows: Annotated[int, Field(ge=2)] = 3
    """Minder waits 4 min, Aegis 10 (reported); three windows and the lateness stay within five minutes."""

    start_windows: Annotated[int, Field(ge=1)] = 5
    """Windows of a job with traffic in which a host that carries less has another part in the job, as a stage of a
    pipeline or a store has: as many as close a finding (choice)."""

    good_windows: Annotated[int, Field(ge=1)] = 5
    """Windows in a row without a deviation that close it."""
