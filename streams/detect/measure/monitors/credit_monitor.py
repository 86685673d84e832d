"""Finds ports that wait for the credits of their peer (CBFC of Ultra Ethernet) as others are stopped by its pause.

Credits are in use at two readings, and almost nothing was sent between them: the peer has not freed them. On an idle
port all credits are free, and on a busy one the used ones are those of packets on their way.
"""

from collections.abc import Iterator

import numpy as np

from streams.detect.detectors.congestion_pfc_storm import StormParams
from streams.detect.measure.monitors.monitor import (
    ActiveConditions,
    Cell,
    Columns,
    ConditionMonitor,
    NumberedSymptom,
    PortInterval,
    cells_where,
    positions_by_index,
    speeds_of,
)
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionState, PauseBegan, PauseDirection

_FAST_BPS = 1e13
"""The assumed speed of a port without a speed in the message: `evaluate` looks it up."""


class CreditMonitor(ConditionMonitor):
    """Tracks the ports whose peer frees no credits: none in a healthy fabric."""

    name = "credits"

    def __init__(self, params: StormParams) -> None:
        self._traffic = params.traffic
        self._used = positions_by_index(Metric.CREDITS_USED)
        self._own = ActiveConditions(params.sustained_s * params.paused, CongestionState.PAUSE_RECEIVED)
        super().__init__((Metric.TX_BYTES,), self._own)

    def is_relevant(self, batch: MessageBatch) -> bool:
        return super().is_relevant(batch) and bool(self._used[batch.gauges.mapping])

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        used = self._used[batch.gauges.mapping]
        if not used:
            return
        position = columns[Metric.TX_BYTES, NO_INDEX]
        counters, gauges = batch.counters, batch.gauges
        now, before = counters.values[:, position], counters.previous(position)
        times = counters.store.at_ns[counters.devices, counters.mapping.columns[position]]
        seconds = np.maximum(counters.at_ns - times, 1)[:, None] / 1e9
        silent = (now >= before) & ((now - before) * 8 <= self._traffic * speeds_of(batch, unknown=_FAST_BPS) * seconds)
        for at in used.values():
            waits = silent & (gauges.values[:, at] > 0) & (gauges.previous(at) > 0)
            if np.count_nonzero(waits):
                yield from cells_where(waits)

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        sent, speed_bps = interval.counter_delta(Metric.TX_BYTES), interval.speed_bps()
        if sent is None or speed_bps <= 0:
            return
        channels = [channel for channel in self._used[interval.batch.gauges.mapping] if self._waits(interval, channel)]
        if not channels or sent[0] * 8 > self._traffic * speed_bps * sent[1]:
            yield from self._own.end(interval)
            return
        condition = self._own.extend(interval, interval.since_ns(sent[1]))
        if self._own.has_lasted(condition):
            channel = None if min(channels) == NO_INDEX else min(channels)
            yield interval.symptom(
                PauseBegan(PauseDirection.RECEIVED, condition.since_ns, 1.0, channel, by_credits=True)
            )

    def _waits(self, interval: PortInterval, channel: int) -> bool:
        """Return whether credits are in use at both readings, and none was freed in between."""
        gauges, at = interval.batch.gauges, self._used[interval.batch.gauges.mapping][channel]
        used = gauges.values[interval.number, at, interval.row], gauges.previous(at)[interval.number, interval.row]
        freed = interval.counter_delta(Metric.CREDITS_FREED, channel)
        return bool(used[0] >= used[1] > 0) and (freed is None or not freed[0])
