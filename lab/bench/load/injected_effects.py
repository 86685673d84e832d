"""Applies effects of the simulation to the readings of the load: the counters and values of the affected ports.

Only devices with effects take this path: their messages are encoded from arrays with additional columns, all others
from templates (encoding.py). Times are nanoseconds since the start of the load.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lab.bench.load.group import COUNTERS, GAUGES, Group
from lab.world.columns import LANES, LINE_BPS
from lab.world.effects import (
    BitErrors,
    CounterIncrement,
    Effect,
    GaugeOverride,
    Interval,
    TrafficReduction,
    TrafficShift,
)
from lab.world.fabric_arrays import FabricArrays
from lab.world.facts_source import FactsSource
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Facts, RowKind, Samples, Source, Table

_S = 10**9
_USUAL_GAUGES = {
    Metric.SPEED_BPS: LINE_BPS, Metric.RX_POWER_DBM: 0.0, Metric.TX_POWER_DBM: 1.0, Metric.PCIE_WIDTH_LANES: 16.0,
    Metric.PCIE_SPEED_GTPS: 32.0,
}  # fmt: skip
_PCIE_MAX = {Metric.PCIE_WIDTH_LANES: Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_GTPS: Metric.PCIE_SPEED_MAX_GTPS}
PortEffect = CounterIncrement | TrafficReduction | TrafficShift | BitErrors | GaugeOverride


class _Device:
    """The effects on the ports of one device, by row, and the columns that they add."""

    def __init__(self, rows: int) -> None:
        self.effects: list[tuple[int, PortEffect, bool]] = []
        """(row, effect, True if the row's port sends the traffic that the effect changes)."""
        self.counters: dict[tuple[Metric, int], npt.NDArray[np.uint64]] = {}
        self.gauges: dict[Metric, npt.NDArray[np.float64]] = {}
        self.last: npt.NDArray[np.uint64] | None = None
        self._rows = rows

    def add(self, row: int, effect: PortEffect, columns: Sequence[Metric], *, sends: bool = True) -> None:
        """Add an effect on a port, and the columns that the device's group lacks."""
        self.effects.append((row, effect, sends))
        wanted: list[tuple[Metric, int]] = []
        match effect:
            case CounterIncrement(metric=metric, index=index):
                wanted = [(metric, index)]
            case BitErrors():
                wanted = [(Metric.LANE_RAW_ERRORS, lane) for lane in range(LANES)]
            case GaugeOverride(metric=metric) if metric not in GAUGES:
                for each in (metric, _PCIE_MAX.get(metric)):
                    if each is not None:
                        self.gauges[each] = np.full(self._rows, _USUAL_GAUGES.get(metric, 0.0))
            case _:
                pass
        for metric, index in wanted:
            if metric not in columns or index != NO_INDEX:
                self.counters.setdefault((metric, index), np.zeros(self._rows, np.uint64))


class InjectedEffects:
    """The effects on a fabric's ports, and the Facts that swapped cables and changed versions cause."""

    def __init__(self, fabric: FabricArrays, topology: Topology, effects: Sequence[Effect]) -> None:
        self._fabric = fabric
        self._devices: dict[int, _Device] = {}
        self._facts = FactsSource(fabric, topology, effects)
        self._facts_due = self._facts.polled_ns()
        for effect in effects:
            if isinstance(effect, TrafficReduction | TrafficShift):
                for port in fabric.links[effect.link].tolist():
                    if effect.sent_by in (None, port):
                        self._add(port, effect, sends=True)
                    if effect.sent_by != port:
                        self._add(port, effect, sends=False)
            elif isinstance(effect, CounterIncrement | BitErrors | GaugeOverride):
                self._add(effect.port, effect)

    def _add(self, port: int, effect: PortEffect, *, sends: bool = True) -> None:
        device = self._fabric.device_of(port)
        own = self._devices.setdefault(device, _Device(len(self._fabric.ports[device])))
        row = port - int(self._fabric.first_port[device])
        source = Source.SOURCE_NIC if self._fabric.is_host[device] else Source.SOURCE_GNMI
        own.add(row, effect, tuple(COUNTERS[source]), sends=sends)

    def __contains__(self, device: int) -> bool:
        return device in self._devices

    def facts_due(self, until_ns: int, now_ns: int) -> Iterator[tuple[int, Facts]]:
        """Yield (device, facts) of the polls that are due by a time; the facts have the time `now_ns`."""
        while self._facts_due and self._facts_due[0][0] <= until_ns:
            at_ns, device = self._facts_due.pop(0)
            yield device, replace(self._facts.facts(device, at_ns), observed_at_ns=now_ns)

    def samples(self, device: int, group: Group, position: int, at_ns: int, sequence: int, now_ns: int) -> Samples:
        """Apply the effects that were active since the last reading to a device's counters, and return its message."""
        own, reader = self._devices[device], group.reader
        counters, gauges = group.counters[position], group.gauges[position].copy()
        cadence_ns = round(reader.cadence_s * _S)
        if own.last is not None:
            growth = (counters - own.last).astype(np.float64)
            for row, effect, sends in own.effects:
                part = _overlap(effect.interval, at_ns - cadence_ns, at_ns) / cadence_ns
                if part > 0:
                    self._apply(own, group, counters, growth, (row, effect, sends), part)
            counters[:] = own.last + np.maximum(growth, 0.0).astype(np.uint64)
        own.last = counters.copy()
        extra_gauges = {metric: values.copy() for metric, values in own.gauges.items()}
        for row, effect, _ in own.effects:
            if isinstance(effect, GaugeOverride) and effect.interval.contains(at_ns):
                column = extra_gauges[effect.metric] if effect.metric in extra_gauges else gauges[_gauge(effect.metric)]
                column[row] = effect.reading(column[row], at_ns)
        metrics = (*group.metrics, *(metric for metric, _ in own.counters))
        indices = (*(NO_INDEX for _ in group.metrics), *(index for _, index in own.counters))
        all_gauges = (*GAUGES, *extra_gauges)
        rows = group.rows[position]
        return Samples(
            group.names[position], reader.source, reader.collector, reader.run, sequence, now_ns, now_ns,
            group.boot_id[position], RowKind.ROW_KIND_PORT, rows, group.digests[rows],
            Table(metrics, indices, np.vstack([counters, *own.counters.values()])),
            Table(all_gauges, (NO_INDEX,) * len(all_gauges), np.vstack([gauges, *extra_gauges.values()])),
        )  # fmt: skip

    def _apply(
        self, own: _Device, group: Group, counters: npt.NDArray[np.uint64], growth: npt.NDArray[np.float64],
        applied: tuple[int, PortEffect, bool], part: float,
    ) -> None:  # fmt: skip
        row, effect, sends = applied
        seconds = part * group.reader.cadence_s
        index_of = group.metrics.index
        match effect:
            case TrafficReduction(share=share):
                for metric in _TX if sends else _RX:
                    growth[index_of(metric), row] *= 1 - (1 - share) * part
            case TrafficShift(utilization=utilization):
                full = utilization * LINE_BPS / 8 * seconds
                for metric, per_byte in (_TX if sends else _RX).items():
                    column = index_of(metric)
                    growth[column, row] = (1 - part) * growth[column, row] + full * per_byte
            case BitErrors(ber=ber, lane=lane):
                errors = ber * part * growth[index_of(Metric.RX_BITS), row]
                growth[index_of(Metric.FEC_CORRECTED_BITS), row] += errors
                own.counters[Metric.LANE_RAW_ERRORS, lane or 0][row] += np.uint64(errors)
            case CounterIncrement(metric=metric, index=index):
                base = growth[index_of(effect.of_metric), row] if effect.of_metric is not None else 0.0
                amount = effect.growth(seconds, part * base)
                if (metric, index) in own.counters:
                    own.counters[metric, index][row] += np.uint64(amount)
                else:
                    growth[index_of(metric), row] += amount
            case _:
                pass


_TX = {Metric.TX_BYTES: 1.0, Metric.TX_PACKETS: 1 / 4096}
_RX = {Metric.RX_BYTES: 1.0, Metric.RX_PACKETS: 1 / 4096}


def _gauge(metric: Metric) -> int:
    return GAUGES.index(metric)


def _overlap(interval: Interval, from_ns: int, until_ns: int) -> int:
    return max(0, min(interval.end_ns, until_ns) - max(interval.start_ns, from_ns))
