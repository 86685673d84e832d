"""Final windows that are to be sent, of one port or of all compared ports of a device."""

from typing import NamedTuple

from streams.detect.measure.storage.column_store import Column
from streams.fabric.catalogue import Metric
from streams.wire.models import LevelExtreme


class PortWindowReport(NamedTuple):
    """One window of one port; `message` is the message of the batch that makes it final."""

    message: int
    row: int
    number: int
    since_ns: int
    at_ns: int
    values: dict[Column, tuple[float, float]]
    """Column -> growth and 0, or the level and the value that was sent last."""
    extremes: tuple[LevelExtreme, ...] = ()


class PeerWindowReport(NamedTuple):
    """One window of all ports of a device, metric after metric; -1 for no reading."""

    message: int
    number: int
    since_ns: int
    at_ns: int
    metrics: tuple[Metric, ...]
    values: tuple[float, ...]
