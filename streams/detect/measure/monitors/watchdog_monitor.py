"""Finds queues that the PFC watchdog of a switch holds: it drops what they should send, until it restores them.

A watchdog that detects and restores a storm again and again between two readings shows only in the growth of its
counter; one storm of 170 such cycles is one condition.
"""

from collections.abc import Iterator

import numpy as np

from streams.detect.measure.monitors.monitor import (
    ActiveConditions,
    Cell,
    Columns,
    ConditionMonitor,
    NumberedSymptom,
    PortInterval,
    cells_above,
    cells_where,
    positions_by_index,
)
from streams.detect.measure.storage.column_store import is_absent
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionState, PfcWatchdogStorm

_STUCK_S = 600
"""A watchdog restores a queue within seconds after the last frame of pause (SONiC: 0.2 to 60 s)."""

_PAUSE = (Metric.PFC_RX_FRAMES, Metric.PFC_RX_PAUSE_USECONDS)


class WatchdogMonitor(ConditionMonitor):
    """Tracks the ports with a queue that a watchdog holds, or held between two readings."""

    name = "watchdog"

    def __init__(self) -> None:
        self._own = ActiveConditions(0, CongestionState.WATCHDOG_STORM)
        self._unpaused = ActiveConditions(_STUCK_S, CongestionState.WATCHDOG_STORM)
        """Those to which the peer sends no pause."""
        self._stormed = positions_by_index(Metric.PFC_WATCHDOG_STORMED)
        super().__init__((Metric.PFC_WATCHDOG_STORMS,), self._own, self._unpaused)

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        for position in columns.values():
            yield from cells_above(batch, position, 0.0)
        for position in self._stormed[batch.gauges.mapping].values():
            stormed = batch.gauges.values[:, position] > 0
            if np.count_nonzero(stormed):
                yield from cells_where(stormed)

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        stormed = [queue for queue in self._stormed[interval.batch.gauges.mapping] if self._is_stormed(interval, queue)]
        grown = {queue: interval.counter_delta(metric, queue) for metric, queue in columns}
        counted = [queue for queue, delta in grown.items() if delta is not None and delta[0]]
        queues = [*stormed, *counted]
        if not queues:
            self._end_unpaused(interval)
            yield from self._own.end(interval)
            return
        queue = None if min(queues) == NO_INDEX else min(queues)
        condition = self._own.extend(interval, interval.message.at_ns)
        if self._own.has_lasted(condition):
            yield interval.symptom(PfcWatchdogStorm(queue, "", condition.since_ns))
        pause = [delta for queue in stormed for metric in _PAUSE if (delta := interval.counter_delta(metric, queue))]
        if any(count for count, _ in pause):
            self._end_unpaused(interval)
        elif pause:
            unpaused = self._unpaused.extend(interval, interval.since_ns(min(seconds for _, seconds in pause)))
            if self._unpaused.has_lasted(unpaused):
                yield interval.symptom(PfcWatchdogStorm(queue, "", condition.since_ns, is_stuck=True))

    def _is_stormed(self, interval: PortInterval, queue: int) -> bool:
        """Return whether a queue is stormed, by its status and, where both are read, by its counters."""
        position = self._stormed[interval.batch.gauges.mapping][queue]
        if not interval.batch.gauges.values[interval.number, position, interval.row] > 0:
            return False
        counters, metrics = interval.batch.counters, (Metric.PFC_WATCHDOG_STORMS, Metric.PFC_WATCHDOG_RESTORES)
        positions = [counters.mapping.position_of.get((metric, queue)) for metric in metrics]
        read = [counters.values[interval.number, at, interval.row] for at in positions if at is not None]
        return len(read) < len(metrics) or bool(is_absent(np.array(read)).any()) or bool(read[0] > read[1])

    def _end_unpaused(self, interval: PortInterval) -> None:
        for _ in self._unpaused.end(interval):  # its end is no symptom of its own
            pass
