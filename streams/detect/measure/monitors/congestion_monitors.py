"""Finds ports of hosts that CNPs or lost packets throttle, and ports that receive nearly all that their link carries.

The rate before a port was throttled is read from the stored windows of each host. A port that sends almost nothing is a
PFC storm, which pause_monitor.py reports. No counter shows to which host a throttled port sends; congestion/incast
infers it. A full link alone is no fault; congestion/incast compares it with the times of probes. In a fabric with
neither pause nor congestion notifications, a full queue drops packets, and senders count retransmissions.
"""

from collections.abc import Callable, Iterator

import numpy as np

from streams.detect.detectors.congestion_collapse.groups import CollapseParams
from streams.detect.detectors.congestion_pfc_storm import StormParams
from streams.detect.measure.monitors.monitor import (
    ActiveConditions,
    Cell,
    Columns,
    ConditionMonitor,
    NumberedSymptom,
    PortInterval,
    cells_above,
    in_millionths,
    speeds_of,
)
from streams.detect.measure.storage.column_store import is_absent
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.measure.storage.plausibility import most_octets
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionState,
    LinkFullBegan,
    SlowedByCnpBegan,
    SlowedByLossBegan,
    ThrottledBegan,
)

_REPEATED = (Metric.PACKET_SEQUENCE_ERRORS, Metric.ADAPTIVE_RETRANSMITS)
_TIMEOUTS = (Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS)
_LEAST_BPS = 1e9
"""A slower port is not part of a fabric, or its speed has another unit."""
_ANY_BPS = 1e18
"""Higher than any speed, so that a port whose source does not read its speed is not examined."""


class Throttle:
    """Tracks the ports that send much less than just before; each monitor decides whether a port is throttled."""

    def __init__(self, params: CollapseParams, storm: StormParams, state: CongestionState) -> None:
        self._params, self._storm = params, storm
        self.active = ActiveConditions(params.sustained_s, state)

    def evaluate(
        self, interval: PortInterval, began: Callable[[int, float], ThrottledBegan], *, is_throttled: bool
    ) -> Iterator[NumberedSymptom]:
        """Evaluate a port; `began` creates the payload from the start and the ratio to the rate before it."""
        condition = self.active.get(interval)
        sent, speed_bps = interval.counter_delta(Metric.TX_BYTES), interval.speed_bps()
        if sent is None or speed_bps <= 0 or (condition is None and not is_throttled):
            return
        rate_bps = sent[0] * 8 / sent[1]
        before_bps = condition.before_bps if condition is not None else self._before_bps(interval)
        is_slowed = (
            is_throttled
            and rate_bps <= self._params.max_tx_ratio * before_bps
            and before_bps >= self._params.busy * speed_bps
            and rate_bps > self._storm.traffic * speed_bps
        )
        if not is_slowed:
            yield from self.active.end(interval)
            return
        if condition is None and interval.topology.host_link_at(interval.port) is None:
            return
        condition = self.active.extend(interval, interval.since_ns(sent[1]))
        condition.before_bps = before_bps
        if self.active.has_lasted(condition):
            yield interval.symptom(began(condition.since_ns, in_millionths(rate_bps / before_bps)))

    def _before_bps(self, interval: PortInterval) -> float:
        """Return the rate from the end of the last final window up to this interval; 0 if unknown."""
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


class CnpMonitor(ConditionMonitor):
    """Tracks the ports that CNPs throttle: few in a healthy fabric."""

    name = "cnp"

    def __init__(self, params: DetectParams) -> None:
        self._per_s = params.incast.cnp_per_s
        self._own = ActiveConditions(params.incast.cnp_s, CongestionState.CNP_THROTTLED)
        self._throttle = Throttle(params.collapse, params.storm, CongestionState.SLOWED_BY_CNP)
        super().__init__((Metric.CNP_HANDLED,), self._own, self._throttle.active)

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        for position in columns.values():
            yield from cells_above(batch, position, self._per_s)

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        grown = interval.counter_delta(Metric.CNP_HANDLED)
        if grown is None:
            return
        per_s = round(grown[0] / grown[1])
        is_throttled = grown[0] >= self._per_s * grown[1]
        yield from self._throttle.evaluate(
            interval, lambda since_ns, tx_ratio: SlowedByCnpBegan(since_ns, tx_ratio, per_s), is_throttled=is_throttled
        )
        if not is_throttled:
            yield from self._own.end(interval)
            return
        if self._own.get(interval) is None and interval.topology.host_link_at(interval.port) is None:
            return
        condition = self._own.extend(interval, interval.since_ns(grown[1]))
        if self._own.has_lasted(condition):
            yield interval.symptom(CnpThrottledBegan(condition.since_ns, per_s))


class LossMonitor(ConditionMonitor):
    """Tracks the ports that retransmit lost packets and send far less than just before: none in a healthy fabric."""

    name = "loss"

    def __init__(self, params: DetectParams) -> None:
        own = params.collapse
        self._limits = dict.fromkeys(_REPEATED, own.retransmits_per_s) | dict.fromkeys(_TIMEOUTS, own.timeouts_per_s)
        """Metric -> growth per second from which it shows that packets are lost; all count the same losses."""
        self._throttle = Throttle(own, params.storm, CongestionState.SLOWED_BY_LOSS)
        super().__init__(self._limits, self._throttle.active)

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        for (metric, _), position in columns.items():
            yield from cells_above(batch, position, self._limits[metric])

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        grown = {metric: delta for metric in self._limits if (delta := interval.counter_delta(metric)) is not None}
        if not grown:
            return
        per_s = {metric: count / seconds for metric, (count, seconds) in grown.items()}
        most = round(max(per_s.values()))
        yield from self._throttle.evaluate(
            interval,
            lambda since_ns, tx_ratio: SlowedByLossBegan(since_ns, tx_ratio, most),
            is_throttled=any(rate >= self._limits[metric] for metric, rate in per_s.items()),
        )


class FullMonitor(ConditionMonitor):
    """Tracks the ports of hosts that receive nearly as much as their link carries."""

    name = "full"

    def __init__(self, params: DetectParams) -> None:
        self._full = params.incast.full
        self._own = ActiveConditions(params.incast.sustained_s, CongestionState.FULL)
        super().__init__((Metric.RX_BYTES,), self._own)

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        speeds = speeds_of(batch, unknown=_ANY_BPS)
        speeds[speeds < _LEAST_BPS] = _ANY_BPS
        for position in columns.values():
            yield from cells_above(batch, position, self._full / 8 * speeds)

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        if interval.topology.host_link_at(interval.port) is None:
            return
        grown, speed_bps = interval.counter_delta(Metric.RX_BYTES), interval.speed_bps()
        if grown is None or speed_bps <= 0:
            return
        octets, seconds = grown
        carried = speed_bps / 8 * seconds
        if not self._full * carried <= octets <= most_octets(seconds, speed_bps):
            yield from self._own.end(interval)
            return
        condition = self._own.extend(interval, interval.since_ns(seconds))
        if self._own.has_lasted(condition):
            yield interval.symptom(LinkFullBegan(condition.since_ns, in_millionths(min(1.0, octets / carried))))
