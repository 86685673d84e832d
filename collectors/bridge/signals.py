"""What a field of a peer is to us: the row of the tables that stand in `tables/`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from collectors.bridge import values
from collectors.bridge.points import Scalar
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX


class Kind(Enum):
    """What is done with a field's value."""

    VALUE = "value"
    BOOT_TIME = "boot-time"  # the moment at which the device started
    UPTIME = "uptime"  # hundredths of a second since then
    NAME = "name"  # the port's name, among the values because its path lacks it


@dataclass(frozen=True, slots=True)
class Signal:
    """One field: which metric of which lane or queue, how its value reads, and how good a witness it is.

    Of several that say one metric of one port in one reading the highest `rank` is taken.
    """

    kind: Kind
    metric: Metric | None = None
    read: Callable[[Scalar], float | None] = values.gauge
    rank: int = 0
    lane: int = NO_INDEX


def counter(metric: Metric, rank: int = 0, lane: int = NO_INDEX) -> Signal:
    """A counter as it is."""
    return Signal(Kind.VALUE, metric, values.counter, rank, lane)


def gauge(
    metric: Metric, read: Callable[[Scalar], float | None] = values.gauge, rank: int = 0, lane: int = NO_INDEX
) -> Signal:
    """A reading or a state."""
    return Signal(Kind.VALUE, metric, read, rank, lane)
