"""Learns the refresh periods of ports' byte counters, and marks counters that were not refreshed as absent.

Some agents and line cards refresh counters more slowly than they are read: bytes every 30 s beside fresh pause times.
Between two refreshes such a counter is unknown. It does not show that no traffic passed, and it grows at a refresh by
the growth of the whole period. The line cards of a device may refresh at different times, so each port has a period:
it is slow if it stands still in both directions again and again. A port that is paused again and again stands still
too. So where other ports move in each reading, the ports of a slow line card also stand still and move together.

An idle port shows no period. It stands still because nothing is sent, if no port of its device is slow, or if each
slow port was refreshed since its last reading.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.array_codec import ArrayCodec, Numbers
from streams.detect.measure.storage.column_store import (
    LEARNING,
    Cells,
    ColumnMapping,
    ColumnStore,
    Indices,
    MappingCache,
    TableDelta,
    Times,
)
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX

TRAFFIC = frozenset({Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS})
"""The counters that grow at every port in use."""
_BYTES = (Metric.RX_BYTES, NO_INDEX), (Metric.TX_BYTES, NO_INDEX)
_KEEPALIVE = np.uint64(4096)
"""A port that grows by no more does not move: LLDP and slow LACP send less every 30 s, and a card is read as often."""
_LONGEST_NS = 120 * 10**9
"""Counters that stand still for longer show that nothing passes (the slowest known cache: Junos, 60 s)."""
_PROVEN, _STEADY = 0b111, 0xFF
"""A port that moved in three consecutive readings is refreshed for each reading; each is a bit of `moves`. After eight
it is steady, and shows that its device has ports which are refreshed for each reading."""
_STEP, _MOST, _SLOW = 2, 8, 3
"""A standstill that ends counts 2, a reading that moves -1; from 3 on a port is slow. One pause storm is not."""
_MARGIN = 1.5
"""Counters that stand still for more than this many periods show that nothing passes."""
_IDLE, _MOVES = 0, 1
"""Two phases of a port: it stands still in each reading, or it moves in each. Any other port is LEARNING."""
_STATE = ("phase", "moves", "score", "stood", "changed_ns", "period_ns")
Flags = npt.NDArray[np.bool_]


class RefreshPeriods:
    """Finds the counters of a batch that were not refreshed; their state is in the store."""

    def __init__(self) -> None:
        self._positions: MappingCache[tuple[int, ...]] = MappingCache(_positions)

    def without_unrefreshed(self, delta: TableDelta) -> Cells:
        """Return the counters of messages, shape (messages, columns, rows), absent where they were not refreshed."""
        positions, counts = self._positions[delta.mapping], delta.values
        if not positions:
            return counts
        moved = counts[:, positions[0]] - delta.previous(positions[0]) > _KEEPALIVE
        for position in positions[1:]:
            moved |= counts[:, position] - delta.previous(position) > _KEEPALIVE
        usual = delta.store.phase[delta.devices] == moved
        if np.logical_and.reduce(usual, axis=None):  # the healthy case
            return counts
        chosen = np.flatnonzero(~usual.all(axis=1))
        chosen = chosen[~_count_moves(delta.store, delta.devices[chosen], moved[chosen])]
        if not len(chosen):
            return counts
        unknown = _unrefreshed(delta, chosen, delta.mapping.columns[positions[0]], moved[chosen])
        if np.count_nonzero(unknown):
            counts = counts.copy()
            for position in positions:
                stands = unknown & (counts[chosen, position] == delta.previous(position)[chosen])
                counts[chosen, position] = np.where(stands, ABSENT_COUNTER, counts[chosen, position])
        return counts


def has_periods(store: ColumnStore, devices: Numbers) -> bool:
    """Return whether a port of these devices does not move in each reading, if they have byte counters."""
    return any(column in store.index_of for column in _BYTES) and bool((store.phase[devices] != _MOVES).any())


def exchange_periods(store: ColumnStore, codec: ArrayCodec, devices: Numbers) -> None:
    """Write or fill what is known of the ports of devices, in a snapshot."""
    for name in _STATE:
        codec.exchange(getattr(store, name), devices)


def assume_proven(store: ColumnStore) -> None:
    """Set the ports of all known devices as moving in each reading."""
    store.phase[:], store.moves[:] = _MOVES, _STEADY


class _Ports(NamedTuple):
    """The state of ports after the readings of messages; shape (messages, rows)."""

    moved: Flags
    changed_ns: Times
    """The last reading in which a port moved; 0 for idle ports."""
    moves: Cells
    score: Cells
    period_ns: Times


def _count_moves(store: ColumnStore, devices: Indices, moved: Flags) -> Flags:
    """Count the readings of devices with ports that all move and never stood still; return which devices these are."""
    is_new: Flags = np.logical_and.reduce(moved, axis=1)
    has_stood: Flags = (store.stood[devices] | (store.score[devices] != 0)).any(axis=1)
    is_new &= ~has_stood
    own = devices[is_new]
    store.moves[own] = moves = store.moves[own] << 1 | 1
    store.phase[own] = np.where(moves == _STEADY, _MOVES, LEARNING)
    return is_new


def _unrefreshed(delta: TableDelta, chosen: Indices, place: np.intp, moved: Flags) -> Flags:
    """Return the ports of the chosen messages that were not refreshed; update what is known of their periods."""
    store, cells, at_ns = delta.store, delta.devices[chosen], delta.at_ns[chosen, None]
    # a port that moves in each reading moved in the last one, which is not written for each
    read_ns = np.where(store.phase[cells] == _IDLE, 0, store.at_ns[cells, place][:, None])
    stood = store.stood[cells]
    changed_ns = np.where(stood & (read_ns > 0), store.changed_ns[cells], read_ns)
    interval_ns = at_ns - changed_ns
    ends = moved & stood & (interval_ns <= _LONGEST_NS)
    score, period_ns, moves = store.score[cells], store.period_ns[cells], store.moves[cells]
    score = np.where(ends, np.minimum(score + _STEP, _MOST), np.maximum(score - (moved & ~stood), 0))
    period_ns = np.where(ends, np.maximum(interval_ns, period_ns * 4 // 5), period_ns)
    moves = np.where(moved, np.where(stood, 0, moves) << 1 | 1, moves)
    is_idle = ~moved & (interval_ns >= _LONGEST_NS)
    ports = _Ports(
        moved, np.where(is_idle, 0, np.where(moved, at_ns, changed_ns)), np.where(is_idle, 0, moves),
        np.where(is_idle, 0, score), np.where(is_idle, 0, period_ns),
    )  # fmt: skip
    times = store.per_cell_times.get(int(place))
    known_ns = store.at_ns[cells, place][:, None] if times is None else times[cells]
    is_steady = (ports.moves == _STEADY) & (ports.score == 0)
    unknown = _unknown(ports, at_ns, known_ns, is_steady.any(axis=1, keepdims=True))
    store.phase[cells] = np.where(is_idle, _IDLE, np.where(moved & is_steady, _MOVES, LEARNING))
    store.changed_ns[cells], store.moves[cells], store.score[cells] = ports.changed_ns, ports.moves, ports.score
    store.period_ns[cells], store.stood[cells] = ports.period_ns, ~moved
    return unknown


def _unknown(ports: _Ports, at_ns: Times, known_ns: Times, has_steady: Flags) -> Flags:
    """Return the ports that stand still and may not have been refreshed; `known_ns` has the times of their counters."""
    stands_ns = at_ns - ports.changed_ns
    if not ports.score.any():  # no port may be slow
        return ~ports.moved & (ports.moves < _PROVEN) & ~has_steady & (stands_ns < _LONGEST_NS)
    is_recent = stands_ns < ports.period_ns * _MARGIN
    may_be_slow = (ports.score > 0) & (ports.moved | is_recent)
    may_be_slow &= _moved_together(may_be_slow, ports.changed_ns) | ~has_steady
    is_slow = may_be_slow & (ports.score >= _SLOW)
    oldest_ns = np.where(is_slow, ports.changed_ns, at_ns).min(axis=1, keepdims=True)
    other = np.where(is_slow.any(axis=1, keepdims=True), oldest_ns <= known_ns, ~has_steady & (stands_ns < _LONGEST_NS))
    is_unproven = (ports.score < _SLOW) & (ports.moves < _PROVEN)
    return ~ports.moved & (is_slow | (is_unproven & (may_be_slow | other)))


def _moved_together(chosen: Flags, changed_ns: Times) -> Flags:
    """Return the chosen ports that moved last in the same reading as another chosen port of their device."""
    times = np.where(chosen, changed_ns, -1 - np.arange(chosen.shape[1]))
    order = np.argsort(times, axis=1)
    ordered = np.take_along_axis(times, order, axis=1)
    equal = np.zeros(chosen.shape, np.bool_)
    equal[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    equal[:, :-1] |= equal[:, 1:]
    found = np.empty_like(equal)
    np.put_along_axis(found, order, equal, axis=1)
    return found


def _positions(mapping: ColumnMapping) -> tuple[int, ...]:
    return tuple(mapping.position_of[column] for column in _BYTES if column in mapping.position_of)
