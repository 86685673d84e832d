"""The step that every contender does: of each port and counter the rate since the last reading, against a limit.

Here with numpy, over the whole message at once, for every contender whose users may do so. It favours the peers: what
is compared is how messages reach the step and where its state is kept, and never a slow way to subtract.
"""

import json
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.wire.models import Samples

NS = 1_000_000_000
LIMITS_PER_S: dict[Metric, float] = {
    Metric.LINK_DOWN_EVENTS: 0.0,
    Metric.RX_ERRORS: 1_000.0,
    Metric.TX_ERRORS: 1_000.0,
    Metric.RX_FCS_ERRORS: 1_000.0,
    Metric.RX_SYMBOL_ERRORS: 1_000.0,
    Metric.FEC_UNCORRECTED_CODEWORDS: 1_000.0,
}
"""A counter that grows faster than this crosses its limit; the load's errors stay far below theirs."""

Counters = npt.NDArray[np.uint64] | npt.NDArray[np.float64]


@cache
def limits(metrics: tuple[Metric, ...]) -> npt.NDArray[np.float64]:
    """The limit of each column, infinite where a metric has none; of shape (columns, 1)."""
    return np.array([[LIMITS_PER_S.get(metric, np.inf)] for metric in metrics])


def crossings(samples: Samples, before: Counters, before_ns: int) -> list[bytes]:
    """The answers for a message, given the last reading of the same rows and columns and its time."""
    values = samples.counters.values
    grown = np.where(values > before, values - before, 0)
    rates = grown / ((samples.sampled_at_ns - before_ns) / NS)
    over = rates > limits(samples.counters.metric)
    if not over.any():
        return []
    return [answer(samples, row, column, float(rates[column, row])) for column, row in np.argwhere(over)]


def answer(samples: Samples, row: int, column: int, rate: float) -> bytes:
    """One crossing, as it is produced to Kafka."""
    said: dict[str, Any] = {
        "device": samples.device,
        "port": samples.row[row],
        "metric": samples.counters.metric[column].name,
        "rate": rate,
        "at_ns": samples.sampled_at_ns,
    }
    return json.dumps(said).encode()
