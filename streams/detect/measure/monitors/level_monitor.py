"""Finds gauges that are beyond a limit while those of their peers on the device are not: temperatures, for instance.

A level beyond its limit on all peers is the set-up or the surroundings of the machine, and no symptom. Whole messages
are compared as arrays; the state is the rows that are beyond their limit only. A late reading divides the transition
over it, as in transitions.py: whether it is beyond follows from its own message alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.monitors.transitions import record_transition, split_transitions
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch
from streams.detect.measure.storage.reading_history import Transition
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, RowKind, Samples, Symptom
from streams.wire.symptoms import LevelState

_MIN_ROWS = 3
"""A row has two peers at least: a single peer is no evidence of the usual level."""

Levels = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Place = tuple[int, int, str]
"""Source, metric, row."""


@dataclass(frozen=True, slots=True)
class LevelLimit:
    """The limit of a metric in rows of one kind, and by how much its peers' median is lower, in the metric's unit."""

    kind: RowKind
    metric: Metric
    limit: float
    peer_margin: float


class LevelMonitor(Monitor):
    """Holds the rows beyond their limit by device and place; rows of one kind have one limit.

    Only devices of kind `device_kind` are compared.
    """

    def __init__(self, name: str, limits: Iterable[LevelLimit], device_kind: str) -> None:
        self.name = name
        self._limits = {limit.kind: limit for limit in limits}
        self._device_kind = device_kind
        self._beyond: dict[str, set[Place]] = {}

    def is_relevant(self, batch: MessageBatch) -> bool:
        limit = self._limits.get(batch.row_kind)
        return limit is not None and (limit.metric, NO_INDEX) in batch.gauges.mapping.position_of

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        limit = self._limits[batch.row_kind]
        position = batch.gauges.mapping.position_of[limit.metric, NO_INDEX]
        levels = batch.gauges.values[:, position]
        hot = levels >= limit.limit
        if self._beyond or np.count_nonzero(hot):
            yield from self._changes(batch, topology, limit, position, _unlike_peers(levels, hot, limit))

    def _changes(
        self, batch: MessageBatch, topology: Topology, limit: LevelLimit, position: int, beyond: Mask
    ) -> Iterator[NumberedSymptom]:
        levels = batch.gauges.values[:, position]
        for number, message in enumerate(batch.messages):
            samples = message.samples
            known = self._beyond.get(samples.device, set())
            if not known and not (beyond[number].any() and self._is_compared(samples, topology)):
                continue
            for row in np.flatnonzero(~np.isnan(levels[number])).tolist():
                place, is_beyond = _place(samples, limit, row), bool(beyond[number, row])
                if is_beyond == (place in known):
                    continue
                self._set(samples.device, place, is_beyond=is_beyond)
                step = record_transition(batch, batch.gauges, position, (number, row), (not is_beyond, is_beyond))
                payload = LevelState(
                    limit.metric,
                    is_beyond,
                    limit.limit,
                    float(levels[number, row]),
                    float(np.nanmedian(levels[number])),
                )
                yield message.number, _symptom(samples, topology, row, step, payload)

    def _is_compared(self, samples: Samples, topology: Topology) -> bool:
        device = topology.devices.get(samples.device)
        return device is not None and device.kind == self._device_kind

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
        limit = self._limits.get(samples.row_kind)
        if mapping is None or limit is None or (limit.metric, NO_INDEX) not in mapping.position_of:
            return
        if not self._is_compared(samples, topology):
            return
        position = mapping.position_of[limit.metric, NO_INDEX]
        levels = samples.gauges.values[position][None]
        beyond = _unlike_peers(levels, levels >= limit.limit, limit)[0]
        for row in np.flatnonzero(~np.isnan(levels[0])).tolist():
            own = LevelState(
                limit.metric, bool(beyond[row]), limit.limit, float(levels[0, row]), float(np.nanmedian(levels))
            )
            yield from self._divide(late, topology, limit, (row, int(mapping.columns[position])), own)

    def _divide(
        self, late: LateMessage, topology: Topology, limit: LevelLimit, cell: tuple[int, int], own: LevelState
    ) -> Iterator[NumberedSymptom]:
        """Yield the symptoms of a late reading of one cell (row, stored column); `own` is the state that it shows."""
        row, column = cell
        message, samples = late.message, late.message.samples
        key = (limit.metric, NO_INDEX), samples.row[row]
        newest = _place(samples, limit, row) in self._beyond.get(samples.device, ())
        if not (own.is_beyond or newest or key in message.slot.history.transitions):
            return
        if message.at_ns >= message.slot.block.gauges.time(message.slot.index, column, int(late.rows[row])):
            return
        for step in split_transitions(late, key, row, own.is_beyond, newest):
            if step.since_ns or step.after:
                is_own = step.at_ns == message.at_ns
                payload = own if is_own else LevelState(limit.metric, bool(step.after), limit.limit)
                yield message.number, _symptom(samples, topology, row, step, payload)

    def dump(self) -> list[list[Any]]:
        return [[device, *place] for device, own in sorted(self._beyond.items()) for place in sorted(own)]

    def load(self, data: Iterable[list[Any]]) -> None:
        self._beyond = {}
        for device, source, metric, row in data:
            self._beyond.setdefault(device, set()).add((source, metric, row))


def _unlike_peers(levels: Levels, hot: Mask, limit: LevelLimit) -> Mask:
    """Return which hot cells, shape (messages, rows), are above the median of their message by the margin."""
    unlike = np.zeros_like(hot)
    for number in np.flatnonzero(hot.any(axis=1)).tolist():
        known = levels[number][~np.isnan(levels[number])]
        if len(known) >= _MIN_ROWS:
            unlike[number] = hot[number] & (levels[number] >= np.median(known) + limit.peer_margin)
    return unlike


def _place(samples: Samples, limit: LevelLimit, row: int) -> Place:
    return int(samples.source), int(limit.metric), samples.row[row]


def _symptom(samples: Samples, topology: Topology, row: int, step: Transition, payload: LevelState) -> Symptom:
    port = topology.resolve_port(samples.device, samples.row[row]).port
    return Symptom(samples.device, port, payload, step.row_time_ns, step.since_ns, samples.source)
