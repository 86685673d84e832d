"""Learns the refresh periods of devices' counters, and marks counters that were not refreshed as absent.

Some agents and line cards refresh counters more slowly than they are read: bytes every 30 s beside fresh pause times.
Between two refreshes such a counter is unknown. It does not show that no traffic passed, and it grows at a refresh by
the growth of the whole period. A counter of a device is not refreshed if it moves at no port, and it is one that stands
still again and again. A counter of traffic is also unknown until it has moved in two consecutive readings.
"""

from typing import NamedTuple

import numpy as np

from streams.detect.measure.storage.column_store import Cells, ColumnMapping, Indices, MappingCache, TableDelta
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER

TRAFFIC = frozenset({Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS})
_PAUSE = frozenset({
    Metric.PFC_RX_FRAMES, Metric.PFC_TX_FRAMES, Metric.PAUSE_RX_FRAMES, Metric.PAUSE_TX_FRAMES,
    Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_TX_PAUSE_USECONDS, Metric.PFC_RX_TRANSITIONS, Metric.PFC_TX_TRANSITIONS,
})  # fmt: skip
"""Pause comes and goes: its counters are slow only if they stand still at equal intervals."""
_LONGEST_NS = 120 * 10**9
"""Counters that stand still for longer show that nothing passes (the slowest known cache: Junos, 60 s)."""
_PROVEN = 3
"""A counter that moved in this many consecutive readings is refreshed for each reading."""
_STEP, _MOST = 2, 8
"""A standstill that ends counts 2, a reading that moves -1."""
_SLOW, _SLOW_PAUSE = 3, 6
"""The counts from which counters are slow: traffic that stopped once, and pause that came twice, are not."""
_MARGIN = 1.5
"""Counters that stand still for more than this many periods show that nothing passes."""


class _Compared(NamedTuple):
    """The positions of the compared counters in a message, and which of them count pause."""

    positions: Indices
    is_pause: Cells


class RefreshPeriods:
    """Finds the counters of a batch that were not refreshed; their state is in the store."""

    def __init__(self) -> None:
        self._compared: MappingCache[_Compared] = MappingCache(_compared)

    def without_unrefreshed(self, delta: TableDelta) -> Cells:
        """Return the counters of messages, shape (messages, columns, rows), absent where they were not refreshed."""
        store, devices, at_ns = delta.store, delta.devices, delta.at_ns
        mapping, counts = delta.mapping, delta.values
        positions, is_pause = self._compared[mapping]
        if not len(positions):
            return counts
        cells = devices[:, None], mapping.columns[positions]
        moved = (counts[:, positions] != store.values[cells]).any(axis=2)
        changed_ns, moves, score = store.changed_ns[cells], store.moves[cells], store.score[cells]
        period_ns, stood = store.period_ns[cells], store.stood[cells]
        interval_ns = at_ns[:, None] - changed_ns
        ends = moved & stood & (interval_ns <= _LONGEST_NS)
        irregular = is_pause & (np.abs(interval_ns - period_ns) * 4 > period_ns)
        score = np.where(ends, np.minimum(np.where(irregular, 0, score) + _STEP, _MOST), score)
        follows = moved & ~stood
        score = np.where(follows, np.where(is_pause, 0, np.maximum(score - 1, 0)), score)
        moves = np.where(moved, np.minimum(np.where(stood, 0, moves) + 1, _PROVEN), moves)
        period_ns = np.where(
            ends, np.where(irregular, interval_ns, np.maximum(interval_ns, period_ns * 4 // 5)), period_ns
        )
        is_slow = score >= np.where(is_pause, _SLOW_PAUSE, _SLOW)
        is_unproven = ~is_pause & (moves < _PROVEN)
        limit_ns = np.where(is_slow, (period_ns * _MARGIN).astype(np.int64), np.where(is_unproven, _LONGEST_NS, 0))
        unknown = ~moved & (interval_ns <= limit_ns)
        store.changed_ns[cells] = np.where(moved, at_ns[:, None], changed_ns)
        store.moves[cells], store.score[cells], store.period_ns[cells], store.stood[cells] = (
            moves,
            score,
            period_ns,
            ~moved,
        )
        if np.count_nonzero(unknown):
            counts = counts.copy()
            messages, places = np.nonzero(unknown)
            counts[messages, positions[places]] = ABSENT_COUNTER
        return counts


def _compared(mapping: ColumnMapping) -> _Compared:
    found = [(at, metric in _PAUSE) for (metric, _), at in mapping.position_of.items() if metric in TRAFFIC | _PAUSE]
    return _Compared(np.array([at for at, _ in found], np.intp), np.array([pause for _, pause in found], np.bool_))
