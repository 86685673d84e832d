"""Thresholds of congestion/imbalance."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Thresholds


class ImbalanceParams(Thresholds):
    """`[detect.imbalance]`: uplinks of one switch that differ persistently (DETECTION 3)."""

    uneven: Ratio = 0.15
    """Off the mean of its uplinks: five times the deviation of a healthy fabric (3 %, `a100-roce-leaf`)."""

    busy: Ratio = 0.5
    """Of its speed that the fullest must carry at least: where none is half full, unevenness delays no traffic."""

    unused: Ratio = 0.01
    """Of the fullest; an uplink that carries less is down, drained or a standby, and is not compared."""

    windows: Annotated[int, Field(ge=2)] = 5
    """In a row, uneven to open and even to close: a new collective has new flows, and with them new hashes."""
