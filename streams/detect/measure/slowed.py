"""Which hosts' ports are slowed by the fabric: told by congestion notifications, over and over, to send less.

Decided for many messages at once by array arithmetic, as crowds.py does. What is told is that it began, once it has
lasted, and that it is over; towards whom a port sends its counters do not say, and is for congestion/incast.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from streams.detect.measure.pauses import Held
from streams.detect.measure.ports import Noticed
from streams.detect.measure.reading import Reading
from streams.detect.measure.readings import Wave
from streams.detect.params import IncastParams, ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Source, Symptom, SymptomKind


class Slowed:
    """Keeps which ports are slowed: few, on a healthy fabric."""

    def __init__(self, params: IncastParams) -> None:
        self._params = params
        self.held: dict[tuple[str, Source], dict[str, Held]] = {}
        """Device and source -> row."""

    def of(self, wave: Wave, topology: Topology) -> list[Noticed]:
        """What a wave shows."""
        change = wave.counters
        position = change.fit.at.get((Metric.CNP_HANDLED, NO_INDEX))
        if position is None:
            return []
        now, before = change.values[:, position], change.before(position)
        grew = now > before
        cells = dict.fromkeys(self._watched(wave)) if self.held else {}
        if np.count_nonzero(grew):
            # a column that was never read before has 0 for its time: nothing is much in it
            times = change.stack.at_ns[change.devices, change.fit.places[position]]
            seconds = np.maximum(change.at_ns - times, 1)[:, None] / 1e9
            # in whole numbers: what is turned into floating point costs twice as much
            much = grew & (now - before >= np.ceil(self._params.slowed_a_second * seconds).astype(np.uint64))
            if np.count_nonzero(much):
                where = (places.tolist() for places in np.nonzero(much))
                cells |= dict.fromkeys(zip(*where, strict=True))
        return [noticed for message, row in cells for noticed in self._look(wave, message, row, topology)]

    def _watched(self, wave: Wave) -> Iterator[tuple[int, int]]:
        for message, taken in enumerate(wave.taken):
            for row in self.held.get((taken.samples.device, taken.samples.source), ()):
                if row in taken.samples.row:
                    yield message, taken.samples.row.index(row)

    def _look(self, wave: Wave, message: int, row: int, topology: Topology) -> Iterator[Noticed]:
        taken = wave.taken[message]
        samples = taken.samples
        grown = Reading(wave, message, row, 0, 0.0).grown(Metric.CNP_HANDLED)
        if grown is None:
            return
        key, name = (samples.device, samples.source), samples.row[row]
        held = self.held.get(key, {}).get(name)
        port = topology.port(samples.device, name)
        if grown[0] < self._params.slowed_a_second * grown[1]:
            if held is None:
                return
            del self.held[key][name]
            if not self.held[key]:
                del self.held[key]
            if held.told:
                over = SymptomKind.SLOWED_NO_MORE
                yield taken.number, Symptom(port.device, port.port, over, taken.at_ns, held.last_ns, samples.source)
            return
        if held is None:
            cable = topology.cable_at(port)
            if cable is None or cable.role != "host-link" or port != cable.lower:
                return
            since_ns = taken.at_ns - round(grown[1] * 1e9)
            held = self.held.setdefault(key, {})[name] = Held(since_ns, taken.at_ns)
        held.last_ns = taken.at_ns
        if not held.told and held.last_ns - held.since_ns >= ns(self._params.slowed_s):
            held.told = True
            yield taken.number, Symptom(
                port.device, port.port, SymptomKind.SLOWED, taken.at_ns, held.since_ns, samples.source,
                count=round(grown[0] / grown[1]),
            )  # fmt: skip

    def dump(self) -> list[list[Any]]:
        """For a snapshot."""
        return [
            [device, int(source), row, held.since_ns, held.last_ns, held.told]
            for (device, source), own in self.held.items()
            for row, held in own.items()
        ]

    def load(self, kept: Iterable[Iterable[Any]]) -> None:
        """The inverse."""
        for device, source, row, since_ns, last_ns, told in kept:
            self.held.setdefault((device, Source(source)), {})[row] = Held(since_ns, last_ns, told)
