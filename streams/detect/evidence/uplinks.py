"""Compares the uplinks of switches as arrays, for `measure` and congestion/imbalance."""

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric

DIRECTIONS = (Metric.TX_BYTES, Metric.RX_BYTES)
"""Uplinks are compared by the bytes they send, and by the bytes that the tier above sends down to them."""

Values = npt.NDArray[np.float64]


def deviations(rates: Values, speeds: Values, unused: float) -> tuple[Values, Values]:
    """Return, for each uplink, its relative deviation from the mean of those in use, and its load.

    NaN for an uplink not in use. `rates` and `speeds` have shape (switches, ports), with NaN if a port is no uplink or
    was not read. Uplinks of different speeds are compared by their load.
    """
    fill = rates / speeds
    with np.errstate(invalid="ignore"):
        fill = np.where(fill > unused * np.nan_to_num(fill).max(axis=1, initial=0.0)[:, None], fill, np.nan)
    count = (~np.isnan(fill)).sum(axis=1)
    mean = np.nansum(fill, axis=1) / np.maximum(count, 1)
    off: Values = fill / np.where(mean > 0, mean, np.nan)[:, None] - 1
    off[count < 2] = np.nan
    return off, fill
