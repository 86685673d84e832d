"""Which hosts' ports are slowed by the fabric: told by congestion notifications, over and over, to send less.

Decided for many messages at once by array arithmetic, as crowds.py does. What is told is that it began, once it has
lasted, and that it is over; towards whom a port sends its counters do not say, and is for congestion/incast.
"""

from collections.abc import Iterator

import numpy as np

from streams.detect.detectors.congestion_incast.params import IncastParams
from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.port_interval import PortInterval
from streams.detect.measure.monitors.transitions import NumberedSymptom
from streams.detect.measure.storage.reading_store import MessageBatch
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CnpThrottledBegan, CongestionEnded, CongestionState


class CnpMonitor:
    """Keeps which ports are slowed: few, on a healthy fabric."""

    def __init__(self, params: IncastParams) -> None:
        self._params = params
        self.active = ActiveConditions()

    def process(self, wave: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        """What a wave shows."""
        change = wave.counters
        position = change.mapping.position_of.get((Metric.CNP_HANDLED, NO_INDEX))
        if position is None:
            return []
        now, before = change.values[:, position], change.previous(position)
        grew = now > before
        cells = (
            dict.fromkeys((message, row) for message, row, _ in self.active.active_cells(wave))
            if self.active.by_source
            else {}
        )
        if np.count_nonzero(grew):
            # a column that was never read before has 0 for its time: nothing is much in it
            times = change.store.at_ns[change.devices, change.mapping.columns[position]]
            seconds = np.maximum(change.at_ns - times, 1)[:, None] / 1e9
            # in whole numbers: what is turned into floating point costs twice as much
            much = grew & (now - before >= np.ceil(self._params.cnp_per_s * seconds).astype(np.uint64))
            if np.count_nonzero(much):
                where = (places.tolist() for places in np.nonzero(much))
                cells |= dict.fromkeys(zip(*where, strict=True))
        return [noticed for message, row in cells for noticed in self._evaluate(wave, message, row, topology)]

    def _evaluate(self, wave: MessageBatch, message: int, row: int, topology: Topology) -> Iterator[NumberedSymptom]:
        taken = wave.messages[message]
        samples = taken.samples
        reading = PortInterval(wave, message, row, 0, 0.0)
        grown = reading.counter_delta(Metric.CNP_HANDLED)
        if grown is None:
            return
        name = samples.row[row]
        port = topology.resolve_port(samples.device, name)
        if grown[0] < self._params.cnp_per_s * grown[1]:
            if (ended := self.active.end(samples, name)) is not None:
                yield reading.symptom(port, CongestionEnded(CongestionState.CNP_THROTTLED, ended.last_ns))
            return
        if self.active.get(samples, name) is None and topology.host_link_at(port) is None:
            return
        held = self.active.extend(samples, name, taken.at_ns - round(grown[1] * 1e9), taken.at_ns)
        if held.has_lasted(ns(self._params.cnp_s)):
            yield reading.symptom(port, CnpThrottledBegan(held.since_ns, round(grown[0] / grown[1])))
