"""Finds ports of hosts that congestion notifications throttle, and those that send far less meanwhile.

Readings are compared as arrays, as in incast_monitor.py. The beginning is reported once the condition has lasted, and
then its end. To whom a throttled port sends is not counted; congestion/incast infers it.
"""

from collections.abc import Iterator

from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.monitor import NumberedSymptom, ReplayedMonitor
from streams.detect.measure.monitors.pause_monitor import speed_of
from streams.detect.measure.monitors.port_interval import PortInterval, cells_above
from streams.detect.measure.monitors.throttle_monitor import ThrottleMonitor
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind
from streams.wire.symptoms import CnpThrottledBegan, CongestionEnded, CongestionState, SlowedByCnpBegan

_COUNTER = (Metric.CNP_HANDLED, NO_INDEX)


class CnpMonitor(ReplayedMonitor):
    """Holds the throttled ports: few in a healthy fabric."""

    name = "cnp"

    def __init__(self, params: DetectParams) -> None:
        self._params = params.incast
        self._active = ActiveConditions()
        self._throttle = ThrottleMonitor(params.collapse, params.storm, CongestionState.SLOWED_BY_CNP)

    @property
    def active(self) -> tuple[ActiveConditions, ...]:
        return self._active, self._throttle.active

    def is_relevant(self, batch: MessageBatch) -> bool:
        return batch.row_kind is RowKind.ROW_KIND_PORT and _COUNTER in batch.counters.mapping.position_of

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        position = batch.counters.mapping.position_of.get(_COUNTER)
        if position is None:
            return []
        cells = (
            dict.fromkeys((number, row) for number, row, _ in self._active.active_cells(batch))
            if self._active.by_source
            else {}
        )
        cells |= dict.fromkeys(cells_above(batch, position, self._params.cnp_per_s))
        return [symptom for number, row in cells for symptom in self._evaluate(batch, number, row, topology)]

    def _evaluate(self, batch: MessageBatch, number: int, row: int, topology: Topology) -> Iterator[NumberedSymptom]:
        message = batch.messages[number]
        samples = message.samples
        interval = PortInterval(batch, number, row, 0, speed_of(batch, number, row, topology))
        grown = interval.counter_delta(Metric.CNP_HANDLED)
        if grown is None:
            return
        name = samples.row[row]
        port = topology.resolve_port(samples.device, name)
        per_s = round(grown[0] / grown[1])
        is_throttled = grown[0] >= self._params.cnp_per_s * grown[1]
        yield from self._throttle.evaluate(
            interval,
            topology,
            lambda since_ns, tx_ratio: SlowedByCnpBegan(since_ns, tx_ratio, per_s),
            is_throttled=is_throttled,
        )
        if not is_throttled:
            if (ended := self._active.end(samples, name)) is not None:
                yield interval.symptom(port, CongestionEnded(CongestionState.CNP_THROTTLED, ended.last_ns))
            return
        if self._active.get(samples, name) is None and topology.host_link_at(port) is None:
            return
        condition = self._active.extend(samples, name, message.at_ns - round(grown[1] * 1e9), message.at_ns)
        if condition.has_lasted(ns(self._params.cnp_s)):
            yield interval.symptom(port, CnpThrottledBegan(condition.since_ns, per_s))
