"""Counts the columns that only some fabrics read: link-level retry, trimmed packets, credits, and PFC watchdogs.

A column is read in a day with a fault that changes it, at all ports, and is zero at healthy ones. It needs no random
numbers, so that the other columns of a day do not depend on it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.world.columns import Column
from lab.world.effects import CounterIncrement, Effect, GaugeOverride
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Samples, Table

_COUNTERS: tuple[Metric, ...] = (
    Metric.PFC_WATCHDOG_STORMS, Metric.LLR_TX_REPLAYS, Metric.LLR_TX_DISCARDS, Metric.LLR_RX_OK, Metric.LLR_RX_BAD,
    Metric.TRIMMED_PACKETS, Metric.TRIMMED_TX_PACKETS, Metric.TRIMMED_DROPPED_PACKETS, Metric.PFC_WATCHDOG_RESTORES,
)  # fmt: skip
_GAUGES: tuple[Metric, ...] = (Metric.CREDITS_USED, Metric.PFC_WATCHDOG_STORMED)


class FurtherColumns:
    """The values of all ports; `count` and `set` ignore metrics that no source of the simulation reads."""

    def __init__(self, effects: Sequence[Effect], ports: int) -> None:
        changed = {effect.metric for effect in effects if isinstance(effect, CounterIncrement | GaugeOverride)}
        counters = [metric for metric in _COUNTERS if metric in changed]
        gauges = [metric for metric in _GAUGES if metric in changed]
        self._counter_at: dict[Column, int] = {(metric, NO_INDEX): at for at, metric in enumerate(counters)}
        self._gauge_at = {metric: at for at, metric in enumerate(gauges)}
        self._counts = np.zeros((len(counters), ports))
        self._levels = np.zeros((len(gauges), ports))

    def count(self, column: Column, port: int, growth: float) -> None:
        """Add to a counter of a port."""
        if (at := self._counter_at.get(column)) is not None:
            self._counts[at, port] += growth

    def set(self, metric: Metric, port: int, value: float) -> None:
        """Set a gauge of a port until the next reading."""
        if (at := self._gauge_at.get(metric)) is not None:
            self._levels[at, port] = value

    def begin_reading(self) -> None:
        """Set all gauges to zero."""
        self._levels[:] = 0.0

    def reset(self, ports: slice) -> None:
        """Set the counters of ports to zero."""
        self._counts[:, ports] = 0.0

    def added_to(self, samples: Samples, ports: slice) -> Samples:
        """Return the reading of a device's ports with these columns."""
        if not self._counter_at and not self._gauge_at:
            return samples
        counts = np.rint(self._counts[:, ports]).astype(np.uint64)
        return replace(
            samples,
            counters=_joined(samples.counters, tuple(metric for metric, _ in self._counter_at), counts),
            gauges=_joined(samples.gauges, tuple(self._gauge_at), self._levels[:, ports]),
        )


def _joined(table: Table, metrics: tuple[Metric, ...], values: npt.NDArray[Any]) -> Table:
    joined = np.vstack((table.values, values))
    return Table(table.metric + metrics, table.index + (NO_INDEX,) * len(metrics), joined)
