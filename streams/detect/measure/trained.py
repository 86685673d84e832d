"""Which PCIe links are below what they can do: told when one becomes low, changes, or is full again.

Low is less than the lesser of its own and its slot's maximum (which `collect host` reads), and less than the median of
its host's like parts: where all are alike it is how the machine is set up. A GPU lets its link fall while it idles, so
one that is low says nothing unless it is at work; a NIC with its link up does not.
Decided for whole messages by array arithmetic; kept is only what is low.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.detect.measure.readings import Wave
from streams.detect.params import PcieParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind, Samples, Symptom, SymptomKind

WIDTH = (Metric.PCIE_WIDTH_LANES, NO_INDEX)
_COLUMNS = (
    WIDTH, (Metric.PCIE_SPEED_GTPS, NO_INDEX), (Metric.PCIE_WIDTH_MAX_LANES, NO_INDEX),
    (Metric.PCIE_SPEED_MAX_GTPS, NO_INDEX),
)  # fmt: skip
_BUSY = (Metric.GPU_UTILIZATION_RATIO, NO_INDEX)
_FULL = 0.99
"""Both are whole steps: what is lost is a half or more of one of them."""

Cells = npt.NDArray[np.float64]
Place = tuple[int, int, str]
"""Source, kind of row, row."""


@dataclass(slots=True)
class Trained:
    """What is low, by device and place: by how much, in thousandths of what it can carry."""

    params: PcieParams
    low: dict[str, dict[Place, int]]

    def of(self, wave: Wave, topology: Topology) -> Iterator[tuple[int, Symptom]]:
        """What a wave shows that has WIDTH."""
        at = wave.gauges.fit.at
        if not all(column in at for column in _COLUMNS):
            return
        values = wave.gauges.values
        width, speed, width_max, speed_max = (values[:, at[column]] for column in _COLUMNS)
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Cells = width * speed / (width_max * speed_max)
        low = share < _FULL
        if wave.row_kind is RowKind.ROW_KIND_GPU and np.count_nonzero(low):
            idle = np.ones_like(low) if _BUSY not in at else ~(values[:, at[_BUSY]] >= self.params.busy)
            share = np.where(low & idle, np.nan, share)
            low &= ~idle
        if np.count_nonzero(low):
            yield from self._fell(wave, topology, share, _unlike(share, low))
        if self.low:
            yield from self._rose(wave, topology, share)

    def _fell(
        self, wave: Wave, topology: Topology, share: Cells, low: npt.NDArray[np.bool_]
    ) -> Iterator[tuple[int, Symptom]]:
        at = wave.gauges.fit.at
        for message, row in zip(*(places.tolist() for places in np.nonzero(low)), strict=True):
            samples = wave.taken[message].samples
            own = self.low.setdefault(samples.device, {})
            place, part = _place(samples, row), max(1, round(1000 * float(share[message, row])))
            if own.get(place) == part:
                continue
            own[place] = part
            lanes, rate, most, best = (float(wave.gauges.values[message, at[column], row]) for column in _COLUMNS)
            detail = f"x{lanes:.0f} of x{most:.0f} lanes at {rate:g} of {best:g} GT/s"
            yield self._symptom(wave, topology, message, row, SymptomKind.PCIE_LOW, part, detail)

    def _rose(self, wave: Wave, topology: Topology, share: Cells) -> Iterator[tuple[int, Symptom]]:
        for message, taken in enumerate(wave.taken):
            own = self.low.get(taken.samples.device)
            if not own:
                continue
            for row in np.flatnonzero(share[message] >= _FULL).tolist():
                if own.pop(_place(taken.samples, row), None) is not None:
                    yield self._symptom(wave, topology, message, row, SymptomKind.PCIE_FULL, 1000, "")
            if not own:
                del self.low[taken.samples.device]

    @staticmethod
    def _symptom(
        wave: Wave, topology: Topology, message: int, row: int, kind: SymptomKind, part: int, detail: str
    ) -> tuple[int, Symptom]:
        taken = wave.taken[message]
        samples = taken.samples
        delay_us = samples.row_delay_us[row] if samples.row_delay_us else 0
        port = topology.port(samples.device, samples.row[row]).port
        since_ns = wave.gauges.since_ns(wave.gauges.fit.at[WIDTH], message, row)
        return taken.number, Symptom(
            samples.device, port, kind, taken.at_ns + delay_us * 1000, since_ns=since_ns, source=samples.source,
            count=part, detail=detail,
        )  # fmt: skip

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
