"""host/thermal-throttle: a GPU or module of a host is at its temperature limit while its peers on the host are cool.

Opens when that has lasted for `open_after_s`, and closes once the part has been cool for `clear_s`. `measure` decides
which parts are hot; a host on which all are hot is left out, since its cause is the room or the fans. A rail that is
slow at the same port is rail/degraded, of which this is the parent.
"""

from typing import ClassVar

from pydantic import Field

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.spells import PartSpells, PartStatement
from streams.detect.fabric_side import CapacityEffect, FabricSide, under_a_job
from streams.detect.measure.monitors.level_monitor import LevelLimit, LevelMonitor
from streams.detect.measure.monitors.monitor import MonitorSpec
from streams.detect.thresholds import Thresholds
from streams.fabric.catalogue import Metric
from streams.wire.models import Cause, Condition, RowKind, Symptom
from streams.wire.symptoms import LevelState, SymptomKind


class ThermalParams(Thresholds):
    """`[detect.thermal]`: the temperatures at which a GPU or a module is too hot, and for how long it counts."""

    gpu_limit_c: float = Field(default=85.0, gt=0)
    """Maximum operating temperature of data center GPUs by `nvidia-smi -q -d TEMPERATURE` (A100: 85 °C, H100: 87)."""
    module_limit_c: float = Field(default=80.0, gt=0)
    """Above the high alarm of 75 °C that modules for a case of up to 70 °C have; 70 °C alone is usual under load."""
    peer_margin_c: ClassVar[float] = 10.0
    """Above the median of the host's own GPUs or modules: all hot is the room or the fans (DETECTION 3: +10 °C)."""
    open_after_s: ClassVar[float] = 60
    """Six readings: a GPU touches its limit for some seconds when a job starts, until its clock falls."""
    clear_s: ClassVar[float] = 120
    """Cool for this long; a part that throttles and recovers in turn is one finding."""


def thermal_monitor(params: ThermalParams) -> LevelMonitor:
    """Return the monitor of both temperatures; the modules of switches are not compared."""
    limits = (
        LevelLimit(RowKind.ROW_KIND_GPU, Metric.GPU_TEMPERATURE_C, params.gpu_limit_c, params.peer_margin_c),
        LevelLimit(RowKind.ROW_KIND_PORT, Metric.MODULE_TEMPERATURE_C, params.module_limit_c, params.peer_margin_c),
    )
    return LevelMonitor("thermal", limits, "host")


def _describe(worst: Symptom, name: str) -> PartStatement:
    state = worst.payload
    assert isinstance(state, LevelState)
    is_gpu = state.metric is Metric.GPU_TEMPERATURE_C
    if state.level is None or state.peer_level is None:
        statement = f"{name} was above {state.limit:g} °C, unlike its peers on the host"
    else:
        statement = f"{name} reached {state.level:.0f} °C, its peers on the host {state.peer_level:.0f} °C"
    return PartStatement(
        f"{'GPU' if is_gpu else 'the module of'} {name} is at its temperature limit of {state.limit:g} °C",
        Cause.GPU if is_gpu else Cause.OPTIC, statement, state.metric.name.lower(), state.level, state.limit,
    )  # fmt: skip


_SPELLS: PartSpells[ThermalParams] = PartSpells(
    begin=SymptomKind.LEVEL_BEYOND_LIMIT,
    end=SymptomKind.LEVEL_WITHIN_LIMIT,
    role="thermal",
    times=lambda params: (params.open_after_s, params.clear_s),
    describe=_describe,
    confidence=0.9,
)

DETECTOR = Detector(
    Condition.HOST_THERMAL_THROTTLE,
    version="1",
    params=ThermalParams,
    section="thermal",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.HOST,
    lemon=FaultOf.HOST,
    hidden_in={},
    fabric=FabricSide(link_fault_rank=4, capacity=CapacityEffect.NONE, is_critical=under_a_job),
    pod=_SPELLS.pod_side(),
    monitor=MonitorSpec(thermal_monitor),
)
