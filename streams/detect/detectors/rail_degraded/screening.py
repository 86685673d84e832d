"""Which hosts have a rail in doubt in one window, as far as the host alone shows it: of those `measure` tells.

What a window says of a rail (`Mark`), and by which limits, is here; whether a rail is bad, its peers at other hosts
decide, in rail_peers.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.params import RailParams
from streams.fabric.catalogue import Metric

Values = npt.NDArray[np.float64]

SLOW, TRAINED_LOW, RETRANSMITS, PCIE = "slow", "trained-low", "retransmits", "pcie"
TRAINED_SHARE = 0.99
"""Below this share of its speed a port has trained low; devices round."""


@dataclass(frozen=True, slots=True)
class RailVerdict:
    """What one window says of one rail of a host; `why` is empty where it was well."""

    begin_ns: int
    end_ns: int
    reason: str = ""
    observed: float = 0.0
    expected: float = 0.0
    peers: int = 0


@dataclass(frozen=True, slots=True)
class RailPort:
    """Where a rail of a host is: its port, and what it should be trained to."""

    host: str
    rail: int
    plane: int | None
    port: str
    speed_bps: float


_MARGIN = 0.03
"""`measure` doubts a rail so much earlier than it would be bad, so that peers that are nearly as slow are told of."""


def suspect_rails(
    params: RailParams, read: Mapping[Metric, Values], seconds: Values, speeds: Values
) -> npt.NDArray[np.bool_]:
    """Which hosts have a rail in doubt; each value has shape (hosts, ports), `speeds` NaN where a port is no rail."""
    is_rail = ~np.isnan(speeds)
    none = np.full(speeds.shape, np.nan)
    rate = np.fmax(read.get(Metric.TX_BYTES, none), read.get(Metric.RX_BYTES, none)) * 8 / seconds[:, None]
    rate[~is_rail] = np.nan
    trained = read.get(Metric.SPEED_BPS, none)
    line = np.fmax(speeds, trained)  # the inventory may not know it
    typical = median_of(rate)
    found = (rate < (params.slow + _MARGIN) * typical) & (typical >= params.busy * np.nan_to_num(line, nan=1.0))
    found |= (trained > 0) & (trained < TRAINED_SHARE * speeds)
    for metric, limit in limits_of(params).items():
        if metric in read:
            found |= read[metric] / seconds[:, None] >= limit / 2
    doubts: npt.NDArray[np.bool_] = np.any(found & is_rail, axis=1)
    return doubts


def median_of(values: Values) -> Values:
    """Of each row, by what was read in it, as a column; NaN where nothing was."""
    if not values.shape[1]:
        return np.full((len(values), 1), np.nan)
    ordered, rows = np.sort(values, axis=1), np.arange(len(values))  # NaN last
    count = (~np.isnan(values)).sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    medians: Values = (ordered[rows, low] + ordered[rows, high]) / 2
    return medians[:, None]


def limits_of(params: RailParams) -> dict[Metric, float]:
    """What is too much of a counter, a second."""
    return {
        Metric.LOCAL_ACK_TIMEOUTS: params.timeouts_per_s, Metric.ROCE_SLOW_RESTARTS: params.restarts_per_s,
        Metric.PCIE_STALLED_READ_SECONDS: params.stalled, Metric.PCIE_STALLED_WRITE_SECONDS: params.stalled,
    }  # fmt: skip
