"""Finds ports of hosts that CNPs or lost packets throttle, and those that receive nearly what their link carries.

Readings are compared as arrays, as in incast_monitor.py. The beginning is reported once the condition has lasted, and
then its end.
"""

from collections.abc import Callable, Iterator

import numpy as np

from streams.detect.detectors.congestion_collapse.groups import CollapseParams
from streams.detect.detectors.congestion_pfc_storm import StormParams
from streams.detect.measure.monitors.monitor import (
    ActiveConditions,
    NumberedSymptom,
    PortInterval,
    ReplayedMonitor,
    cells_above,
    in_millionths,
    speed_of,
    speeds_of,
)
from streams.detect.measure.storage.column_store import Column, ColumnMapping, MappingCache, is_absent
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.measure.storage.plausibility import most_octets
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionEnded,
    CongestionState,
    LinkFullBegan,
    SlowedByCnpBegan,
    SlowedByLossBegan,
    ThrottledBegan,
)


class ThrottleMonitor:
    """Holds the throttled ports: none in a healthy fabric."""

    def __init__(self, params: CollapseParams, storm: StormParams, state: CongestionState) -> None:
        self._params, self._storm, self._state = params, storm, state
        self.active = ActiveConditions()

    def evaluate(
        self,
        interval: PortInterval,
        topology: Topology,
        began: Callable[[int, float], ThrottledBegan],
        *,
        is_throttled: bool,
    ) -> Iterator[NumberedSymptom]:
        """Evaluate a port; `began` makes the payload from the beginning and the ratio to the rate before it."""
        message = interval.message
        samples = message.samples
        row = samples.row[interval.row]
        condition = self.active.get(samples, row)
        sent = interval.counter_delta(Metric.TX_BYTES)
        if sent is None or interval.speed_bps <= 0 or (condition is None and not is_throttled):
            return
        rate_bps = sent[0] * 8 / sent[1]
        before_bps = condition.before_bps if condition is not None else self._before_bps(interval)
        is_slowed = (
            is_throttled
            and rate_bps <= self._params.max_tx_ratio * before_bps
            and before_bps >= self._params.busy * interval.speed_bps
            and rate_bps > self._storm.traffic * interval.speed_bps
        )
        port = topology.resolve_port(samples.device, row)
        if not is_slowed:
            if (ended := self.active.end(samples, row)) is not None:
                yield interval.symptom(port, CongestionEnded(self._state, ended.last_ns))
            return
        if condition is None and topology.host_link_at(port) is None:
            return
        condition = self.active.extend(samples, row, message.at_ns - round(sent[1] * 1e9), message.at_ns)
        condition.before_bps = before_bps
        if condition.has_lasted(ns(self._params.sustained_s)):
            yield interval.symptom(port, began(condition.since_ns, in_millionths(rate_bps / before_bps)))

    def _before_bps(self, interval: PortInterval) -> float:
        """Return the rate from the end of the last final window up to this interval; 0 where unknown."""
        counters = interval.batch.counters
        windows = interval.message.slot.block.windows
        position = counters.mapping.position_of.get((Metric.TX_BYTES, NO_INDEX))
        place = windows.counters.index_of.get((Metric.TX_BYTES, NO_INDEX)) if windows is not None else None
        if windows is None or place is None or position is None or place >= windows.counters.compared:
            return 0.0
        device = int(counters.devices[interval.number])
        row = interval.row if counters.rows is None else int(counters.rows[interval.row])
        base, base_ns = windows.counters.base[device, place, row], int(windows.counters.base_ns[device, place])
        last = counters.previous(position)[interval.number, interval.row]
        seconds = (counters.since_ns(position, interval.number, interval.row) - base_ns) / 1e9
        if base_ns == 0 or seconds < self._params.before_s or is_absent(np.array([base, last])).any() or last < base:
            return 0.0
        return float(last - base) * 8 / seconds


_CNPS = (Metric.CNP_HANDLED, NO_INDEX)


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
        return batch.row_kind is RowKind.ROW_KIND_PORT and _CNPS in batch.counters.mapping.position_of

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        position = batch.counters.mapping.position_of.get(_CNPS)
        if position is None:
            return []
        cells = (
            dict.fromkeys((number, row) for number, row, _ in self._active.active_cells(batch))
            if self._active.by_source
            else {}
        )
        cells |= dict.fromkeys(cells_above(batch, position, self._params.cnp_per_s))
        if not cells:
            return []
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
        if not cells:
            return []
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


_RECEIVED = (Metric.RX_BYTES, NO_INDEX)
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
        return batch.row_kind is RowKind.ROW_KIND_PORT and _RECEIVED in batch.counters.mapping.position_of

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        position = batch.counters.mapping.position_of.get(_RECEIVED)
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
        if not cells:
            return []
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
