"""host/power-capped: detects a GPU that may take less power than it should, or whose power brake is on.

Opens when that has lasted for `open_after_s`, or repeats within `clear_s`, and closes once the GPU has its power back
for `clear_s`. `measure` compares the limit in force with the configured one and with those of the host's other GPUs; a
limit that is configured for all of them is no fault. Its effect is a slow host or rail, whose parent this finding is.
"""

from typing import ClassVar

import numpy as np

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.spells import PartSpells, PartStatement
from streams.detect.fabric_side import CapacityEffect, FabricSide, under_a_job
from streams.detect.measure.monitors.gpu_monitor import HIDDEN_IN, GpuMonitor, gauge
from streams.detect.measure.monitors.level_monitor import Levels, level_key
from streams.detect.measure.storage.column_store import Column, ColumnMapping
from streams.detect.thresholds import Thresholds
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Cause, Condition, RowKind, Symptom
from streams.wire.symptoms import LevelState, SymptomKind

_LIMIT = (Metric.GPU_POWER_LIMIT_W, NO_INDEX)
_BRAKE = 3
"""The index of the power brake in GPU_CLOCK_LIMITED_NS: a signal of the power supply or the rack (nvml.h)."""
_MARGIN = 0.95
"""Limits of equal GPUs differ by some watts (choice)."""
_BRAKE_NS_PER_S = 1e7
"""1 % of the time: the brake halves the clocks or more, and is never on in a healthy host (choice)."""


class PowerParams(Thresholds):
    """`[detect.power]`: how long a GPU is limited, or is not, before it counts."""

    open_after_s: ClassVar[float] = 60
    """Six readings: a brake of some seconds rides through a swap of supplies."""
    clear_s: ClassVar[float] = 120
    """As host/thermal-throttle: a GPU that is limited repeatedly is one finding."""


class PowerMonitor(GpuMonitor):
    """Tracks the GPUs whose limit in force is low, and counts the time of the power brake."""

    name = "power"
    columns: ClassVar = {RowKind.ROW_KIND_GPU: (_LIMIT,)}
    below: ClassVar = frozenset({_LIMIT})
    rates: ClassVar = {(Metric.GPU_CLOCK_LIMITED_NS, _BRAKE): _BRAKE_NS_PER_S}

    def limits(self, column: Column, mapping: ColumnMapping, values: Levels) -> Levels:
        """Return the configured limits, or the usual limit of the host's GPUs where it is higher."""
        levels, usual = values[:, mapping.position_of[column]], np.full((len(values), 1), np.nan)
        for number in np.flatnonzero(~np.isnan(levels).all(axis=1)).tolist():
            usual[number] = np.nanmedian(levels[number])
        limits: Levels = _MARGIN * np.fmax(gauge(mapping, values, Metric.GPU_POWER_LIMIT_SET_W), usual)
        return limits


def _describe(worst: Symptom, name: str) -> PartStatement:
    state = worst.payload
    if isinstance(state, LevelState):
        low = "to less power" if state.level is None else f"to {state.level:.0f} W"
        text = f"is limited {low}, of {state.limit / _MARGIN:.0f} W"
        return PartStatement(
            f"GPU {name} {text}", Cause.POWER, f"{name} {text}", "gpu_power_limit_w", state.level, state.limit
        )
    text = "is slowed down by its power brake"
    return PartStatement(f"GPU {name} {text}", Cause.POWER, f"{name} {text}", "gpu_clock_limited_ns", None, None)


_SPELLS: PartSpells[PowerParams] = PartSpells(
    begin=SymptomKind.POWER_CAPPED,
    end=SymptomKind.POWER_RESTORED,
    moment=SymptomKind.POWER_BRAKE_COUNTED,
    is_share=True,
    role="power",
    describe=_describe,
    rank=lambda symptom: float(not isinstance(symptom.payload, LevelState)),
    key=level_key,
)

DETECTOR = Detector(
    Condition.HOST_POWER_CAPPED,
    version="1",
    opens_when="a GPU is limited to less power than configured or than its peers, or its power brake is on",
    params=PowerParams,
    section="power",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.HOST,
    lemon=FaultOf.HOST,
    hidden_in=HIDDEN_IN,
    fabric=FabricSide(capacity=CapacityEffect.NONE, is_critical=under_a_job),
    pod=_SPELLS.pod_side(),
    monitor=PowerMonitor,
)
