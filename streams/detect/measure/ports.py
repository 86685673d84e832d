"""What is notable at ports between two readings: states that changed, and counters of downs that grew.

Decided for many messages at once by array arithmetic; Python runs only for the cells in which something is notable.
"""

from collections.abc import Iterator

import numpy as np

from streams.detect.measure.blocks import Cells, is_absent
from streams.detect.measure.readings import Wave
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Symptom, SymptomKind

_STATES = {
    (Metric.OPER_UP, NO_INDEX): (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP),
    (Metric.ADMIN_UP, NO_INDEX): (SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED),
}
_COUNTS = {
    (Metric.LINK_DOWN_EVENTS, NO_INDEX): SymptomKind.DOWNS_COUNTED,
    (Metric.LINK_TRANSITIONS, NO_INDEX): SymptomKind.TRANSITIONS_COUNTED,
}

Noticed = tuple[int, Symptom]
"""A symptom, and the number of the message that shows it."""


class Notable:
    """Finds it, under one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def of(self, wave: Wave) -> list[Noticed]:
        """What a wave shows; the symptoms of one message are in the order of metrics and rows."""
        noticed: list[Noticed] = []
        for column, kinds in _STATES.items():
            if (position := wave.gauges.fit.at.get(column)) is not None:
                noticed += self._states(wave, position, *kinds)
        for column, kind in _COUNTS.items():
            if (position := wave.counters.fit.at.get(column)) is not None:
                noticed += self._grown(wave, position, kind)
        return noticed

    def of_gpus(self, wave: Wave) -> Iterator[Noticed]:
        """Uncorrectable errors that a GPU counted; where the kernel log may be read, its Xid tells more of them."""
        if (position := wave.counters.fit.at.get((Metric.GPU_ECC_UNCORRECTED, NO_INDEX))) is not None:
            yield from self._grown(wave, position, SymptomKind.GPU_ECC_COUNTED)

    def _grown(self, wave: Wave, position: int, kind: SymptomKind) -> Iterator[Noticed]:
        """A counter that is less than before was started anew (a reset), one without a before is met first."""
        now, before = wave.counters.values[:, position], wave.counters.before(position)
        ahead = now > before
        if not np.count_nonzero(ahead):
            return
        for message, row in _cells(ahead & ~is_absent(now)):
            count = int(now[message, row] - before[message, row])
            since_ns = wave.counters.since_ns(position, message, row)
            yield wave.taken[message].number, self._symptom(wave, message, row, kind, since_ns, count)

    def _states(self, wave: Wave, position: int, off: SymptomKind, on: SymptomKind) -> Iterator[Noticed]:
        now, before = wave.gauges.values[:, position], wave.gauges.before(position)
        differs = now != before
        if not np.count_nonzero(differs):
            return
        first = is_absent(before)
        notable = differs & ~is_absent(now) & np.where(first, now <= 0, (now > 0) != (before > 0))
        for message, row in _cells(notable):
            kind = on if now[message, row] > 0 else off
            since_ns = wave.gauges.since_ns(position, message, row)
            symptom = self._symptom(wave, message, row, kind, since_ns, 0)
            if not first[message, row] or self._tells(symptom):
                yield wave.taken[message].number, symptom

    def _tells(self, first: Symptom) -> bool:
        """Whether a first reading of a port that is off is notable: an unused port of no known link is not."""
        known = self._topology.cable_at(Port(first.device, first.port)) is not None
        return known or first.kind is SymptomKind.ADMIN_DISABLED

    def _symptom(self, wave: Wave, message: int, row: int, kind: SymptomKind, since_ns: int, count: int) -> Symptom:
        taken = wave.taken[message]
        samples = taken.samples
        delay_us = samples.row_delay_us[row] if samples.row_delay_us else 0
        port = self._topology.port(samples.device, samples.row[row]).port
        return Symptom(
            samples.device, port, kind, taken.at_ns + delay_us * 1000,
            since_ns=since_ns, source=samples.source, count=count,
        )  # fmt: skip


def _cells(mask: Cells) -> Iterator[tuple[int, int]]:
    """The (message, row) of each True."""
    messages, rows = np.nonzero(mask)
    return zip(messages.tolist(), rows.tolist(), strict=True)
