"""Simulates links with a bad part: a link flaps until that part is repaired.

Repairs replace one part after the other, in the order of Part. Repairing a healthy part is no cure: the link is quiet
while it is out of service, and flaps again soon after it carries traffic. The past of a link never changes: a repair
removes later losses, a relapse adds losses.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from lab.world.effects import Interval
from lab.world.faults.links import LinkFlap
from streams.fabric.inventory import Link

_S = 1_000_000_000
BURST_NS = 2 * _S
"""The interval between the first losses of signal of an episode."""
BURST = 3
"""The number of downs in ten minutes that open `link/flap`."""
PERIOD_NS = 6 * _S
"""The interval between later losses: with less than 5 s of signal between them it would be `link/down` after 30 s."""
LOSS_NS = 700_000_000
RELAPSE_NS = 3 * _S
"""The time from the return of the traffic to the first loss after a repair of a healthy part."""


class Part(Enum):
    """The parts of a link, in the order in which they are repaired (CorrOpt); the value describes the repair."""

    CONNECTOR = "cleaned and reseated both ends"
    TRANSCEIVER = "replaced the transceiver"
    CABLE = "replaced the cable"
    PORT = "replaced the port"


@dataclass(frozen=True, slots=True)
class BadLink:
    """A link with a bad part; each episode starts with a burst of losses of signal, which recur until its end."""

    link: Link
    part: Part
    episodes: tuple[Interval, ...]

    @property
    def last_ns(self) -> int:
        """Return the end of the simulation of this link: it has no later losses, repaired or not."""
        return self.episodes[-1].end_ns


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair: the part, and True if it was the bad part."""

    at_ns: int
    part: Part
    is_cure: bool


@dataclass(slots=True)
class BadLinkState:
    """A bad link with its history: each episode with its losses, and the repairs."""

    bad: BadLink
    episodes: list[tuple[Interval, ...]] = field(init=False)
    repairs: list[Repair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.episodes = [losses_of_episode(interval) for interval in self.bad.episodes]

    @property
    def losses(self) -> tuple[Interval, ...]:
        """Return all past and future losses of signal."""
        return tuple(loss for episode in self.episodes for loss in episode)

    @property
    def cured_ns(self) -> int | None:
        """Return the time of the repair of the bad part; None before it."""
        return next((repair.at_ns for repair in self.repairs if repair.is_cure), None)

    def repair(self, at_ns: int) -> Repair:
        """Replace the next part; the losses end, permanently only if it was the bad part."""
        parts = list(Part)
        part = parts[min(len(self.repairs), len(parts) - 1)]
        repair = Repair(at_ns, part, part is self.bad.part)
        self.repairs.append(repair)
        self.episodes = [cut for episode in self.episodes if (cut := _until(episode, at_ns))]
        return repair

    def return_to_service(self, at_ns: int) -> None:
        """Schedule the relapse of a link that carries traffic again, if its last repair was no cure."""
        if not self.repairs or self.cured_ns is not None:
            return
        if any(loss.end_ns > self.repairs[-1].at_ns for loss in self.losses):
            return  # the relapse is already scheduled
        if relapse := losses_of_episode(Interval(at_ns + RELAPSE_NS, self.bad.last_ns)):
            self.episodes.append(relapse)

    def flaps(self) -> list[LinkFlap]:
        """Return the flap of each episode."""
        return [LinkFlap(self.bad.link, episode) for episode in self.episodes]


def losses_of_episode(interval: Interval) -> tuple[Interval, ...]:
    """Return the losses of signal in an interval: a burst, then one every few seconds."""
    begin_ns, last_ns = interval.start_ns, interval.end_ns - LOSS_NS
    burst = [begin_ns + number * BURST_NS for number in range(BURST)]
    starts = [*burst, *range(burst[-1] + PERIOD_NS, last_ns + 1, PERIOD_NS)]
    return tuple(Interval(start_ns, start_ns + LOSS_NS) for start_ns in starts if start_ns <= last_ns)


def _until(losses: Sequence[Interval], at_ns: int) -> tuple[Interval, ...]:
    return tuple(Interval(loss.start_ns, min(loss.end_ns, at_ns)) for loss in losses if loss.start_ns < at_ns)
