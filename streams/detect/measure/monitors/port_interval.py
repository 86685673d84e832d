"""One cell of a wave that Python looks at: by how much its counters grew, and in which time."""

import math
from dataclasses import dataclass

import numpy as np

from streams.detect.measure.monitors.transitions import NumberedSymptom
from streams.detect.measure.storage.column_store import is_absent
from streams.detect.measure.storage.reading_store import MessageBatch, PendingMessage
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.wire.models import NO_INDEX, Symptom
from streams.wire.symptoms import Congestion

PCIE_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)
"""In which of its seconds a NIC stalled on PCIe."""


@dataclass(frozen=True, slots=True)
class PortInterval:
    """One cell that is looked at: which message, which row, which way."""

    wave: MessageBatch
    message: int
    row: int
    way: int
    speed_bps: float

    @property
    def taken(self) -> PendingMessage:
        """The message."""
        return self.wave.messages[self.message]

    def counter_delta(self, metric: Metric, index: int = NO_INDEX) -> tuple[float, float] | None:
        """Its growth and the seconds that took; None where it was not read twice, or fell."""
        counters = self.wave.counters
        position = counters.mapping.position_of.get((metric, index))
        if position is None:
            return None
        now, before = counters.values[self.message, position, self.row], counters.previous(position)
        was, since_ns = before[self.message, self.row], counters.since_ns(position, self.message, self.row)
        seconds = (self.taken.at_ns - since_ns) / 1e9
        if since_ns == 0 or seconds <= 0 or is_absent(np.array([now, was])).any() or now < was:
            return None
        return float(now - was), seconds

    def symptom(self, port: Port, payload: Congestion) -> NumberedSymptom:
        """The symptom that this reading shows at its port."""
        taken = self.taken
        return taken.number, Symptom(port.device, port.port, payload, taken.at_ns, source=taken.samples.source)

    def pcie_stall_ratio(self) -> float:
        """For which share of the time its NIC stalled on PCIe; NaN where nobody counts it."""
        grown = (self.counter_delta(metric) for metric in PCIE_STALLS)
        return max((min(1.0, one[0] / one[1]) for one in grown if one is not None), default=math.nan)


def in_millionths(ratio: float) -> float:
    """Return a ratio as it is sent, rounded to millionths."""
    return round(ratio * 1e6) / 1e6
