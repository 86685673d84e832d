"""Finds GPUs and modules of hosts that are at their temperature limit, unlike those beside them."""

from streams.detect.detectors.host_thermal_throttle.params import ThermalParams
from streams.detect.measure.monitors.level_monitor import LevelLimit, LevelMonitor
from streams.fabric.catalogue import Metric
from streams.wire.models import RowKind


def thermal_monitor(params: ThermalParams) -> LevelMonitor:
    """Return the monitor of both temperatures; the modules of switches are not compared."""
    limits = (
        LevelLimit(RowKind.ROW_KIND_GPU, Metric.GPU_TEMPERATURE_C, params.gpu_limit_c, params.peer_margin_c),
        LevelLimit(RowKind.ROW_KIND_PORT, Metric.MODULE_TEMPERATURE_C, params.module_limit_c, params.peer_margin_c),
    )
    return LevelMonitor("thermal", limits, "host")
