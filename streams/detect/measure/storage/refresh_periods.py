"""Learns the refresh periods of devices' byte counters, and marks counters that were not refreshed as absent.

Some agents and line cards refresh counters more slowly than they are read: bytes every 30 s beside fresh pause times.
Between two refreshes such a counter is unknown. It does not show that no traffic passed, and it grows at a refresh by
the growth of the whole period. A counter of a device is not refreshed if it moves at no port, and it is one that stands
still again and again, or has not yet moved in three consecutive readings.
"""

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.column_store import (
    Cells,
    ColumnMapping,
    ColumnStore,
    Indices,
    MappingCache,
    TableDelta,
)
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX

TRAFFIC = frozenset({Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS})
"""The counters that grow at every port in use."""
_BYTES = (Metric.RX_BYTES, NO_INDEX), (Metric.TX_BYTES, NO_INDEX)
_LONGEST_NS = 120 * 10**9
"""Counters that stand still for longer show that nothing passes (the slowest known cache: Junos, 60 s)."""
_PROVEN = 0b111
"""A counter that moved in three consecutive readings is refreshed for each reading; each is a bit of `moves`."""
_STEP, _MOST, _SLOW = 2, 8, 3
"""A standstill that ends counts 2, a reading that moves -1; from 3 on a counter is slow. One pause storm is not."""
_MARGIN = 1.5
"""Counters that stand still for more than this many periods show that nothing passes."""


class RefreshPeriods:
    """Finds the counters of a batch that were not refreshed; their state is in the store."""

    def __init__(self) -> None:
        self._positions: MappingCache[tuple[int, ...]] = MappingCache(_positions)

    def without_unrefreshed(self, delta: TableDelta) -> Cells:
        """Return the counters of messages, shape (messages, columns, rows), absent where they were not refreshed."""
        counts = delta.values
        for position in self._positions[delta.mapping]:
            store, place = delta.store, delta.mapping.columns[position]
            cells = delta.devices, place
            moved = np.logical_or.reduce(counts[:, position] != store.values[cells], axis=1)
            if not store.has_slow:
                if np.logical_and.reduce(moved):  # the healthy case
                    if store.has_unproven:
                        store.moves[cells] = store.moves[cells] << 1 | 1
                        store.has_unproven = _has_unproven(store)
                    continue
                store.has_slow = store.has_unproven = True
            unknown = _unrefreshed(delta, cells, moved)
            if np.count_nonzero(unknown):
                counts = counts.copy()
                counts[unknown, position] = ABSENT_COUNTER
        return counts


def has_periods(store: ColumnStore) -> npt.NDArray[np.bool_]:
    """Return the devices that have a slow or unproven byte counter."""
    places = [store.index_of[column] for column in _BYTES if column in store.index_of]
    moves, known = store.moves[:, places], store.at_ns[:, places] > 0
    found: npt.NDArray[np.bool_] = (
        known & ((moves < _PROVEN) | (store.score[:, places] != 0) | store.stood[:, places])
    ).any(axis=1)
    return found


def periods_of(store: ColumnStore, device: int) -> list[list[int]]:
    """Return the state of each byte counter of a device for a snapshot."""
    found = []
    for number, column in enumerate(_BYTES):
        if (place := store.index_of.get(column)) is not None and store.at_ns[device, place]:
            at = device, place
            state = store.moves[at], store.score[at], store.stood[at], store.changed_ns[at], store.period_ns[at]
            found.append([number, *map(int, state)])
    return found


def restore_periods(store: ColumnStore, device: int, periods: list[list[int]]) -> None:
    """Restore the states that `periods_of` returned."""
    for number, moves, score, stood, changed_ns, period_ns in periods:
        at = device, store.index_of[_BYTES[number]]
        store.moves[at], store.score[at], store.stood[at] = moves, score, stood
        store.changed_ns[at], store.period_ns[at] = changed_ns, period_ns
        store.has_slow = store.has_slow or bool(score or stood)


def assume_proven(store: ColumnStore) -> None:
    """Set the byte counters of all known devices as moving, before the exceptions of a snapshot are restored."""
    for column in _BYTES:
        if (place := store.index_of.get(column)) is not None:
            store.moves[store.at_ns[:, place] > 0, place] = _PROVEN


def _has_unproven(store: ColumnStore) -> bool:
    """Return whether a byte counter that a device has reported has not moved often enough."""
    places = [store.index_of[column] for column in _BYTES if column in store.index_of]
    moves, at_ns = store.moves[:, places], store.at_ns[:, places]
    return bool(((moves < _PROVEN) & ((moves > 0) | (at_ns > 0))).any())


def _unrefreshed(delta: TableDelta, cells: tuple[Indices, Indices], moved: Cells) -> Cells:
    """Return the messages in which a counter was not refreshed; update what is known of its period."""
    store, at_ns = delta.store, delta.at_ns
    moves, score, period_ns, stood = store.moves[cells], store.score[cells], store.period_ns[cells], store.stood[cells]
    changed_ns = np.where(stood, store.changed_ns[cells], store.at_ns[cells])
    interval_ns = at_ns - changed_ns
    ends = moved & stood & (interval_ns <= _LONGEST_NS)
    score = np.where(ends, np.minimum(score + _STEP, _MOST), np.maximum(score - (moved & ~stood), 0))
    moves = np.where(moved, np.where(stood, 0, moves) << 1 | 1, moves)
    period_ns = np.where(ends, np.maximum(interval_ns, period_ns * 4 // 5), period_ns)
    unproven_ns = np.where(moves < _PROVEN, _LONGEST_NS, 0)
    limit_ns = np.where(score >= _SLOW, (period_ns * _MARGIN).astype(np.int64), unproven_ns)
    store.changed_ns[cells] = np.where(moved, at_ns, changed_ns)
    store.moves[cells], store.score[cells], store.period_ns[cells] = moves, score, period_ns
    store.stood[cells] = ~moved
    found: Cells = ~moved & (interval_ns < limit_ns)
    return found


def _positions(mapping: ColumnMapping) -> tuple[int, ...]:
    return tuple(mapping.position_of[column] for column in _BYTES if column in mapping.position_of)
