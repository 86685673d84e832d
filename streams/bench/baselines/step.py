"""The step of every baseline: the rate of each port and counter since the last reading, compared with a limit.

Computed with numpy over the whole message, for every baseline that allows it. This favours the baselines: the
comparison is about how messages reach the step and where its state is stored, not about slow subtraction.
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
"""A counter that grows faster than this crosses its limit; the load's errors stay far below it."""

Counters = npt.NDArray[np.uint64] | npt.NDArray[np.float64]


@cache
def limits(metrics: tuple[Metric, ...]) -> npt.NDArray[np.float64]:
    """Return the limit of each column, infinite for metrics without one, of shape (columns, 1)."""
    return np.array([[LIMITS_PER_S.get(metric, np.inf)] for metric in metrics])


def crossings(samples: Samples, before: Counters, before_ns: int) -> list[bytes]:
    """Return the answers for a message, given the last reading of the same rows and columns and its time."""
    values = samples.counters.values
    delta = np.where(values > before, values - before, 0)
    rates = delta / ((samples.sampled_at_ns - before_ns) / NS)
    over = rates > limits(samples.counters.metric)
    if not over.any():
        return []
    return [answer(samples, row, column, float(rates[column, row])) for column, row in np.argwhere(over)]


def answer(samples: Samples, row: int, column: int, rate: float) -> bytes:
    """Return one crossing as it is sent to Kafka."""
    fields: dict[str, Any] = {
        "device": samples.device,
        "port": samples.row[row],
        "metric": samples.counters.metric[column].name,
        "rate": rate,
        "at_ns": samples.sampled_at_ns,
    }
    return json.dumps(fields).encode()
