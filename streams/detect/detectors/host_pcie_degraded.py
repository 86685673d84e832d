"""host/pcie-degraded: detects a NIC or GPU whose PCIe link trained below the maximum of it and its slot.

Opens when the link has been degraded for `open_after_s`, unlike equal parts of its host, and closes once it has been
restored for `full_s`. `measure` finds the degraded links, and excludes idle GPUs. Its effect on the NIC is
rail/degraded, whose parent this finding is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.spells import PartSpells, PartStatement
from streams.detect.fabric_side import FabricSide, under_a_job
from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.monitors.transitions import record_transition, split_transitions
from streams.detect.measure.storage.column_store import Column, ColumnMapping
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch
from streams.detect.measure.storage.reading_history import Transition
from streams.detect.thresholds import Seconds, Thresholds
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Cause, Condition, RowKind, Samples, Symptom
from streams.wire.symptoms import Fault, PcieLink, PcieLinkState, SymptomKind


class PcieParams(Thresholds):
    """`[detect.pcie]`: how long a link is degraded, or restored, before it counts."""

    open_after_s: Seconds = 60
    """Six readings: a link that trains after a reset or a hot plug is degraded for some seconds."""
    full_s: ClassVar[float] = 60
    """Closes when restored for this long; a link that repeatedly trains down and up is one finding."""
    busy: ClassVar[float] = 0.5
    """Utilization of a busy GPU: by nvidia-smi's manual its link may be slower and narrower while it idles."""


WIDTH = (Metric.PCIE_WIDTH_LANES, NO_INDEX)
_COLUMNS = (
    WIDTH, (Metric.PCIE_SPEED_GTPS, NO_INDEX), (Metric.PCIE_WIDTH_MAX_LANES, NO_INDEX),
    (Metric.PCIE_SPEED_MAX_GTPS, NO_INDEX),
)  # fmt: skip
_BUSY = (Metric.GPU_UTILIZATION_RATIO, NO_INDEX)
_FULL = 0.99
"""Width and speed change in whole steps: a degraded link loses half or more of one of them."""
_WHOLE = 1000
"""The capacity of a full link, in the thousandths by which capacities are compared."""

Cells = npt.NDArray[np.float64]
Place = tuple[int, int, str]
"""Source, kind of row, row."""


class PcieMonitor(Monitor):
    """Tracks the degraded links by device and place, with their capacity in thousandths."""

    name = "pcie"

    def __init__(self, params: PcieParams) -> None:
        self._params = params
        self._degraded: dict[str, dict[Place, int]] = {}

    def is_relevant(self, batch: MessageBatch) -> bool:
        return all(column in batch.gauges.mapping.position_of for column in _COLUMNS)

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        at = batch.gauges.mapping.position_of
        values = batch.gauges.values
        share = _shares(batch.gauges.mapping, values)
        low = share < _FULL
        if batch.row_kind is RowKind.ROW_KIND_GPU and np.count_nonzero(low):
            idle = np.ones_like(low) if _BUSY not in at else ~(values[:, at[_BUSY]] >= self._params.busy)
            share = np.where(low & idle, np.nan, share)
            low &= ~idle
        if np.count_nonzero(low):
            yield from self._degrade(batch, topology, share, _unlike(share, low))
        if self._degraded:
            yield from self._restore(batch, topology, share)

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        message = late.message
        samples, slot = message.samples, message.slot
        store = slot.block.gauges
        mapping = store.mapping(samples.gauges)
        if (
            samples.row_kind is not RowKind.ROW_KIND_PORT
            or mapping is None
            or not all(c in mapping.position_of for c in _COLUMNS)
        ):
            return
        values = samples.gauges.values[None]
        share = _shares(mapping, values)
        low = share < _FULL
        is_known = (share >= _FULL) | (_unlike(share, low) if np.count_nonzero(low) else low)
        own = self._degraded.get(samples.device, {})
        lately = {row for column, row in slot.history.transitions if column == WIDTH}
        for row in np.flatnonzero(is_known[0]).tolist():
            name, place, own_row = samples.row[row], _place(samples, row), int(late.rows[row])
            value, newest = _part(share[0, row]), own.get(place, _WHOLE)
            if (value == newest == _WHOLE and name not in lately) or not message.at_ns < store.time(
                slot.index, int(mapping.columns[mapping.position_of[WIDTH]]), own_row
            ):
                continue
            links = {newest: _link(store.index_of, store.values[slot.index, :, own_row])}
            links[value] = _link(mapping.position_of, values[0, :, row])
            for step in split_transitions(late, (WIDTH, name), row, value, newest):
                if step.since_ns or step.after < _WHOLE:
                    yield message.number, _symptom(samples, row, topology, step, links.get(int(step.after)))

    def _degrade(
        self, batch: MessageBatch, topology: Topology, share: Cells, low: npt.NDArray[np.bool_]
    ) -> Iterator[NumberedSymptom]:
        for number, row in zip(*(places.tolist() for places in np.nonzero(low)), strict=True):
            samples = batch.messages[number].samples
            own = self._degraded.setdefault(samples.device, {})
            place, part = _place(samples, row), _part(share[number, row])
            if (before := own.get(place, _WHOLE)) == part:
                continue
            own[place] = part
            yield self._changed(batch, topology, (number, row), (before, part))

    def _restore(self, batch: MessageBatch, topology: Topology, share: Cells) -> Iterator[NumberedSymptom]:
        for number, message in enumerate(batch.messages):
            own = self._degraded.get(message.samples.device)
            if not own:
                continue
            for row in np.flatnonzero(share[number] >= _FULL).tolist():
                if (before := own.pop(_place(message.samples, row), None)) is not None:
                    yield self._changed(batch, topology, (number, row), (before, _WHOLE))
            if not own:
                del self._degraded[message.samples.device]

    @staticmethod
    def _changed(
        batch: MessageBatch, topology: Topology, at: tuple[int, int], parts: tuple[int, int]
    ) -> NumberedSymptom:
        """Return the symptom of a link that trained to another capacity."""
        number, row = at
        message, position = batch.messages[number], batch.gauges.mapping.position_of[WIDTH]
        step = record_transition(batch, batch.gauges, position, at, parts)
        link = _link(batch.gauges.mapping.position_of, batch.gauges.values[number, :, row])
        return message.number, _symptom(message.samples, row, topology, step, link)

    def dump(self) -> list[list[Any]]:
        return [
            [device, *place, part]
            for device, own in sorted(self._degraded.items())
            for place, part in sorted(own.items())
        ]

    def load(self, data: Iterable[list[Any]]) -> None:
        self._degraded = {}
        for device, source, kind, row, part in data:
            self._degraded.setdefault(device, {})[source, kind, row] = part


def _shares(mapping: ColumnMapping, values: npt.NDArray[Any]) -> Cells:
    """Return the share of their capacity to which links trained, shape (messages, rows)."""
    width, speed, width_max, speed_max = (values[:, mapping.position_of[column]] for column in _COLUMNS)
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Cells = width * speed / (width_max * speed_max)
    return share


def _part(share: float) -> int:
    return _WHOLE if share >= _FULL else max(1, round(_WHOLE * float(share)))


def _link(at: Mapping[Column, int], values: npt.NDArray[Any]) -> PcieLink | None:
    """Return the link of a row; None if one of its values is absent."""
    width, speed, width_max, speed_max = (float(values[at[column]]) for column in _COLUMNS)
    if math.isnan(width + speed + width_max + speed_max):
        return None
    return PcieLink(round(width), round(width_max), speed, speed_max)


def _symptom(samples: Samples, row: int, topology: Topology, step: Transition, link: PcieLink | None) -> Symptom:
    port = topology.resolve_port(samples.device, samples.row[row]).port
    payload = PcieLinkState(step.after / _WHOLE, link)
    return Symptom(samples.device, port, payload, step.row_time_ns, step.since_ns, samples.source)


def _unlike(share: Cells, low: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the low links that are below the median of their host, or the only ones."""
    unlike = np.zeros_like(low)
    for number in np.flatnonzero(low.any(axis=1)).tolist():
        known = share[number][~np.isnan(share[number])]
        typical = _FULL if len(known) == 1 else float(np.median(known)) - (1 - _FULL)
        unlike[number] = low[number] & (share[number] < typical)
    return unlike


def _place(samples: Samples, row: int) -> Place:
    return int(samples.source), int(samples.row_kind), samples.row[row]


_FAULTS = (Fault.PCIE_SIGNAL, Fault.SLOT_POWER, Fault.NIC_FIRMWARE)


def _capacity(symptom: Symptom) -> float:
    """Return the share of its capacity to which a link trained."""
    return symptom.payload.capacity_ratio if isinstance(symptom.payload, PcieLinkState) else 1.0


def _describe(worst: Symptom, name: str) -> PartStatement:
    link = worst.payload.link if isinstance(worst.payload, PcieLinkState) else None
    trained, share = "less than its maximum", _capacity(worst)
    if link is not None:
        lanes = f"x{link.width_lanes} of x{link.width_max_lanes} lanes"
        trained = f"{lanes} at {link.speed_gtps:g} of {link.speed_max_gtps:g} GT/s"
    is_narrow = link is not None and link.width_lanes < link.width_max_lanes
    return PartStatement(
        f"PCIe of {name} trained at {trained}", Cause.PCIE_WIDTH if is_narrow else Cause.PCIE_SPEED,
        f"{name} trained at {trained}: {share:.0%} of its capacity",
        "pcie_width_lanes" if is_narrow else "pcie_speed_gtps", share, 1.0, _FAULTS,
    )  # fmt: skip


_SPELLS: PartSpells[PcieParams] = PartSpells(
    begin=SymptomKind.PCIE_DEGRADED,
    end=SymptomKind.PCIE_RESTORED,
    role="pcie",
    times=lambda params: (params.open_after_s, params.full_s),
    describe=_describe,
    confidence=0.95,
    rank=_capacity,
)

DETECTOR = Detector(
    Condition.HOST_PCIE_DEGRADED,
    version="1",
    opens_when="the PCIe link of a NIC or a busy GPU trained below its maximum and below its peers",
    params=PcieParams,
    section="pcie",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.HOST,
    lemon=FaultOf.HOST,
    hidden_in={"snmp": "the PCIe link is read at the host", "nic": "PCIe links and GPUs are read by the host's agent"},
    fabric=FabricSide(link_fault_rank=3, is_critical=under_a_job),
    pod=_SPELLS.pod_side(),
    monitor=PcieMonitor,
)
