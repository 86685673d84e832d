"""Declares the effects of which every fault and every negative case is composed.

Links, ports and devices are numbers of a FabricArrays. An effect states a change of the fabric; world.py, demo_world.py
and the load generator derive the counters and reports of devices from it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Message, Source


class Interval(NamedTuple):
    """A stretch of event time from `start_ns` to before `end_ns`."""

    start_ns: int
    end_ns: int

    def contains(self, at_ns: int) -> bool:
        """Return True if a moment lies in the interval."""
        return self.start_ns <= at_ns < self.end_ns

    def overlaps(self, other: "Interval") -> bool:
        """Return True if the intervals share a moment."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns

    def widened(self, by_ns: int) -> "Interval":
        """Return the interval extended by `by_ns` at both ends."""
        return Interval(self.start_ns - by_ns, self.end_ns + by_ns)


@dataclass(frozen=True, slots=True)
class SignalLoss:
    """A link has no signal.

    `disabled_port` is the end that was shut by configuration, `dark_port` the end that receives no light.
    """

    link: int
    interval: Interval
    disabled_port: int | None = None
    dark_port: int | None = None


@dataclass(frozen=True, slots=True)
class Rebooting:
    """A device does not answer and its links are down; afterwards it has a new boot id and counters at zero."""

    device: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class NotPolled:
    """A healthy device is not polled. With `is_reported` its collector reports that it does not answer."""

    device: int
    interval: Interval
    is_reported: bool


@dataclass(frozen=True, slots=True)
class ClockShift:
    """The clock of a device is ahead by `offset_s` (negative: behind); its samples and events have this time."""

    device: int
    interval: Interval
    offset_s: float


@dataclass(frozen=True, slots=True)
class CollectorRestart:
    """A collector restarts: it polls nothing for a while, then has a new run and new sequence numbers."""

    collector: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class AgentRestart:
    """The agent of a switch restarts: it does not answer, and then has another boot id; the device goes on."""

    device: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class CachedCounters:
    """Each line card of a switch refreshes its traffic counters once in `period_s`; all other counters are fresh."""

    device: int
    interval: Interval
    period_s: float
    cards: int = 1


@dataclass(frozen=True, slots=True)
class LastChangeTimes:
    """A switch dates each sampled leaf by its last change, as Arista EOS does by default."""

    device: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class TruncatedWalk:
    """The walks of an agent's counters end at a row: this row and all rows behind it have states only."""

    device: int
    interval: Interval
    first_row: int


@dataclass(frozen=True, slots=True)
class CounterIncrement:
    """A counter of a port grows faster: by `per_s` per second, and by `share` of the growth of `of_metric`."""

    port: int
    metric: Metric
    interval: Interval
    per_s: float = 0.0
    share: float = 0.0
    of_metric: Metric | None = None
    index: int = NO_INDEX

    def growth(self, seconds: float, of_growth: float) -> float:
        """Return the expected growth in this many seconds if `of_metric` grows by `of_growth`."""
        return self.per_s * seconds + self.share * of_growth


@dataclass(frozen=True, slots=True)
class TrafficReduction:
    """A link carries this share of its traffic, in both directions or only in that of the port `sent_by`."""

    link: int
    interval: Interval
    share: float
    sent_by: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficShift:
    """The port `sent_by` of a link sends at this share of the line rate, whatever the jobs send."""

    link: int
    interval: Interval
    utilization: float
    sent_by: int


@dataclass(frozen=True, slots=True)
class GaugeOverride:
    """A gauge of a port reads `value`, or its usual reading plus `offset`, reached over `ramp_s`."""

    port: int
    metric: Metric
    interval: Interval
    value: float | None = None
    offset: float = 0.0
    ramp_s: float = 0.0

    def reading(self, usual: float, at_ns: int) -> float:
        """Return the reading of a gauge at a moment of the interval, from its usual reading."""
        if self.value is not None:
            return self.value
        elapsed_s = (at_ns - self.interval.start_ns) / 1e9
        return usual + self.offset * (min(1.0, elapsed_s / self.ramp_s) if self.ramp_s else 1.0)


@dataclass(frozen=True, slots=True)
class GpuGaugeOverride:
    """A gauge of one GPU of a host, by its number, reads `value`."""

    device: int
    gpu: int
    metric: Metric
    interval: Interval
    value: float


@dataclass(frozen=True, slots=True)
class GpuCounterIncrement:
    """A counter of one GPU of a host, by its number, grows by `per_s` per second; it is 0 before."""

    device: int
    gpu: int
    metric: Metric
    index: int
    interval: Interval
    per_s: float

    def count(self, at_ns: int) -> int:
        """Return the count at a moment."""
        elapsed_ns = min(at_ns, self.interval.end_ns) - self.interval.start_ns
        return int(max(0, elapsed_ns) * self.per_s / 1e9)


@dataclass(frozen=True, slots=True)
class BitErrors:
    """A port receives this ratio of additional wrong bits before FEC, most of them on `lane` if given."""

    port: int
    interval: Interval
    ber: float
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class CounterReset:
    """A driver is reloaded: the counters of a device restart at zero in the same boot."""

    device: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """A source emits this message at the start of the interval."""

    interval: Interval
    message: Message
    source: Source = Source.SOURCE_HOST
    is_certain: bool = False
    """True if it arrives once and at its time, without random numbers, so that it changes no other message."""


@dataclass(frozen=True, slots=True)
class CablesSwapped:
    """The upper ends of two links are swapped; LLDP shows it when the devices are polled, `polled_after_s` later."""

    links: tuple[int, int]
    interval: Interval
    polled_after_s: float


@dataclass(frozen=True, slots=True)
class VersionChange:
    """Components of a kind have another version on some devices; facts show it from the first of `polled_at_ns` on."""

    devices: tuple[int, ...]
    kind: str
    version: str
    interval: Interval
    polled_at_ns: tuple[int, int]
    """The times at which the facts are polled: after the change, and after it is undone."""


@dataclass(frozen=True, slots=True)
class PacketDrop:
    """A link drops this share of the packets that it carries into a port; no counter counts them.

    With `one_flow` it drops only packets of one 5-tuple.
    """

    port: int
    interval: Interval
    share: float
    one_flow: bool = False


@dataclass(frozen=True, slots=True)
class QueueDelay:
    """Packets, also probes in the jobs' traffic class, wait for `delay_s` in a queue before the link into a port."""

    port: int
    interval: Interval
    delay_s: float


Effect = (
    SignalLoss | Rebooting | NotPolled | ClockShift | CollectorRestart | CounterIncrement | TrafficReduction
    | TrafficShift | GaugeOverride | GpuGaugeOverride | GpuCounterIncrement | BitErrors | CounterReset | EmitEvent
    | CablesSwapped | VersionChange | PacketDrop | QueueDelay | AgentRestart | CachedCounters | LastChangeTimes
    | TruncatedWalk
)  # fmt: skip
