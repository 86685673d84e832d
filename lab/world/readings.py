"""Reads ports of a DemoWorld as a collector does: tables of counters and gauges of one device at a moment."""

from collections.abc import Sequence

import numpy as np

from lab.world.columns import LINE_BPS, Column
from lab.world.demo_world import DemoWorld
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.wire.models import NO_INDEX, Table

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
