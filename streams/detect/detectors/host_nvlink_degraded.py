"""host/nvlink-degraded: detects a GPU that lost NVLinks, or whose NVLinks train again or have errors after FEC.

Opens when that has lasted for `open_after_s`, or repeats within `clear_s`, and closes once the links have been healthy
for `clear_s`. `measure` compares the active links with the GPU's full set, reads the health of the NVLink fabric, and
waits for five minutes after a restart of the host. A fault that the driver reports of the same GPU is host/gpu-fault,
which is its parent; a slow rail of the host is its child. A rail that is lost within a minute of it has the same cause,
the board or its power, and is its parent, because the rail has a repair.
"""

from typing import ClassVar

import numpy as np

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.spells import PartSpells, PartStatement
from streams.detect.fabric_side import (
    CapacityEffect,
    Cases,
    FabricSide,
    are_concurrent,
    board_keys,
    device_at,
    under_a_job,
)
from streams.detect.measure.monitors.gpu_monitor import HIDDEN_IN, GpuMonitor, gauge, largest
from streams.detect.measure.monitors.level_monitor import Levels, level_key
from streams.detect.measure.storage.column_store import Column, ColumnMapping
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Cause, Condition, Finding, RowKind, Symptom
from streams.wire.symptoms import CounterGrowth, LevelState, SymptomKind

_MAX_LINKS = 36
"""NVML_NVLINK_MAX_LINKS."""
_REGISTERED = 3
"""GPU_FABRIC_STATE of a GPU that the fabric manager has registered: all of its links lead to switches."""
_UP = (Metric.NVLINK_LINKS_UP, NO_INDEX)
_FAULTS = (
    "its bandwidth is degraded", "its routes are being recovered", "its route is unhealthy",
    "accesses to other GPUs timed out",
)  # fmt: skip
"""The kinds of GPU_FABRIC_FAULTS that cost bandwidth; the others concern its configuration."""
_ERRORS_PER_S = 0.4
"""Errors after FEC: the limit of 1e-12 of InfiniBand links at the 400 Gb/s of a link of NVLink 5. A healthy link has
some in hours (1e-15 is one in 42 minutes)."""


class NvlinkParams(Thresholds):
    """`[detect.nvlink]`: how long NVLinks are degraded, or healthy, before it counts."""

    open_after_s: ClassVar[float] = 60
    """Six readings; a single recovery, or one burst of errors, is repaired by the link itself."""
    clear_s: ClassVar[float] = 600
    """The burst preset of flaps (DETECTION 3): recoveries that are closer than 10 minutes belong together."""


class NvlinkMonitor(GpuMonitor):
    """Tracks the GPUs with fewer links than their full set, or whose fabric has a fault, and counts errors of links."""

    name = "nvlink"
    columns: ClassVar = {
        RowKind.ROW_KIND_GPU: (_UP, *((Metric.GPU_FABRIC_FAULTS, kind) for kind in range(len(_FAULTS))))
    }
    below: ClassVar = frozenset({_UP})
    rates: ClassVar = {
        **{(Metric.NVLINK_RECOVERIES, link): 0 for link in range(_MAX_LINKS)},
        **{(Metric.NVLINK_EFFECTIVE_ERRORS, link): _ERRORS_PER_S for link in range(_MAX_LINKS)},
    }

    def __init__(self, params: NvlinkParams) -> None:
        super().__init__(params, {(Metric.GPU_FABRIC_FAULTS, kind): 1.0 for kind in range(len(_FAULTS))})

    def limits(self, column: Column, mapping: ColumnMapping, values: Levels) -> Levels:
        """Return the full set of links: all that a registered GPU has, else the most of the host's GPUs."""
        levels = values[:, mapping.position_of[column]]
        is_registered = gauge(mapping, values, Metric.GPU_FABRIC_STATE) == _REGISTERED
        own = np.where(is_registered, gauge(mapping, values, Metric.NVLINK_LINKS), np.nan)
        return np.fmax(own, largest(levels))


def _rank(symptom: Symptom) -> float:
    """Return the order of symptoms in which the first is stated: lost links, the fabric, recoveries, errors."""
    order = (Metric.NVLINK_LINKS_UP, Metric.GPU_FABRIC_FAULTS, Metric.NVLINK_RECOVERIES, Metric.NVLINK_EFFECTIVE_ERRORS)
    return float(order.index(Metric(level_key(symptom)[0])))


def _describe(worst: Symptom, name: str) -> PartStatement:
    match worst.payload:
        case LevelState(metric=Metric.NVLINK_LINKS_UP, level=level, limit=limit):
            active = "fewer" if level is None else f"{level:.0f}"
            text = f"{active} of {limit:.0f} NVLinks are active"
            observed, expected = level, limit
        case LevelState(index=kind):
            text = f"the NVLink fabric reports that {_FAULTS[kind or 0]}"
            observed, expected = 1.0, 0.0
        case CounterGrowth(counter=counter, growth=growth, index=link):
            is_error = counter is Metric.NVLINK_EFFECTIVE_ERRORS
            text = f"NVLink {link} " + ("has errors after FEC" if is_error else "repeatedly trains again")
            observed, expected = float(growth), 0.0
        case _:
            raise TypeError(worst.payload)
    metric = Metric(level_key(worst)[0]).name.lower()
    return PartStatement(f"GPU {name}: {text}", Cause.NVLINK, f"{name}: {text}", metric, observed, expected)


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the driver's fault of the same GPU as its parent."""
    at_host = cases.findings_at(device_at(finding.subject))
    faults = (
        one for one in at_host if one.condition is Condition.HOST_GPU_FAULT and one.subject.a == finding.subject.a
    )
    return finding, next((one for one in faults if are_concurrent(one, finding)), None)


_SPELLS: PartSpells[NvlinkParams] = PartSpells(
    begin=SymptomKind.NVLINK_DEGRADED,
    end=SymptomKind.NVLINK_RESTORED,
    moment=SymptomKind.NVLINK_ERRORS_COUNTED,
    role="nvlink",
    describe=_describe,
    rank=_rank,
    key=level_key,
)

DETECTOR = Detector(
    Condition.HOST_NVLINK_DEGRADED,
    version="1",
    opens_when="a GPU has fewer NVLinks than its full set, or they repeatedly train again or have errors after FEC",
    params=NvlinkParams,
    section="nvlink",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.HOST,
    lemon=FaultOf.HOST,
    hidden_in=HIDDEN_IN,
    fabric=FabricSide(
        capacity=CapacityEffect.NONE,
        ends_with_parent=True,
        ends_after_ns=ns(NvlinkParams.clear_s),
        group_keys=board_keys,
        explain=_explain,
        is_critical=under_a_job,
    ),
    pod=_SPELLS.pod_side(),
    monitor=NvlinkMonitor,
)
