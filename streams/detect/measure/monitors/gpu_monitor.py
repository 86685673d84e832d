"""Finds GPUs beyond a limit, and rapid growth of their counters: the monitors of NVLinks and of power build on it.

Readings within five minutes after a restart of the host are not compared: NVLinks train, and a fabric manager registers
GPUs, only after the driver was loaded.
"""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from streams.detect.measure.monitors.level_monitor import LevelMonitor, Levels
from streams.detect.measure.monitors.monitor import NumberedSymptom
from streams.detect.measure.monitors.transitions import late_growth, rapid_growth
from streams.detect.measure.storage.column_store import Column, ColumnMapping
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind
from streams.wire.symptoms import CounterGrowth

_GRACE_S = 300.0
"""Five minutes: the fabric manager of an NVL72 registers its GPUs within two or three (choice)."""

HIDDEN_IN = {"snmp": "GPUs are read at the host", "nic": "GPUs are read by the host's agent"}
"""The reasons for which the sources of a fabric show no value of a GPU."""


class GpuMonitor(LevelMonitor):
    """Compares gauges of GPUs with limits from below, and counters with a rate."""

    grace_s = _GRACE_S
    rates: ClassVar[dict[Column, float]]
    """The growth a second from which a counter is a symptom; 0 for any growth."""

    def is_relevant(self, batch: MessageBatch) -> bool:
        if batch.row_kind is not RowKind.ROW_KIND_GPU:
            return False
        return super().is_relevant(batch) or bool(self.rates.keys() & batch.counters.mapping.position_of.keys())

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        yield from super().process(batch, topology)
        for column, position in batch.counters.mapping.position_of.items():
            if (per_s := self.rates.get(column)) is not None:
                for number, symptom in rapid_growth(batch, topology, position, _payload_of(column), per_s):
                    message = next(message for message in batch.messages if message.number == number)
                    if self.is_compared(message, topology):
                        yield number, symptom

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        samples = late.message.samples
        if samples.row_kind is not RowKind.ROW_KIND_GPU or not self.is_compared(late.message, topology):
            return
        yield from super().process_late(late, topology)
        for column in zip(samples.counters.metric, samples.counters.index, strict=True):
            if (per_s := self.rates.get(column)) is not None:
                yield from late_growth(late, topology, column, _payload_of(column), per_s)


def _payload_of(column: Column) -> partial[CounterGrowth]:
    return partial(CounterGrowth, Metric(column[0]), index=None if column[1] == NO_INDEX else column[1])


def gauge(mapping: ColumnMapping, values: Levels, metric: Metric) -> Levels:
    """Return a gauge of messages, shape (messages, rows); NaN where it is not read."""
    position = mapping.position_of.get((metric, NO_INDEX))
    return np.full((len(values), values.shape[2]), np.nan) if position is None else values[:, position]


def largest(levels: Levels) -> Levels:
    """Return the largest level of each message for each of its rows; NaN if none is read."""
    return np.broadcast_to(np.fmax.reduce(levels, axis=1)[:, None], levels.shape)
