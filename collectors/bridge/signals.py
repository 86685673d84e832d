"""The meaning of a source's field: a row of the tables in `tables/`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from collectors.bridge import values
from collectors.bridge.points import Scalar
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX


class Kind(Enum):
    """The ways in which a field's value is processed."""

    VALUE = "value"
    BOOT_TIME = "boot-time"  # the time at which the device started
    UPTIME = "uptime"  # hundredths of a second since then
    NAME = "name"  # the port's name, among the values because its path lacks it


@dataclass(frozen=True, slots=True)
class Signal:
    """One field: its metric, its lane or queue, its reader and its rank.

    If several fields of one port have the same metric in one reading, the highest `rank` is used.
    """

    kind: Kind
    metric: Metric | None = None
    read: Callable[[Scalar], float | None] = values.gauge
    rank: int = 0
    lane: int = NO_INDEX


def counter(metric: Metric, rank: int = 0, lane: int = NO_INDEX) -> Signal:
    """Return the signal of a counter without conversion."""
    return Signal(Kind.VALUE, metric, values.counter, rank, lane)


def gauge(
    metric: Metric, read: Callable[[Scalar], float | None] = values.gauge, rank: int = 0, lane: int = NO_INDEX
) -> Signal:
    """Return the signal of a gauge or a state."""
    return Signal(Kind.VALUE, metric, read, rank, lane)
