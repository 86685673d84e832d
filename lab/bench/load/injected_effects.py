"""Reads the devices whose ports have effects of faults from a world, and the Facts that faults change.

The messages of these devices are encoded from their readings, all others from templates (encoding.py). Times are
nanoseconds since the start of the load.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lab.bench.load.group import GAUGES, Group
from lab.world.columns import LANES, LINE_BPS, Column
from lab.world.demo_world import DemoWorld
from lab.world.effects import BitErrors, CounterIncrement, GaugeOverride, TrafficReduction, TrafficShift
from lab.world.fabric_arrays import FabricArrays
from lab.world.facts_source import FactsSource
from lab.world.ground_truth import InjectedFault
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Facts, RowKind, Samples, Table

USUAL_GAUGES = {
    Metric.SPEED_BPS: LINE_BPS, Metric.MODULE_TEMPERATURE_C: 48.0, Metric.RX_POWER_DBM: -1.2, Metric.TX_POWER_DBM: 0.8,
    Metric.BIAS_MA: 7.0, Metric.PRE_FEC_BER: 1e-9, Metric.PCIE_WIDTH_LANES: 16.0, Metric.PCIE_SPEED_GTPS: 32.0,
    Metric.PCIE_WIDTH_MAX_LANES: 16.0, Metric.PCIE_SPEED_MAX_GTPS: 32.0, Metric.BFD_SESSION_UP: 1.0,
    Metric.CREDITS_USED: 0.0, Metric.PFC_WATCHDOG_STORMED: 0.0,
}  # fmt: skip
"""The readings of gauges of a healthy port."""


def read(
    world: DemoWorld, device: str, ports: Sequence[str], counters: Sequence[Column], gauges: Sequence[Metric],
    at_ns: int,
) -> tuple[Table, Table]:  # fmt: skip
    """Return these counters and gauges of some ports of a device; counters are computed only if any are read."""
    states = [world.port(device, name, at_ns) for name in ports] if counters else []
    counted = np.array([[state.counter(*column) for state in states] for column in counters], np.uint64)
    ends = [Port(device, name) for name in ports]
    values = np.array([[_gauge(world, end, metric, at_ns) for end in ends] for metric in gauges], np.float64)
    return (
        Table(
            tuple(metric for metric, _ in counters), tuple(index for _, index in counters),
            counted.reshape(len(counters), len(ports)),
        ),
        Table(tuple(gauges), (NO_INDEX,) * len(gauges), values.reshape(len(gauges), len(ports))),
    )  # fmt: skip


def _gauge(world: DemoWorld, port: Port, metric: Metric, at_ns: int) -> float:
    match metric:
        case Metric.OPER_UP:
            return float(world.is_up(port, at_ns))
        case Metric.ADMIN_UP:
            return float(world.is_enabled(port, at_ns))
        case _:
            return world.gauge(port, metric, at_ns, USUAL_GAUGES[metric])


_PCIE_MAX = {Metric.PCIE_WIDTH_LANES: Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_GTPS: Metric.PCIE_SPEED_MAX_GTPS}


class InjectedEffects:
    """The readings of the affected devices, and the Facts that swapped cables and changed versions cause."""

    def __init__(self, fabric: FabricArrays, inventory: Inventory, faults: Sequence[InjectedFault]) -> None:
        self._fabric = fabric
        self._columns: dict[int, dict[Column, None]] = defaultdict(dict)
        """The columns that effects add to the readings of each affected device."""
        effects = [effect for fault in faults for effect in fault.effects]
        for effect in effects:
            match effect:
                case TrafficReduction(link=link) | TrafficShift(link=link):
                    for port in fabric.links[link].tolist():
                        self._add(port)
                case CounterIncrement(port=port, metric=metric, index=index):
                    self._add(port, (metric, index))
                case BitErrors(port=port):
                    self._add(port, *((Metric.LANE_RAW_ERRORS, lane) for lane in range(LANES)))
                case GaugeOverride(port=port, metric=metric):
                    own = (metric, _PCIE_MAX[metric]) if metric in _PCIE_MAX else (metric,)
                    self._add(port, *((each, NO_INDEX) for each in own))
                case _:
                    pass
        self._world = DemoWorld(inventory, faults, 1, 0)
        self._facts = FactsSource(fabric, Topology(inventory), effects)
        self._facts_due = self._facts.polled_ns()

    def _add(self, port: int, *columns: Column) -> None:
        self._columns[self._fabric.device_of(port)].update(dict.fromkeys(columns))

    def __contains__(self, device: int) -> bool:
        return device in self._columns

    def facts_due(self, until_ns: int, now_ns: int) -> Iterator[tuple[int, Facts]]:
        """Yield (device, facts) of the polls that are due by a time; the facts have the time `now_ns`."""
        while self._facts_due and self._facts_due[0][0] <= until_ns:
            at_ns, device = self._facts_due.pop(0)
            yield device, replace(self._facts.facts(device, at_ns), observed_at_ns=now_ns)

    def samples(self, device: int, group: Group, position: int, at_ns: int, sequence: int, now_ns: int) -> Samples:
        """Return the message of an affected device: the columns of its group, and those that effects add."""
        columns = dict.fromkeys((metric, NO_INDEX) for metric in (*group.metrics, *GAUGES)) | self._columns[device]
        rows, reader = group.rows[position], group.reader
        counters, gauges = read(
            self._world, group.names[position], rows, [column for column in columns if column[0].counter],
            [metric for metric, _ in columns if not metric.counter], at_ns,
        )  # fmt: skip
        return Samples(
            group.names[position], reader.source, reader.collector, reader.run, sequence, now_ns, now_ns,
            group.boot_id[position], RowKind.ROW_KIND_PORT, rows, group.digests[rows], counters, gauges,
        )  # fmt: skip
