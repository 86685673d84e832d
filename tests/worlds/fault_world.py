"""The readings of a fabric of five hosts with one fault of the laboratory's list, for the labelled case of a detector.

It has what ports count and read, and devices that do not answer or boot; a fault that shows elsewhere (facts, events,
probes, GPUs) needs a world of its own.
"""

import numpy as np

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import CounterIncrement, GaugeOverride, Interval
from lab.world.fabric_arrays import fabric_arrays
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import Fault
from lab.world.traffic import SteadyTraffic
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Samples, Source
from tests.worlds.observations import Cells, at, samples
from tests.worlds.small_world import SmallWorld

INVENTORY = demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0))
FRAME_BYTES = 4096
WITHIN = Interval(at(100), at(400))
"""A fault that is longer begins at once."""
USUAL = {
    Metric.SPEED_BPS: 400e9, Metric.MODULE_TEMPERATURE_C: 48.0, Metric.RX_POWER_DBM: -1.2, Metric.TX_POWER_DBM: 0.8,
    Metric.BIAS_MA: 7.0, Metric.PRE_FEC_BER: 1e-9, Metric.PCIE_WIDTH_LANES: 16.0, Metric.PCIE_SPEED_GTPS: 32.0,
}  # fmt: skip
"""The readings of gauges of a healthy port."""
READ = (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS, Metric.RX_FCS_ERRORS)
"""Counters that are read of every port; others where the fault changes them."""


class FaultWorld(SmallWorld):
    """The fabric as a DemoWorld has it, with one fault that `Fault.inject` places, and its truth."""

    def __init__(self, fault: Fault, seed: int = 3) -> None:
        super().__init__(topology=Topology(INVENTORY))
        fabric = fabric_arrays(INVENTORY)
        placer = FaultPlacer(INVENTORY, fabric, SteadyTraffic(), np.random.default_rng(seed))
        injected = fault.inject(placer, WITHIN)
        self.truth = injected.truths[0]
        self._demo = DemoWorld(INVENTORY, [injected], seed, at(0))
        increments = {(one.metric, one.index) for one in injected.effects if isinstance(one, CounterIncrement)}
        self._counters = sorted({(metric, NO_INDEX) for metric in READ} | increments)
        self._gauges = sorted({one.metric for one in injected.effects if isinstance(one, GaugeOverride)})

    def is_silent(self, device: str, t: float) -> bool:
        """Return whether a device does not answer."""
        return any(interval.contains(at(t)) for interval in self._demo.unreachable(device))

    def _reading(self, device: str, t: float, source: Source) -> Samples:
        now_ns, names = at(t), self._demo.ports[device]
        ports = {name: self._demo.port(device, name, now_ns) for name in names}
        packets = {Metric.RX_PACKETS: Metric.RX_BYTES, Metric.TX_PACKETS: Metric.TX_BYTES}
        cells: Cells = {
            (Metric.OPER_UP, NO_INDEX): {name: float(port.oper_up) for name, port in ports.items()},
            (Metric.ADMIN_UP, NO_INDEX): {name: float(port.admin_up) for name, port in ports.items()},
        }
        for metric, index in self._counters:
            of, per = (packets[metric], FRAME_BYTES) if metric in packets else (metric, 1)
            cells[metric, index] = {name: float(port.counter(of, index) // per) for name, port in ports.items()}
        for metric in self._gauges:
            cells[metric, NO_INDEX] = {
                name: self._demo.gauge(Port(device, name), metric, now_ns, USUAL[metric]) for name in names
            }
        boot_id = 1 + sum(interval.end_ns <= now_ns for interval in self._demo.reboots(device))
        return samples(device, t, {}, source=source, boot_id=boot_id, sequence=round(t), indexed=cells)
