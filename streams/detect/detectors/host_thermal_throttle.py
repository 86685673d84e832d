"""host/thermal-throttle: detects a GPU or module at its temperature limit while its peers on the host are cool.

Opens when that has lasted for `open_after_s`, and closes once the part has been cool for `clear_s`. `measure` finds the
hot parts; it omits a host on which all are hot, because the room or the fans are the cause. A slow rail at the same
port is rail/degraded, whose parent this finding is.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.spells import PartSpells, PartStatement
from streams.detect.fabric_side import CapacityEffect, FabricSide, under_a_job
from streams.detect.measure.monitors.level_monitor import LevelMonitor, Levels, Mask
from streams.detect.thresholds import Thresholds
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Cause, Condition, RowKind, Symptom
from streams.wire.symptoms import LevelState, SymptomKind

_GPU, _MODULE = (Metric.GPU_TEMPERATURE_C, NO_INDEX), (Metric.MODULE_TEMPERATURE_C, NO_INDEX)
_MIN_ROWS = 3
"""A row needs at least two peers: a single peer is no evidence of the usual level."""


class ThermalParams(Thresholds):
    """`[detect.thermal]`: the temperatures at which a GPU or a module is too hot, and for how long it counts."""

    gpu_limit_c: float = Field(default=85.0, gt=0)
    """Maximum operating temperature of data center GPUs by `nvidia-smi -q -d TEMPERATURE` (A100: 85 °C, H100: 87)."""
    module_limit_c: float = Field(default=80.0, gt=0)
    """Above the high alarm of 75 °C of modules for a case of up to 70 °C; 70 °C alone is usual under load."""
    peer_margin_c: ClassVar[float] = 10.0
    """Above the median of the host's own GPUs or modules: all hot is the room or the fans (DETECTION 3: +10 °C)."""
    open_after_s: ClassVar[float] = 60
    """Six readings: a GPU reaches its limit for some seconds when a job starts, until its clock is reduced."""
    clear_s: ClassVar[float] = 120
    """Closes when cool for this long; a part that alternately throttles and recovers is one finding."""


class ThermalMonitor(LevelMonitor):
    """Tracks the GPUs and modules that are at their limit, unlike their peers on the host."""

    name = "thermal"
    columns: ClassVar = {
        RowKind.ROW_KIND_GPU: (_GPU,),
        RowKind.ROW_KIND_PORT: (_MODULE,),
    }

    def __init__(self, params: ThermalParams) -> None:
        super().__init__(params, {_GPU: params.gpu_limit_c, _MODULE: params.module_limit_c})
        self._margin_c = params.peer_margin_c

    def confirm(self, levels: Levels, beyond: Mask) -> Mask:
        """Return the hot cells that are above the median of their message by the margin."""
        unlike = np.zeros_like(beyond)
        for number in np.flatnonzero(beyond.any(axis=1)).tolist():
            known = levels[number][~np.isnan(levels[number])]
            if len(known) >= _MIN_ROWS:
                unlike[number] = beyond[number] & (levels[number] >= np.median(known) + self._margin_c)
        return unlike


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
    describe=_describe,
)

DETECTOR = Detector(
    Condition.HOST_THERMAL_THROTTLE,
    version="1",
    opens_when="a GPU or module at its temperature limit for a minute while its peers on the host are cool",
    params=ThermalParams,
    section="thermal",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.HOST,
    lemon=FaultOf.HOST,
    hidden_in={},
    fabric=FabricSide(link_fault_rank=4, capacity=CapacityEffect.NONE, is_critical=under_a_job),
    pod=_SPELLS.pod_side(),
    monitor=ThermalMonitor,
)
