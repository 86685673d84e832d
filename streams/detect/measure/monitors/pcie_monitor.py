"""Which PCIe links are below what they can do: told when one becomes low, changes, or is full again.

Low is less than the lesser of its own and its slot's maximum (which `collect host` reads), and less than the median of
its host's like parts: where all are alike it is how the machine is set up. A GPU lets its link fall while it idles, so
one that is low says nothing unless it is at work; a NIC with its link up does not.
Decided for whole messages by array arithmetic; kept is only what is low. A NIC's reading that comes late divides the
step over it, as late.py has it; a GPU's does not, because which of the readings beside it said something is not kept.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.host_pcie_degraded.params import PcieParams
from streams.detect.measure.monitors.transitions import NumberedSymptom, record_transition
from streams.detect.measure.storage.column_store import Column, ColumnMapping, Indices
from streams.detect.measure.storage.reading_history import Transition
from streams.detect.measure.storage.reading_store import MessageBatch, PendingMessage
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind, Samples, Symptom
from streams.wire.symptoms import PcieLink, PcieLinkState

WIDTH = (Metric.PCIE_WIDTH_LANES, NO_INDEX)
_COLUMNS = (
    WIDTH, (Metric.PCIE_SPEED_GTPS, NO_INDEX), (Metric.PCIE_WIDTH_MAX_LANES, NO_INDEX),
    (Metric.PCIE_SPEED_MAX_GTPS, NO_INDEX),
)  # fmt: skip
_BUSY = (Metric.GPU_UTILIZATION_RATIO, NO_INDEX)
_FULL = 0.99
"""Both are whole steps: what is lost is a half or more of one of them."""
_WHOLE = 1000
"""What a full link can carry, in the thousandths that are told."""

Cells = npt.NDArray[np.float64]
Place = tuple[int, int, str]
"""Source, kind of row, row."""


@dataclass(slots=True)
class PcieMonitor:
    """What is low, by device and place: by how much, in thousandths of what it can carry."""

    params: PcieParams
    low: dict[str, dict[Place, int]]

    def process(self, wave: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        """What a wave shows that has WIDTH."""
        at = wave.gauges.mapping.position_of
        if not all(column in at for column in _COLUMNS):
            return
        values = wave.gauges.values
        share = _shares(wave.gauges.mapping, values)
        low = share < _FULL
        if wave.row_kind is RowKind.ROW_KIND_GPU and np.count_nonzero(low):
            idle = np.ones_like(low) if _BUSY not in at else ~(values[:, at[_BUSY]] >= self.params.busy)
            share = np.where(low & idle, np.nan, share)
            low &= ~idle
        if np.count_nonzero(low):
            yield from self._fell(wave, topology, share, _unlike(share, low))
        if self.low:
            yield from self._rose(wave, topology, share)

    def process_late(self, taken: PendingMessage, rows: Indices, topology: Topology) -> Iterator[NumberedSymptom]:
        """What a late message of ports says; `rows` are where its rows stand in its device's block."""
        samples, slot = taken.samples, taken.slot
        fit, stack = slot.block.gauges.mapping(samples.gauges), slot.block.gauges
        if (
            samples.row_kind is not RowKind.ROW_KIND_PORT
            or fit is None
            or not all(c in fit.position_of for c in _COLUMNS)
        ):
            return
        values = samples.gauges.values[None]
        share = _shares(fit, values)
        low = share < _FULL
        says = (share >= _FULL) | (_unlike(share, low) if np.count_nonzero(low) else low)
        own = self.low.get(samples.device, {})
        lately = {row for column, row in slot.history.transitions if column == WIDTH}
        for row in np.flatnonzero(says[0]).tolist():
            name, place, own_row = samples.row[row], _place(samples, row), int(rows[row])
            value, newest = _part(share[0, row]), own.get(place, _WHOLE)
            if (value == newest == _WHOLE and name not in lately) or not taken.at_ns < stack.time(
                slot.index, int(fit.columns[fit.position_of[WIDTH]]), own_row
            ):
                continue
            links = {newest: _link(stack.index_of, stack.values[slot.index, :, own_row])}
            links[value] = _link(fit.position_of, values[0, :, row])
            for step in slot.history.split((WIDTH, name), taken.at_ns, taken.row_time_ns(row), value, newest):
                if step.since_ns or step.after < _WHOLE:
                    yield taken.number, _symptom(samples, row, topology, step, links.get(int(step.after)))

    def _fell(
        self, wave: MessageBatch, topology: Topology, share: Cells, low: npt.NDArray[np.bool_]
    ) -> Iterator[NumberedSymptom]:
        for message, row in zip(*(places.tolist() for places in np.nonzero(low)), strict=True):
            samples = wave.messages[message].samples
            own = self.low.setdefault(samples.device, {})
            place, part = _place(samples, row), _part(share[message, row])
            if (before := own.get(place, _WHOLE)) == part:
                continue
            own[place] = part
            yield self._changed(wave, topology, (message, row), (before, part))

    def _rose(self, wave: MessageBatch, topology: Topology, share: Cells) -> Iterator[NumberedSymptom]:
        for message, taken in enumerate(wave.messages):
            own = self.low.get(taken.samples.device)
            if not own:
                continue
            for row in np.flatnonzero(share[message] >= _FULL).tolist():
                if (before := own.pop(_place(taken.samples, row), None)) is not None:
                    yield self._changed(wave, topology, (message, row), (before, _WHOLE))
            if not own:
                del self.low[taken.samples.device]

    @staticmethod
    def _changed(
        wave: MessageBatch, topology: Topology, at: tuple[int, int], parts: tuple[int, int]
    ) -> NumberedSymptom:
        """A link is trained to another part of what it can carry than before."""
        message, row = at
        taken, position = wave.messages[message], wave.gauges.mapping.position_of[WIDTH]
        step = record_transition(wave, wave.gauges, position, at, parts)
        link = _link(wave.gauges.mapping.position_of, wave.gauges.values[message, :, row])
        return taken.number, _symptom(taken.samples, row, topology, step, link)

    def dump(self) -> list[list[Any]]:
        """For a snapshot."""
        return [
            [device, *place, part] for device, own in sorted(self.low.items()) for place, part in sorted(own.items())
        ]

    def load(self, kept: Iterable[list[Any]]) -> None:
        """What `dump` answered."""
        self.low = {}
        for device, source, kind, row, part in kept:
            self.low.setdefault(device, {})[source, kind, row] = part


def _shares(fit: ColumnMapping, values: npt.NDArray[Any]) -> Cells:
    """What part of what they can carry the links of some messages are trained to, shape (messages, rows)."""
    width, speed, width_max, speed_max = (values[:, fit.position_of[column]] for column in _COLUMNS)
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Cells = width * speed / (width_max * speed_max)
    return share


def _part(share: float) -> int:
    return _WHOLE if share >= _FULL else max(1, round(_WHOLE * float(share)))


def _link(at: Mapping[Column, int], values: npt.NDArray[Any]) -> PcieLink | None:
    """Return how a link is trained, by the values of its row; None where one of them is absent."""
    width, speed, width_max, speed_max = (float(values[at[column]]) for column in _COLUMNS)
    if math.isnan(width + speed + width_max + speed_max):
        return None
    return PcieLink(round(width), round(width_max), speed, speed_max)


def _symptom(samples: Samples, row: int, topology: Topology, step: Transition, link: PcieLink | None) -> Symptom:
    port = topology.resolve_port(samples.device, samples.row[row]).port
    payload = PcieLinkState(step.after / _WHOLE, link)
    return Symptom(samples.device, port, payload, step.row_time_ns, step.since_ns, samples.source)


def _unlike(share: Cells, low: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Those of the low that are lower than the median of their host's, or have no like."""
    unlike = np.zeros_like(low)
    for message in np.flatnonzero(low.any(axis=1)).tolist():
        known = share[message][~np.isnan(share[message])]
        typical = _FULL if len(known) == 1 else float(np.median(known)) - (1 - _FULL)
        unlike[message] = low[message] & (share[message] < typical)
    return unlike


def _place(samples: Samples, row: int) -> Place:
    return int(samples.source), int(samples.row_kind), samples.row[row]
