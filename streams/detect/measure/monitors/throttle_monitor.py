"""Finds ports of hosts that flow or congestion control throttles and that send much less than just before.

pause_monitor.py and cnp_monitor.py have one each and call it for the cells that they evaluate: whether a port is
throttled is theirs. The rate before is read from the windows that are stored of each host. The beginning is reported
once the condition has lasted, and then its end. A port that sends almost nothing is a PFC storm, which pause_monitor.py
reports.
"""

from collections.abc import Callable, Iterator

import numpy as np

from streams.detect.detectors.congestion_collapse.groups import CollapseParams
from streams.detect.detectors.congestion_pfc_storm import StormParams
from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.monitor import NumberedSymptom
from streams.detect.measure.monitors.port_interval import PortInterval, in_millionths
from streams.detect.measure.storage.column_store import is_absent
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionEnded, CongestionState, ThrottledBegan


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
