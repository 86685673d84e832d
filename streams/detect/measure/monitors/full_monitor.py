"""Finds ports of hosts that receive nearly as much as their link carries.

Readings are compared as arrays, as in incast_monitor.py. The beginning is reported once the condition has lasted, and
then its end. A full link alone is no fault; congestion/incast reads it beside the times of probes.
"""

from collections.abc import Iterator

from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.monitor import NumberedSymptom, ReplayedMonitor
from streams.detect.measure.monitors.pause_monitor import speed_of, speeds_of
from streams.detect.measure.monitors.port_interval import PortInterval, cells_above, in_millionths
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.measure.storage.plausibility import most_octets
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind
from streams.wire.symptoms import CongestionEnded, CongestionState, LinkFullBegan

_COUNTER = (Metric.RX_BYTES, NO_INDEX)
_LEAST_BPS = 1e9
"""A slower port is none of a fabric, or its speed has another unit."""
_ANY_BPS = 1e18
"""More than any speed: a port whose source does not read its speed is not examined."""


class FullMonitor(ReplayedMonitor):
    """Holds the ports with a full link."""

    name = "full"

    def __init__(self, params: DetectParams) -> None:
        self._params = params.incast
        self._active = ActiveConditions()

    @property
    def active(self) -> tuple[ActiveConditions, ...]:
        return (self._active,)

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
        speeds = speeds_of(batch, unknown=_ANY_BPS)
        speeds[speeds < _LEAST_BPS] = _ANY_BPS
        cells |= dict.fromkeys(cells_above(batch, position, self._params.full / 8 * speeds))
        return [symptom for number, row in cells for symptom in self._evaluate(batch, number, row, topology)]

    def _evaluate(self, batch: MessageBatch, number: int, row: int, topology: Topology) -> Iterator[NumberedSymptom]:
        message = batch.messages[number]
        samples = message.samples
        port = topology.resolve_port(samples.device, samples.row[row])
        if topology.host_link_at(port) is None:
            return
        interval = PortInterval(batch, number, row, 0, speed_of(batch, number, row, topology))
        grown = interval.counter_delta(Metric.RX_BYTES)
        if grown is None or interval.speed_bps <= 0:
            return
        octets, seconds = grown
        name, carried = samples.row[row], interval.speed_bps / 8 * seconds
        if not self._params.full * carried <= octets <= most_octets(seconds, interval.speed_bps):
            if (ended := self._active.end(samples, name)) is not None:
                yield interval.symptom(port, CongestionEnded(CongestionState.FULL, ended.last_ns))
            return
        condition = self._active.extend(samples, name, message.at_ns - round(seconds * 1e9), message.at_ns)
        if condition.has_lasted(ns(self._params.sustained_s)):
            load = in_millionths(min(1.0, octets / carried))
            yield interval.symptom(port, LinkFullBegan(condition.since_ns, load))
