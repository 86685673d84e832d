"""Finds ports of hosts that repeat lost packets and send far less than just before.

It needs neither pause nor congestion notifications: where a fabric has none of them, a full queue drops, and senders
count what they repeat. Readings are compared as arrays, as in cnp_monitor.py; throttle_monitor.py decides whether a
port sends far less.
"""

from collections.abc import Iterator

from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.monitor import NumberedSymptom, ReplayedMonitor
from streams.detect.measure.monitors.pause_monitor import speed_of
from streams.detect.measure.monitors.port_interval import PortInterval, cells_above
from streams.detect.measure.monitors.throttle_monitor import ThrottleMonitor
from streams.detect.measure.storage.column_store import Column, ColumnMapping, MappingCache
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import RowKind
from streams.wire.symptoms import CongestionState, SlowedByLossBegan

_REPEATED = (Metric.PACKET_SEQUENCE_ERRORS, Metric.ADAPTIVE_RETRANSMITS)
_TIMEOUTS = (Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS)


class LossMonitor(ReplayedMonitor):
    """Holds the ports that lost packets slow: none in a healthy fabric."""

    name = "loss"

    def __init__(self, params: DetectParams) -> None:
        own = params.collapse
        self._limits = dict.fromkeys(_REPEATED, own.retransmits_per_s) | dict.fromkeys(_TIMEOUTS, own.timeouts_per_s)
        """Of each metric, growth a second from which on it shows that packets are lost; they count the same losses."""
        self._columns: MappingCache[dict[Column, int]] = MappingCache(self._columns_of)
        self._throttle = ThrottleMonitor(own, params.storm, CongestionState.SLOWED_BY_LOSS)

    @property
    def active(self) -> tuple[ActiveConditions, ...]:
        return (self._throttle.active,)

    def is_relevant(self, batch: MessageBatch) -> bool:
        return batch.row_kind is RowKind.ROW_KIND_PORT and bool(self._columns[batch.counters.mapping])

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        active = self._throttle.active
        cells: dict[tuple[int, int], None] = {}
        if active.by_source:
            cells = dict.fromkeys((number, row) for number, row, _ in active.active_cells(batch))
        for (metric, _), position in self._columns[batch.counters.mapping].items():
            cells |= dict.fromkeys(cells_above(batch, position, self._limits[metric]))
        return [symptom for number, row in cells for symptom in self._evaluate(batch, number, row, topology)]

    def _evaluate(self, batch: MessageBatch, number: int, row: int, topology: Topology) -> Iterator[NumberedSymptom]:
        interval = PortInterval(batch, number, row, 0, speed_of(batch, number, row, topology))
        grown = {metric: delta for metric in self._limits if (delta := interval.counter_delta(metric)) is not None}
        if not grown:
            return
        per_s = {metric: count / seconds for metric, (count, seconds) in grown.items()}
        most = round(max(per_s.values()))
        yield from self._throttle.evaluate(
            interval,
            topology,
            lambda since_ns, tx_ratio: SlowedByLossBegan(since_ns, tx_ratio, most),
            is_throttled=any(rate >= self._limits[metric] for metric, rate in per_s.items()),
        )

    def _columns_of(self, mapping: ColumnMapping) -> dict[Column, int]:
        return {column: position for column, position in mapping.position_of.items() if column[0] in self._limits}
