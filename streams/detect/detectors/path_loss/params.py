"""Thresholds of path/loss."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class PathParams(Thresholds):
    """`[detect.path]`: which losses of active probes are a fault of a link, a switch or a path."""

    window_s: Seconds = 10
    """The interval of the probers' reports (`[collect.probe] window_s`)."""

    windows: Annotated[int, Field(ge=1)] = 6
    """Windows that are evaluated together. A link with 20 probes a second that loses 1 % loses 12 in a minute, of
    which five suffice (choice)."""

    min_windows: Annotated[int, Field(ge=1)] = 3
    """Windows with losses among them: what loses probes in one moment, such as a route that changes, is no bad link.
    An outage shorter than a window lies in two, and a loss of noise in a third: without the worst `min_windows` - 1 an
    element loses `min_losses` still."""

    min_losses: Annotated[int, Field(ge=1)] = 3
    """Fewer losses name no link, whatever its traffic."""

    noise: Annotated[float, Field(gt=0, lt=1)] = 1e-4
    """Losses of a healthy link for each probe. Ten times less than what is bad (choice). A lost probe votes for all
    elements of its path, so an element with paths of n links is compared with n times this."""

    bad_ratio: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    """From this loss on a link is bad: NetBouncer (NSDI'19)."""

    chance: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    """Probability, at most, that noise alone loses so many: 43,200 windows of 5 days with one wrong link in 23."""

    lost_ratio: Ratio = 0.9
    """Share of the probes of a rail, or through a switch, from which on all count as lost; as in
    `[detect.unreachable]`."""

    flow_losses: Annotated[int, Field(ge=2)] = 5
    """Losses in a row from which on a single flow is lost, while others cross its links (choice)."""

    healthy_ratio: Ratio = 0.01
    """Links beside a lost flow lose less of the other flows than this."""

    max_stalls: Annotated[int, Field(ge=0)] = 0
    """Stalls of a prober in a window from which on its report does not count. CPU overload was the main reason of false
    findings at R-Pingmesh (SIGCOMM'24)."""

    clear_s: Seconds = 120
    """Without a significant loss for this long; twice the time that is evaluated together (choice)."""

    session_hold_s: Seconds = 60
    """A BFD or BGP session that is down for this long over a link that is up: twice the time after which a link is
    down, so that a session that follows its link is not reported (choice)."""

    session_settle_s: Seconds = 120
    """Time before and after a down of the link or a restart of a device in which its session may be down. BGP retries
    a connection after 120 s (ConnectRetryTimer, RFC 4271)."""
