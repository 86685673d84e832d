"""Simulates the agent on each host: it polls PCIe links of ports and GPUs, and the load of the GPUs.

An idle GPU lowers its PCIe link to the slowest speed by itself.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lab.world.columns import GAUGES, HOST_GAUGES
from lab.world.effects import Effect, EmitEvent, GpuCounterIncrement, GpuGaugeOverride, Interval
from lab.world.fabric_arrays import rows_digest
from lab.world.world import World
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Event, EventKind, RowKind, Samples, Source, Table

GPUS_PER_HOST = 8
_PCI = tuple(f"0000:{bus:02x}:00.0" for bus in range(0x1B, 0x1B + 0x10 * GPUS_PER_HOST, 0x10))
_GAUGES = (
    Metric.GPU_UTILIZATION_RATIO, Metric.GPU_TEMPERATURE_C, Metric.PCIE_WIDTH_LANES, Metric.PCIE_SPEED_GTPS,
    Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_MAX_GTPS, Metric.NVLINK_LINKS, Metric.NVLINK_LINKS_UP,
    Metric.GPU_POWER_LIMIT_W, Metric.GPU_POWER_LIMIT_SET_W,
)  # fmt: skip
NVLINKS = 18
GPU_LIMIT_W = 700.0
_ALWAYS = (float(NVLINKS), float(NVLINKS), GPU_LIMIT_W, GPU_LIMIT_W)
_BUSY_GPU = (0.97, 68.0, 16.0, 32.0, 16.0, 32.0, *_ALWAYS)
_IDLE_GPU = (0.0, 34.0, 16.0, 2.5, 16.0, 32.0, *_ALWAYS)
"""Readings of the gauges above."""
POWER_BRAKE = 3
_COUNTERS = (
    (Metric.GPU_ECC_UNCORRECTED, NO_INDEX), (Metric.PCIE_REPLAYS, NO_INDEX),
    (Metric.GPU_CLOCK_LIMITED_NS, POWER_BRAKE),
    *((metric, link) for metric in (Metric.NVLINK_RECOVERIES, Metric.NVLINK_EFFECTIVE_ERRORS)
      for link in range(NVLINKS)),
)  # fmt: skip
_COUNTED, _INDEXES = tuple(metric for metric, _ in _COUNTERS), tuple(index for _, index in _COUNTERS)
_BUSY_LOAD = 0.01
"""The minimum share of the line rate that the rails of a host with a job carry."""


def collector_name(kind: str, host: str) -> str:
    """Return the default name of a collector on a host."""
    return f"{kind}@{host}"


def xid_event(host: str, pci: str, code: int, at_ns: int, sequence: int) -> EmitEvent:
    """Return the effect of an Xid of the driver, which the host's agent reads in its kernel log."""
    collector = collector_name("host", host)
    event = Event(host, pci, EventKind.GPU_XID, at_ns, at_ns, Source.SOURCE_HOST, collector, 1, sequence, code=code)
    return EmitEvent(Interval(at_ns, at_ns + 1), event)


def gpu_address(number: int) -> str:
    """Return the PCI address of a GPU, which the driver uses as its name."""
    return _PCI[number]


class HostAgents:
    """The agents of all hosts."""

    def __init__(self, world: World, effects: Sequence[Effect]) -> None:
        self._world = world
        self._overrides: dict[int, list[GpuGaugeOverride]] = defaultdict(list)
        self._increments: dict[int, list[GpuCounterIncrement]] = defaultdict(list)
        for effect in effects:
            if isinstance(effect, GpuGaugeOverride):
                self._overrides[effect.device].append(effect)
            elif isinstance(effect, GpuCounterIncrement):
                self._increments[effect.device].append(effect)
        self._sequence = 0
        self._gpu_digest = rows_digest(_PCI)
        self._zeros = np.zeros((len(_COUNTERS), GPUS_PER_HOST), np.uint64)

    def read(self, device: int, at_ns: int, skew_ns: int) -> Iterator[Samples]:
        """Yield one poll of a host: the PCIe links of its ports, then its GPUs."""
        world, fabric = self._world, self._world.fabric
        first, rows = int(fabric.first_port[device]), fabric.ports[device]
        ports = slice(first, first + len(rows))
        gauges = GAUGES[HOST_GAUGES]
        no_counters = Table((), (), np.empty((0, len(rows)), np.uint64))
        links = Table(gauges, (-1,) * len(gauges), world.gauges[HOST_GAUGES, ports].copy())
        yield self._samples(device, at_ns, skew_ns, RowKind.ROW_KIND_PORT, rows, no_counters, links)
        counters = Table(_COUNTED, _INDEXES, self._gpu_counters(device, at_ns))
        gpus = Table(_GAUGES, (-1,) * len(_GAUGES), self._gpu_gauges(device, at_ns))
        yield self._samples(device, at_ns, skew_ns, RowKind.ROW_KIND_GPU, _PCI, counters, gpus)

    def _gpu_counters(self, device: int, at_ns: int) -> npt.NDArray[np.uint64]:
        if not (increments := self._increments.get(device)):
            return self._zeros
        counters = self._zeros.copy()
        for effect in increments:
            counters[_COUNTERS.index((effect.metric, effect.index)), effect.gpu] += np.uint64(effect.count(at_ns))
        return counters

    def _gpu_gauges(self, device: int, at_ns: int) -> npt.NDArray[np.float64]:
        readings = _BUSY_GPU if self._world.host_load(device) > _BUSY_LOAD else _IDLE_GPU
        gauges = np.repeat(np.array(readings)[:, None], GPUS_PER_HOST, axis=1)
        for effect in self._overrides.get(device, ()):
            if effect.interval.contains(at_ns):
                gauges[_GAUGES.index(effect.metric), effect.gpu] = effect.value
        return gauges

    def _samples(
        self,
        device: int,
        at_ns: int,
        skew_ns: int,
        kind: RowKind,
        rows: tuple[str, ...],
        counters: Table,
        gauges: Table,
    ) -> Samples:
        self._sequence += 1
        host = self._world.fabric.devices[device]
        digest = self._gpu_digest if kind is RowKind.ROW_KIND_GPU else rows_digest(rows)
        return Samples(
            host, Source.SOURCE_HOST, collector_name("host", host), 1, self._sequence, at_ns + skew_ns, at_ns,
            self._world.boot_id[device], kind, rows, digest, counters, gauges,
        )  # fmt: skip
