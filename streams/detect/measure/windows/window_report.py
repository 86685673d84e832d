"""What is told of a window, of one port or of all ports of a host; whose it is, says the stage."""

from typing import NamedTuple

from streams.detect.measure.storage.column_store import Column
from streams.fabric.catalogue import Metric


class PortWindowReport(NamedTuple):
    """One window of one port: what was read in it, and by which of the wave's messages it is said."""

    message: int
    row: int
    number: int
    since_ns: int
    at_ns: int
    values: dict[Column, tuple[float, float]]
    """Column -> growth and 0, or the reading and what was told before."""


class PeerWindowReport(NamedTuple):
    """One window of all ports of a host, metric after metric."""

    number: int
    since_ns: int
    at_ns: int
    metrics: tuple[Metric, ...]
    values: tuple[float, ...]
