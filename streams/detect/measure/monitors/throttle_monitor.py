"""Which hosts' ports are stifled: paused for a part of the time, and sending far less than they did just before.

Only cells that pauses.py looks at for how long they were paused come here, and those that are held already. What was
sent before is read from the windows that are kept of each host anyway. What is told is that it began, once it has
lasted, and that it is over; what hardly anything goes through any more is a storm, which pauses.py tells.
"""

from collections.abc import Iterator

import numpy as np

from streams.detect.detectors.congestion_collapse.params import CollapseParams
from streams.detect.detectors.congestion_pfc_storm.params import StormParams
from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.port_interval import PortInterval, in_millionths
from streams.detect.measure.monitors.transitions import NumberedSymptom
from streams.detect.measure.storage.column_store import is_absent
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionEnded, CongestionState, ThrottledByPauseBegan


class ThrottleMonitor:
    """Keeps which ports are stifled: none, on a healthy fabric."""

    def __init__(self, params: CollapseParams, storm: StormParams) -> None:
        self._params, self._storm = params, storm
        self.active = ActiveConditions()

    def evaluate(self, reading: PortInterval, paused: float, topology: Topology) -> Iterator[NumberedSymptom]:
        """One cell that was paused for this share of the time."""
        taken = reading.taken
        samples = taken.samples
        row = samples.row[reading.row]
        fallen = self.active.get(samples, row)
        sent = reading.counter_delta(Metric.TX_BYTES)
        if sent is None or reading.speed_bps <= 0 or (fallen is None and paused < self._params.paused):
            return
        rate_bps = sent[0] * 8 / sent[1]
        before_bps = fallen.before_bps if fallen is not None else self._before_bps(reading)
        is_so = (
            paused >= self._params.paused
            and rate_bps <= self._params.max_tx_ratio * before_bps
            and before_bps >= self._params.busy * reading.speed_bps
            and rate_bps > self._storm.traffic * reading.speed_bps
        )
        port = topology.resolve_port(samples.device, row)
        if not is_so:
            if (ended := self.active.end(samples, row)) is not None:
                yield reading.symptom(port, CongestionEnded(CongestionState.THROTTLED_BY_PAUSE, ended.last_ns))
            return
        if fallen is None and topology.host_link_at(port) is None:
            return
        fallen = self.active.extend(samples, row, taken.at_ns - round(sent[1] * 1e9), taken.at_ns)
        fallen.before_bps = before_bps
        if fallen.has_lasted(ns(self._params.sustained_s)):
            began = ThrottledByPauseBegan(fallen.since_ns, in_millionths(rate_bps / before_bps), paused)
            yield reading.symptom(port, began)

    def _before_bps(self, reading: PortInterval) -> float:
        """What it sent from the end of the last window that is final up to this reading; 0 where nobody knows."""
        counters = reading.wave.counters
        windows = reading.taken.slot.block.windows
        position = counters.mapping.position_of.get((Metric.TX_BYTES, NO_INDEX))
        place = windows.counters.index_of.get((Metric.TX_BYTES, NO_INDEX)) if windows is not None else None
        if windows is None or place is None or position is None or place >= windows.counters.compared:
            return 0.0
        device = int(counters.devices[reading.message])
        row = reading.row if counters.rows is None else int(counters.rows[reading.row])
        base, base_ns = windows.counters.base[device, place, row], int(windows.counters.base_ns[device, place])
        last = counters.previous(position)[reading.message, reading.row]
        seconds = (counters.since_ns(position, reading.message, reading.row) - base_ns) / 1e9
        if base_ns == 0 or seconds < self._params.before_s or is_absent(np.array([base, last])).any() or last < base:
            return 0.0
        return float(last - base) * 8 / seconds
