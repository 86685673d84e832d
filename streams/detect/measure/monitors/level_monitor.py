"""Finds the rows of hosts in which a gauge is beyond its limit, and their return.

Whole messages are compared as arrays, so that a healthy host costs a few comparisons. A late reading divides the
transition around it, as in transitions.py; its own message alone shows whether it is beyond the limit.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.monitors.transitions import port_symptom, record_transition, split_transitions
from streams.detect.measure.storage.column_store import Column, ColumnMapping
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch, PendingMessage
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind, Samples, Symptom
from streams.wire.symptoms import LevelState

Levels = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Place = tuple[int, int, str, int]
"""Source, metric, row, index."""


class LevelMonitor(Monitor):
    """Tracks the rows beyond their limit, by device and place; does not compare rows of switches."""

    columns: ClassVar[dict[RowKind, tuple[Column, ...]]]
    """The gauges that are compared, by kind of row."""
    below: ClassVar[frozenset[Column]] = frozenset()
    """Those that are beyond their limit below it, and not from it on."""
    grace_s: ClassVar[float] = 0
    """The time after a restart of the host in which readings are not compared."""

    def __init__(self, _params: object = None, fixed: Mapping[Column, float] = MappingProxyType({})) -> None:
        """Create it; `fixed` has the limits of gauges that have one for all devices."""
        self._fixed = dict(fixed)
        self._beyond: dict[str, set[Place]] = {}

    def limits(self, column: Column, mapping: ColumnMapping, values: Levels) -> Levels | float:
        """Return the limits of a gauge, shape (messages, rows); `values` are all gauges: (messages, columns, rows)."""
        return self._fixed[column]

    def confirm(self, levels: Levels, beyond: Mask) -> Mask:
        """Return the cells beyond their limit that count, shape (messages, rows); called if there are any."""
        return beyond

    def is_relevant(self, batch: MessageBatch) -> bool:
        return any(column in batch.gauges.mapping.position_of for column in self.columns.get(batch.row_kind, ()))

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        mapping, values = batch.gauges.mapping, batch.gauges.values
        for column in self.columns[batch.row_kind]:
            if column not in mapping.position_of:
                continue
            position = mapping.position_of[column]
            levels = values[:, position]
            limits = self._fixed[column] if column in self._fixed else self.limits(column, mapping, values)
            beyond = levels < limits if column in self.below else levels >= limits
            if not (self._beyond or np.count_nonzero(beyond)):
                continue
            beyond, limits = self.confirm(levels, beyond), np.broadcast_to(limits, levels.shape)
            for number, message in enumerate(batch.messages):
                samples = message.samples
                known = self._beyond.get(samples.device, set())
                if (not known and not beyond[number].any()) or not self.is_compared(message, topology):
                    continue
                for row in np.flatnonzero(~np.isnan(levels[number])).tolist():
                    place, is_beyond = _place(samples, column, row), bool(beyond[number, row])
                    if is_beyond == (place in known):
                        continue
                    self._set(samples.device, place, is_beyond=is_beyond)
                    step = record_transition(batch, batch.gauges, position, (number, row), (not is_beyond, is_beyond))
                    payload = _state(column, levels[number], limits[number], row, is_beyond=is_beyond)
                    yield message.number, port_symptom(samples, topology, row, payload, step)

    def is_compared(self, message: PendingMessage, topology: Topology) -> bool:
        """Return whether a message is of a host whose last restart is long enough ago."""
        device = topology.devices.get(message.samples.device)
        is_settled = message.at_ns >= message.slot.history.restarted_ns + ns(self.grace_s)
        return device is not None and device.kind == "host" and (is_settled or not message.slot.history.restarted_ns)

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
        if mapping is None or not self.is_compared(message, topology):
            return
        for column in self.columns.get(samples.row_kind, ()):
            if (position := mapping.position_of.get(column)) is None:
                continue
            values: Levels = np.asarray(samples.gauges.values[None], np.float64)
            levels = values[:, position]
            limits = np.broadcast_to(self.limits(column, mapping, values), levels.shape)
            beyond = self.confirm(levels, levels < limits if column in self.below else levels >= limits)[0]
            for row in np.flatnonzero(~np.isnan(levels[0])).tolist():
                own = _state(column, levels[0], limits[0], row, is_beyond=bool(beyond[row]))
                yield from self._divide(late, topology, (row, int(mapping.columns[position])), own)

    def _divide(
        self, late: LateMessage, topology: Topology, cell: tuple[int, int], own: LevelState
    ) -> Iterator[NumberedSymptom]:
        """Yield the symptoms of a late reading of one cell (row, stored column); `own` is the state that it shows."""
        row, place = cell
        message, samples = late.message, late.message.samples
        column = own.metric, NO_INDEX if own.index is None else own.index
        key = column, samples.row[row]
        newest = _place(samples, column, row) in self._beyond.get(samples.device, ())
        if not (own.is_beyond or newest or key in message.slot.history.transitions):
            return
        if message.at_ns >= message.slot.block.gauges.time(message.slot.index, place, int(late.rows[row])):
            return
        for step in split_transitions(late, key, row, own.is_beyond, newest):
            if step.since_ns or step.after:
                is_own = step.at_ns == message.at_ns
                payload = own if is_own else LevelState(own.metric, bool(step.after), own.limit, index=own.index)
                yield message.number, port_symptom(samples, topology, row, payload, step)

    def dump(self) -> list[list[Any]]:
        return [
            [device, *(place if place[3] != NO_INDEX else place[:3])]
            for device, own in sorted(self._beyond.items())
            for place in sorted(own)
        ]

    def load(self, data: Iterable[list[Any]]) -> None:
        self._beyond = {}
        for device, source, metric, row, *index in data:
            self._beyond.setdefault(device, set()).add((source, metric, row, *(index or (NO_INDEX,))))


def _place(samples: Samples, column: Column, row: int) -> Place:
    return int(samples.source), int(column[0]), samples.row[row], column[1]


def _state(column: Column, levels: Levels, limits: Levels, row: int, *, is_beyond: bool) -> LevelState:
    metric, index = Metric(column[0]), None if column[1] == NO_INDEX else column[1]
    return LevelState(metric, is_beyond, float(limits[row]), float(levels[row]), float(np.nanmedian(levels)), index)


def level_key(symptom: Symptom) -> tuple[int, int]:
    """Return the gauge or counter of a symptom, and its index: states of different ones last independently."""
    payload: Any = symptom.payload
    metric = payload.metric if isinstance(payload, LevelState) else payload.counter
    return int(metric), NO_INDEX if payload.index is None else payload.index
