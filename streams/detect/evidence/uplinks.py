"""Compares the uplinks of switches as arrays, in `measure` and in congestion/imbalance."""

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric

DIRECTIONS = (Metric.TX_BYTES, Metric.RX_BYTES)
"""Uplinks are compared by what they send, and by what the downlinks of the tier above send over them."""

Values = npt.NDArray[np.float64]


def deviations(rates: Values, speeds: Values, unused: float) -> tuple[Values, Values]:
    """Return for each uplink its relative deviation from the mean of those in use, and how full it is.

    NaN for one not in use. `rates` and `speeds` have shape (switches, ports), NaN where a port is no uplink or was not
    read. Uplinks of different speeds are compared by how full they are.
    """
    fill = rates / speeds
    with np.errstate(invalid="ignore"):
        fill = np.where(fill > unused * np.nan_to_num(fill).max(axis=1, initial=0.0)[:, None], fill, np.nan)
    count = (~np.isnan(fill)).sum(axis=1)
    mean = np.nansum(fill, axis=1) / np.maximum(count, 1)
    off: Values = fill / np.where(mean > 0, mean, np.nan)[:, None] - 1
    off[count < 2] = np.nan
    return off, fill
