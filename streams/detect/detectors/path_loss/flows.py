"""Extracts the flows that lost probes in one window, with the elements of the network on their paths. Pure.

Elements are named as in ProbeWindow: `device/port` is the link in the direction into that port, `device` is a switch or
a host.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from streams.detect.thresholds import Thresholds
from streams.wire.models import ProbeWindow


class PathParams(Thresholds):
    """`[detect.path]`: the losses of active probes that are a fault of a link, a switch or a path."""

    window_s: ClassVar[float] = 10
    """The interval of the probers' reports (`[collect.probe] window_s`)."""
    windows: ClassVar[int] = 6
    """Windows that are evaluated together. A link with 20 probes a second that loses 1 % loses 12 in a minute, of which
    five suffice (choice)."""
    min_windows: ClassVar[int] = 3
    """The fewest of these windows with losses: a single loss event, such as a route change, is not a bad link. An
    outage shorter than a window lies in two, and a loss of noise in a third, so without its worst `min_windows` - 1
    windows an element must still lose `min_losses`."""
    min_losses: ClassVar[int] = 3
    """Fewer losses name no link, whatever its traffic."""
    noise: ClassVar[float] = 1e-4
    """Losses of a healthy link per probe: ten times less than `bad_ratio` (choice). A lost probe votes for all elements
    of its path, so an element with paths of n links is compared with n times this."""
    bad_ratio: ClassVar[float] = 1e-3
    """The loss from which a link is bad: NetBouncer (NSDI'19)."""
    chance: ClassVar[float] = 1e-6
    """The highest probability that noise alone loses as many: 43,200 windows of 5 days with one wrong link in 23. Also
    that the losses of other flows explain those of a lost flow."""
    lost_ratio: ClassVar[float] = 0.9
    """Share of lost probes from which a rail, or a switch, counts as losing all; as in `[detect.unreachable]`."""
    flow_losses: ClassVar[int] = 5
    """Consecutive losses from which a single flow is lost while others cross its links (choice)."""
    max_stalls: ClassVar[int] = 0
    """Stalls of a prober in a window above which its report does not count. CPU overload was the main reason of false
    findings at R-Pingmesh (SIGCOMM'24)."""
    clear_s: ClassVar[float] = 120
    """Resolves without a significant loss for this long: twice the time that is evaluated together (choice)."""
    session_hold_s: ClassVar[float] = 60
    """The least time that a BFD or BGP session is down while its link is up: twice the time after which a link is down,
    so that a session that follows its link is not reported (choice)."""
    session_settle_s: ClassVar[float] = 120
    """Time around a down of the link or a restart of a device in which its session may be down. BGP retries a
    connection after 120 s (ConnectRetryTimer, RFC 4271)."""


class FlowName(NamedTuple):
    """One probed 5-tuple, by the ports of its rails."""

    source: str
    target: str
    source_port: int

    @property
    def hosts(self) -> tuple[str, str]:
        return device_of(self.source), device_of(self.target)


@dataclass(frozen=True, slots=True)
class LossyFlow:
    """A flow that lost probes in one window."""

    name: FlowName
    end_ns: int
    sent: int
    forward_lost: int
    reverse_lost: int
    unanswered: int
    lost_run: int
    forward: tuple[str, ...]
    """The links of its path, each by the port into which it leads; empty if a hop is unknown."""
    back: tuple[str, ...]
    forward_reach: int | None
    """Links of `forward` up to the last hop that has answered since the losses; None if not traced."""
    back_reach: int | None

    @property
    def lost(self) -> int:
        return self.forward_lost + self.reverse_lost + self.unanswered

    @property
    def is_lost(self) -> bool:
        return 0 < self.sent <= self.lost

    @property
    def is_traced(self) -> bool:
        """Return whether both directions of its path are known, each with at least one switch."""
        return len(self.forward) > 1 and len(self.back) > 1 and all(self.forward) and all(self.back)

    def elements(self) -> frozenset[str]:
        """Return the elements at which its probes may have been lost, by the direction of the losses."""
        links: tuple[str, ...] = ()
        if self.forward_lost or self.unanswered:
            links += self.forward
        if self.reverse_lost or self.unanswered:
            links += self.back
        return frozenset({*links, *map(device_of, links), *self.name.hosts})

    def links_and_switches(self) -> frozenset[str]:
        """Return the elements of its path in both directions, without its hosts."""
        links = {*self.forward, *self.back}
        return frozenset({*links, *map(device_of, links)} - set(self.name.hosts))


@lru_cache(1 << 16)
def device_of(element: str) -> str:
    """Return the device of an element."""
    return element.split("/", 1)[0]


def lossy_flows(window: ProbeWindow) -> Iterator[LossyFlow]:
    """Yield the flows of a window that lost probes."""
    names, place = window.element, 0
    for flow, sent in enumerate(window.flow_sent):
        middle = place + window.flow_forward_hops[flow]
        end = middle + window.flow_reverse_hops[flow]
        forward, back = (
            tuple(names[hop - 1] if hop else "" for hop in window.hop[begin:until])
            for begin, until in ((place, middle), (middle, end))
        )
        place = end
        source, target = names[window.flow_source[flow]], names[window.flow_target[flow]]
        yield LossyFlow(
            FlowName(source, target, window.flow_source_port[flow]), window.at_ns, sent,
            window.flow_forward_lost[flow], window.flow_reverse_lost[flow], window.flow_unanswered[flow],
            window.flow_lost_run[flow], (*forward, target), (*back, source), _reach(window.flow_forward_reach[flow]),
            _reach(window.flow_reverse_reach[flow]),
        )  # fmt: skip


def _reach(value: int) -> int | None:
    return value - 1 if value else None
