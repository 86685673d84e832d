"""What can happen to the simulated fabric: the few things of which every fault and every hard case is made.

Links, ports and devices are the numbers of a Plant. What an effect does to what is counted and told is world.py's.
"""

from dataclasses import dataclass
from typing import NamedTuple

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Message, Source


class Span(NamedTuple):
    """From `start_ns` until before `end_ns`."""

    start_ns: int
    end_ns: int

    def meets(self, other: "Span") -> bool:
        """Whether they share a moment."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns

    def wider(self, by_ns: int) -> "Span":
        """So much longer at both ends."""
        return Span(self.start_ns - by_ns, self.end_ns + by_ns)


@dataclass(frozen=True, slots=True)
class Down:
    """A link's signal is away. `shut` is the port that a person disabled; `dark` the one that gets no light."""

    link: int
    span: Span
    shut: int | None = None
    dark: int | None = None


@dataclass(frozen=True, slots=True)
class Away:
    """A device answers nobody, its links are dead, and it comes back in another boot with its counters at zero."""

    device: int
    span: Span


@dataclass(frozen=True, slots=True)
class Unread:
    """A device is well and nobody reads it. `said`: its collector lives and tells that it gets no answer."""

    device: int
    span: Span
    said: bool


@dataclass(frozen=True, slots=True)
class Restart:
    """A collector starts anew: it reads nothing for a while, and its run and its numbers are others afterwards."""

    collector: str
    span: Span


@dataclass(frozen=True, slots=True)
class Extra:
    """A counter of a port grows by more: so much a second, and so much of what another one grows by."""

    port: int
    metric: Metric
    span: Span
    a_second: float = 0.0
    share: float = 0.0
    of: Metric | None = None
    index: int = NO_INDEX


@dataclass(frozen=True, slots=True)
class Slowed:
    """A link carries this share of what it should, both ways, or only of what the port `sent_by` sends."""

    link: int
    span: Span
    share: float
    sent_by: int | None = None


@dataclass(frozen=True, slots=True)
class Carries:
    """What the port `sent_by` of a link sends is this share of the line, whoever sends it."""

    link: int
    span: Span
    fill: float
    sent_by: int


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge of a port reads otherwise: `value`, or what it would read plus `adds`, which is reached over `ramp_s`."""

    port: int
    metric: Metric
    span: Span
    value: float | None = None
    adds: float = 0.0
    ramp_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ber:
    """A port gets so many more wrong bits before FEC, `lane` the most of them."""

    port: int
    span: Span
    ber: float
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """A driver is loaded anew: the counters of a device begin at zero in the same boot."""

    device: int
    span: Span


@dataclass(frozen=True, slots=True)
class Say:
    """Somebody tells this."""

    span: Span
    message: Message
    source: Source = Source.SOURCE_HOST


@dataclass(frozen=True, slots=True)
class Swapped:
    """The upper ends of two links are in each other's place; who asks its neighbours hears so from `asked_s` on."""

    links: tuple[int, int]
    span: Span
    asked_s: float


@dataclass(frozen=True, slots=True)
class Runs:
    """Devices run another version in their parts of a kind; who asks them hears so from `asked_ns` on, and not then."""

    devices: tuple[int, ...]
    kind: str
    version: str
    span: Span
    asked_ns: tuple[int, int]
    """When they are asked, after the change and after it is undone."""


Effect = Down | Away | Unread | Restart | Extra | Slowed | Carries | Level | Ber | Reset | Say | Swapped | Runs
