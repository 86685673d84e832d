"""What the agent on each host reads besides its NIC: PCIe links of ports and GPUs, and how busy the GPUs are.

A GPU that idles lets its PCIe link fall to the slowest speed by itself.
"""

from collections.abc import Iterator

import numpy as np

from streams.fabric.catalogue import Metric
from streams.simulation.columns import GAUGES, HOST_GAUGES
from streams.simulation.effects import EmitEvent, Interval
from streams.simulation.fabric_arrays import rows_digest
from streams.simulation.world import World
from streams.wire.models import Event, EventKind, RowKind, Samples, Source, Table

GPUS_PER_HOST = 8
_PCI = tuple(f"0000:{bus:02x}:00.0" for bus in range(0x1B, 0x1B + 0x10 * GPUS_PER_HOST, 0x10))
_GAUGES = (
    Metric.GPU_UTILIZATION_RATIO, Metric.GPU_TEMPERATURE_C, Metric.PCIE_WIDTH_LANES, Metric.PCIE_SPEED_GTPS,
    Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_MAX_GTPS,
)  # fmt: skip
_COUNTERS = (Metric.GPU_ECC_UNCORRECTED, Metric.PCIE_REPLAYS)
_BUSY = 0.01
"""Of its line that a host's rails carry when a job runs on it."""


def collector_name(kind: str, host: str) -> str:
    """What a collector on a host is called, where nobody gave it another name."""
    return f"{kind}@{host}"


def xid_event(host: str, pci: str, code: int, at_ns: int, sequence: int) -> EmitEvent:
    """An Xid of the driver, which the host's agent reads in its kernel log."""
    agent = collector_name("host", host)
    event = Event(host, pci, EventKind.GPU_XID, at_ns, at_ns, Source.SOURCE_HOST, agent, 1, sequence, code=code)
    return EmitEvent(Interval(at_ns, at_ns + 1), event)


def gpu_address(number: int) -> str:
    """By its PCI address, as the driver names it."""
    return _PCI[number]


class HostAgents:
    """The agents of all hosts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sequence = 0
        self._gpu_digest = rows_digest(_PCI)
        self._ecc = np.zeros((len(_COUNTERS), GPUS_PER_HOST), np.uint64)

    def read(self, device: int, at_ns: int, skew_ns: int) -> Iterator[Samples]:
        """One reading of a host: its ports' links, its GPUs."""
        world, plant = self._world, self._world.plant
        first, rows = int(world.first[device]), plant.ports[device]
        own = slice(first, first + len(rows))
        gauges = GAUGES[HOST_GAUGES]
        no_counters = Table((), (), np.empty((0, len(rows)), np.uint64))
        ports = Table(gauges, (-1,) * len(gauges), world.gauges[HOST_GAUGES, own].copy())
        yield self._samples(device, at_ns, skew_ns, RowKind.ROW_KIND_PORT, rows, no_counters, ports)
        counted = Table(_COUNTERS, (-1,) * len(_COUNTERS), self._ecc)
        read = Table(_GAUGES, (-1,) * len(_GAUGES), self._gpus(device))
        yield self._samples(device, at_ns, skew_ns, RowKind.ROW_KIND_GPU, _PCI, counted, read)

    def _gpus(self, device: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        busy = self._world.host_load(device) > _BUSY
        return np.repeat(
            np.array(
                [[0.97 if busy else 0.0], [68.0 if busy else 34.0], [16.0], [32.0 if busy else 2.5], [16.0], [32.0]]
            ),
            GPUS_PER_HOST,
            axis=1,
        )

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
        host = self._world.plant.devices[device]
        digest = self._gpu_digest if kind is RowKind.ROW_KIND_GPU else rows_digest(rows)
        return Samples(
            host, Source.SOURCE_HOST, collector_name("host", host), 1, self._sequence, at_ns + skew_ns, at_ns,
            self._world.boot_id[device], kind, rows, digest, counters, gauges,
        )  # fmt: skip
