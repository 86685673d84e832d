"""What can happen to the simulated fabric: the few things of which every fault and every hard case is made.

Links, ports and devices are the numbers of a Plant. What an effect does to what is counted and told is world.py's.
"""

from dataclasses import dataclass
from typing import NamedTuple

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Message, Source


class Interval(NamedTuple):
    """From `start_ns` until before `end_ns`."""

    start_ns: int
    end_ns: int

    def overlaps(self, other: "Interval") -> bool:
        """Whether they share a moment."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns

    def widened(self, by_ns: int) -> "Interval":
        """So much longer at both ends."""
        return Interval(self.start_ns - by_ns, self.end_ns + by_ns)


@dataclass(frozen=True, slots=True)
class SignalLoss:
    """A link's signal is away. `shut` is the port that a person disabled; `dark` the one that gets no light."""

    link: int
    interval: Interval
    disabled_port: int | None = None
    dark_port: int | None = None


@dataclass(frozen=True, slots=True)
class Rebooting:
    """A device answers nobody, its links are dead, and it comes back in another boot with its counters at zero."""

    device: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class NotPolled:
    """A device is well and nobody reads it. `said`: its collector lives and tells that it gets no answer."""

    device: int
    interval: Interval
    is_reported: bool


@dataclass(frozen=True, slots=True)
class CollectorRestart:
    """A collector starts anew: it reads nothing for a while, and its run and its numbers are others afterwards."""

    collector: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class CounterIncrement:
    """A counter of a port grows by more: so much a second, and so much of what another one grows by."""

    port: int
    metric: Metric
    interval: Interval
    per_s: float = 0.0
    share: float = 0.0
    of_metric: Metric | None = None
    index: int = NO_INDEX


@dataclass(frozen=True, slots=True)
class TrafficReduction:
    """A link carries this share of what it should, both ways, or only of what the port `sent_by` sends."""

    link: int
    interval: Interval
    share: float
    sent_by: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficShift:
    """What the port `sent_by` of a link sends is this share of the line, whoever sends it."""

    link: int
    interval: Interval
    utilization: float
    sent_by: int


@dataclass(frozen=True, slots=True)
class GaugeOverride:
    """A gauge of a port reads otherwise: `value`, or what it would read plus `adds`, which is reached over `ramp_s`."""

    port: int
    metric: Metric
    interval: Interval
    value: float | None = None
    offset: float = 0.0
    ramp_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BitErrors:
    """A port gets so many more wrong bits before FEC, `lane` the most of them."""

    port: int
    interval: Interval
    ber: float
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class CounterReset:
    """A driver is loaded anew: the counters of a device begin at zero in the same boot."""

    device: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Somebody tells this."""

    interval: Interval
    message: Message
    source: Source = Source.SOURCE_HOST


@dataclass(frozen=True, slots=True)
class CablesSwapped:
    """The upper ends of two links are in each other's place; who asks its neighbours hears so from `asked_s` on."""

    links: tuple[int, int]
    interval: Interval
    polled_after_s: float


@dataclass(frozen=True, slots=True)
class VersionChange:
    """Devices run another version in their parts of a kind; who asks them hears so from `asked_ns` on, and not then."""

    devices: tuple[int, ...]
    kind: str
    version: str
    interval: Interval
    polled_at_ns: tuple[int, int]
    """When they are asked, after the change and after it is undone."""


Effect = (
    SignalLoss
    | Rebooting
    | NotPolled
    | CollectorRestart
    | CounterIncrement
    | TrafficReduction
    | TrafficShift
    | GaugeOverride
    | BitErrors
    | CounterReset
    | EmitEvent
    | CablesSwapped
    | VersionChange
)
