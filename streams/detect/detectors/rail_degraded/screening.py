"""Screens hosts for rails that may be bad in one window, as far as the host alone shows it; `measure` emits those.

comparison.py decides whether a rail is bad, by its peers at other hosts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.params import RailParams
from streams.fabric.catalogue import Metric

Values = npt.NDArray[np.float64]

TRAINED_SHARE = 0.99
"""Below this share of its speed a port has trained low; devices round."""

RETRANSMITS = (Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS)

PCIE_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)
"""Seconds in which a NIC stalled on PCIe."""


class RailReason(IntEnum):
    """The reason for which a rail is bad in a window. A later reason replaces an earlier one."""

    NONE = 0
    SLOW = 1
    TRAINED_LOW = 2
    RETRANSMITS = 3
    PCIE = 4


@dataclass(frozen=True, slots=True)
class RailVerdict:
    """One rail of a host in one window; `reason` is NONE where it was healthy."""

    begin_ns: int
    end_ns: int
    reason: RailReason = RailReason.NONE
    observed: float = 0.0
    expected: float = 0.0
    peers: int = 0
    port: str = ""
    """The port of the rail that is bad: on several planes a rail has one on each."""


@dataclass(frozen=True, slots=True)
class RailPort:
    """The port of a rail, and the speed that it should train to."""

    host: str
    rail: int
    plane: int | None
    port: str
    speed_bps: float


_MARGIN = 0.03
"""Share by which a rail is suspect before it is bad, so that peers that are nearly as slow are emitted as well."""


def suspect_rails(
    params: RailParams, read: Mapping[Metric, Values], seconds: Values, speeds: Values
) -> npt.NDArray[np.bool_]:
    """Return which hosts have a suspect rail; values have shape (hosts, ports), `speeds` NaN for ports without rail."""
    is_rail = ~np.isnan(speeds)
    none = np.full(speeds.shape, np.nan)
    rate = np.fmax(read.get(Metric.TX_BYTES, none), read.get(Metric.RX_BYTES, none)) * 8 / seconds[:, None]
    rate[~is_rail] = np.nan
    trained = read.get(Metric.SPEED_BPS, none)
    line = np.fmax(speeds, trained)  # the inventory may not have the speed
    typical = median_of(rate)
    found = (rate < (params.slow + _MARGIN) * typical) & (typical >= params.busy * np.nan_to_num(line, nan=1.0))
    found |= (trained > 0) & (trained < TRAINED_SHARE * speeds)
    for metric, limit in limits_of(params).items():
        if metric in read:
            found |= read[metric] / seconds[:, None] >= limit / 2
    suspect: npt.NDArray[np.bool_] = np.any(found & is_rail, axis=1)
    return suspect


class HostRows(NamedTuple):
    """The rates of hosts in one window and the rails that counters single out; one value a host."""

    rate: Values
    """The upper median of the rails, bit/s; NaN where none was read. It is low where more than half of them are low;
    of fewer, the median of the other rails shows it (see comparison.py)."""
    speed: Values
    """The median speed of the rails, bit/s; 0 where unknown."""
    rails: Values
    stalled: Values
    retransmitting: Values


def host_rows(params: RailParams, read: Mapping[Metric, Values], seconds: Values, speeds: Values) -> HostRows:
    """Return what each host carried; arguments as of `suspect_rails`."""
    is_rail, per_s = ~np.isnan(speeds), seconds[:, None]
    none = np.full(speeds.shape, np.nan)
    rate = np.fmax(read.get(Metric.TX_BYTES, none), read.get(Metric.RX_BYTES, none)) * 8 / per_s
    rate[~is_rail] = np.nan
    line = np.fmax(speeds, read.get(Metric.SPEED_BPS, none))
    line[~is_rail | ~(line > 0)] = np.nan
    rails = (~np.isnan(rate)).sum(axis=1)
    ordered = np.sort(rate, axis=1)  # NaN last
    upper = ordered[np.arange(len(rate)), np.minimum(rails // 2, max(0, rate.shape[1] - 1))]
    beyond = {
        metric: is_rail & (read.get(metric, none) / per_s >= limit) for metric, limit in limits_of(params).items()
    }
    stalled = np.any([beyond[metric] for metric in PCIE_STALLS], axis=0).sum(axis=1)
    retransmitting = np.any([beyond[metric] for metric in RETRANSMITS], axis=0).sum(axis=1)
    return HostRows(upper, np.nan_to_num(median_of(line)[:, 0]), rails, stalled, retransmitting)


def median_of(values: Values) -> Values:
    """Return the median of each row over the values that were read, as a column; NaN where there are none."""
    if not values.shape[1]:
        return np.full((len(values), 1), np.nan)
    ordered, rows = np.sort(values, axis=1), np.arange(len(values))  # NaN last
    count = (~np.isnan(values)).sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    medians: Values = (ordered[rows, low] + ordered[rows, high]) / 2
    return medians[:, None]


def limits_of(params: RailParams) -> dict[Metric, float]:
    """Return the limit of each counter, per second."""
    return {
        Metric.LOCAL_ACK_TIMEOUTS: params.timeouts_per_s, Metric.ROCE_SLOW_RESTARTS: params.restarts_per_s,
        Metric.PCIE_STALLED_READ_SECONDS: params.stalled, Metric.PCIE_STALLED_WRITE_SECONDS: params.stalled,
    }  # fmt: skip
