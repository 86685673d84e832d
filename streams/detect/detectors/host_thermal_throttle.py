"""host/thermal-throttle: detects a GPU or module at its temperature limit while its peers on the host are cool.

Opens when that has lasted for `open_after_s`, and closes once the part has been cool for `clear_s`. `measure` finds the
hot parts; it omits a host on which all are hot, because the room or the fans are the cause. A slow rail at the same
port is rail/degraded, whose parent this finding is.
"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.spells import PartSpells, PartStatement
from streams.detect.fabric_side import CapacityEffect, FabricSide, under_a_job
from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.monitors.transitions import port_symptom, record_transition, split_transitions
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch
from streams.detect.thresholds import Thresholds
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Cause, Condition, RowKind, Samples, Symptom
from streams.wire.symptoms import LevelState, SymptomKind

_MIN_ROWS = 3
"""A row needs at least two peers: a single peer is no evidence of the usual level."""

Levels = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Place = tuple[int, int, str]
"""Source, metric, row."""


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


class ThermalMonitor(Monitor):
    """Tracks the rows beyond their limit, by device and place; does not compare modules of switches.

    Whole messages are compared as arrays. A late reading divides the transition around it, as in transitions.py; its
    own message alone shows whether it is beyond the limit.
    """

    name = "thermal"

    def __init__(self, params: ThermalParams) -> None:
        self._margin_c = params.peer_margin_c
        self._limits = {
            RowKind.ROW_KIND_GPU: (Metric.GPU_TEMPERATURE_C, params.gpu_limit_c),
            RowKind.ROW_KIND_PORT: (Metric.MODULE_TEMPERATURE_C, params.module_limit_c),
        }
        self._beyond: dict[str, set[Place]] = {}

    def is_relevant(self, batch: MessageBatch) -> bool:
        limit = self._limits.get(batch.row_kind)
        return limit is not None and (limit[0], NO_INDEX) in batch.gauges.mapping.position_of

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        metric, limit = self._limits[batch.row_kind]
        position = batch.gauges.mapping.position_of[metric, NO_INDEX]
        levels = batch.gauges.values[:, position]
        hot = levels >= limit
        if not (self._beyond or np.count_nonzero(hot)):
            return
        beyond = self._unlike_peers(levels, hot)
        for number, message in enumerate(batch.messages):
            samples = message.samples
            known = self._beyond.get(samples.device, set())
            if not known and not (beyond[number].any() and self._is_compared(samples, topology)):
                continue
            for row in np.flatnonzero(~np.isnan(levels[number])).tolist():
                place, is_beyond = _place(samples, metric, row), bool(beyond[number, row])
                if is_beyond == (place in known):
                    continue
                self._set(samples.device, place, is_beyond=is_beyond)
                step = record_transition(batch, batch.gauges, position, (number, row), (not is_beyond, is_beyond))
                peers = float(np.nanmedian(levels[number]))
                payload = LevelState(metric, is_beyond, limit, float(levels[number, row]), peers)
                yield message.number, port_symptom(samples, topology, row, payload, step)

    def _is_compared(self, samples: Samples, topology: Topology) -> bool:
        device = topology.devices.get(samples.device)
        return device is not None and device.kind == "host"

    def _set(self, device: str, place: Place, *, is_beyond: bool) -> None:
        own = self._beyond.setdefault(device, set())
        if is_beyond:
            own.add(place)
        else:
            own.discard(place)
        if not own:
            del self._beyond[device]

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        message = late.message
        samples, store = message.samples, message.slot.block.gauges
        mapping = store.mapping(samples.gauges)
        metric, limit = self._limits.get(samples.row_kind, (None, 0.0))
        if mapping is None or metric is None or (metric, NO_INDEX) not in mapping.position_of:
            return
        if not self._is_compared(samples, topology):
            return
        position = mapping.position_of[metric, NO_INDEX]
        levels = samples.gauges.values[position][None]
        beyond = self._unlike_peers(levels, levels >= limit)[0]
        for row in np.flatnonzero(~np.isnan(levels[0])).tolist():
            peers = float(np.nanmedian(levels))
            own = LevelState(metric, bool(beyond[row]), limit, float(levels[0, row]), peers)
            yield from self._divide(late, topology, (row, int(mapping.columns[position])), own)

    def _divide(
        self, late: LateMessage, topology: Topology, cell: tuple[int, int], own: LevelState
    ) -> Iterator[NumberedSymptom]:
        """Yield the symptoms of a late reading of one cell (row, stored column); `own` is the state that it shows."""
        row, column = cell
        message, samples = late.message, late.message.samples
        key = (own.metric, NO_INDEX), samples.row[row]
        newest = _place(samples, own.metric, row) in self._beyond.get(samples.device, ())
        if not (own.is_beyond or newest or key in message.slot.history.transitions):
            return
        if message.at_ns >= message.slot.block.gauges.time(message.slot.index, column, int(late.rows[row])):
            return
        for step in split_transitions(late, key, row, own.is_beyond, newest):
            if step.since_ns or step.after:
                is_own = step.at_ns == message.at_ns
                payload = own if is_own else LevelState(own.metric, bool(step.after), own.limit)
                yield message.number, port_symptom(samples, topology, row, payload, step)

    def dump(self) -> list[list[Any]]:
        return [[device, *place] for device, own in sorted(self._beyond.items()) for place in sorted(own)]

    def load(self, data: Iterable[list[Any]]) -> None:
        self._beyond = {}
        for device, source, metric, row in data:
            self._beyond.setdefault(device, set()).add((source, metric, row))

    def _unlike_peers(self, levels: Levels, hot: Mask) -> Mask:
        """Return the hot cells, shape (messages, rows), that are above the median of their message by the margin."""
        unlike = np.zeros_like(hot)
        for number in np.flatnonzero(hot.any(axis=1)).tolist():
            known = levels[number][~np.isnan(levels[number])]
            if len(known) >= _MIN_ROWS:
                unlike[number] = hot[number] & (levels[number] >= np.median(known) + self._margin_c)
        return unlike


def _place(samples: Samples, metric: Metric, row: int) -> Place:
    return int(samples.source), int(metric), samples.row[row]


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
