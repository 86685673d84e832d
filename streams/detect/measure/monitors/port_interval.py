"""One port between two readings: the growth of its counters, and the time in which they grew."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.detect.measure.monitors.monitor import NumberedSymptom
from streams.detect.measure.storage.column_store import is_absent
from streams.detect.measure.storage.message_batch import MessageBatch, PendingMessage
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.wire.models import NO_INDEX, Symptom
from streams.wire.symptoms import Congestion

PCIE_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)
"""Counters of the seconds in which a NIC stalled on PCIe."""


@dataclass(frozen=True, slots=True)
class PortInterval:
    """One row of one message of a batch; `direction` is that of pause, `speed_bps` 0 or NaN where unknown."""

    batch: MessageBatch
    number: int
    row: int
    direction: int
    speed_bps: float

    @property
    def message(self) -> PendingMessage:
        """The message."""
        return self.batch.messages[self.number]

    def counter_delta(self, metric: Metric, index: int = NO_INDEX) -> tuple[float, float] | None:
        """Return the growth of a counter and the seconds in which it grew; None if not read twice, or if it fell."""
        counters = self.batch.counters
        position = counters.mapping.position_of.get((metric, index))
        if position is None:
            return None
        now, before = counters.values[self.number, position, self.row], counters.previous(position)
        was, since_ns = before[self.number, self.row], counters.since_ns(position, self.number, self.row)
        seconds = (self.message.at_ns - since_ns) / 1e9
        if since_ns == 0 or seconds <= 0 or is_absent(np.array([now, was])).any() or now < was:
            return None
        return float(now - was), seconds

    def symptom(self, port: Port, payload: Congestion) -> NumberedSymptom:
        """Return the symptom that this interval shows at its port."""
        message = self.message
        source = message.samples.source
        return message.number, Symptom(port.device, port.port, payload, message.at_ns, source=source)

    def pcie_stall_ratio(self) -> float:
        """Return the share of the time in which the NIC stalled on PCIe; NaN where it is not counted."""
        deltas = (self.counter_delta(metric) for metric in PCIE_STALLS)
        return max((min(1.0, delta[0] / delta[1]) for delta in deltas if delta is not None), default=math.nan)


_MOST = 2.0**63
"""The largest limit that is compared with growth: more is no growth of a counter."""


def cells_above(
    batch: MessageBatch, position: int, per_s: float | npt.NDArray[np.float64]
) -> Iterator[tuple[int, int]]:
    """Yield the (message, row) of a batch in which the counter at a position grew by `per_s` a second or more.

    `per_s` is one limit, or one of each cell: shape (messages, rows) or (1, 1).
    """
    counters = batch.counters
    now, before = counters.values[:, position], counters.previous(position)
    grew = now > before
    if not np.count_nonzero(grew):
        return
    # a column that was never read has time 0: over so long a time no growth is much
    times = counters.store.at_ns[counters.devices, counters.mapping.columns[position]]
    seconds = np.maximum(counters.at_ns - times, 1)[:, None] / 1e9
    # in whole numbers: floating point costs twice as much
    much = grew & (now - before >= np.minimum(np.ceil(per_s * seconds), _MOST).astype(np.uint64))
    if np.count_nonzero(much):
        numbers, rows = (places.tolist() for places in np.nonzero(much))
        yield from zip(numbers, rows, strict=True)


def in_millionths(ratio: float) -> float:
    """Return a ratio as it is sent, rounded to millionths."""
    return round(ratio * 1e6) / 1e6
