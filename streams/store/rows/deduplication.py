"""Detects repeated messages by their identity, so that they become rows only once.

A collector's spool resends unacknowledged messages, and a restarted stage repeats its last outputs. Sequences of one
run arrive almost in order, so a run is stored as a few ranges instead of a set: a fabric of 21,504 devices takes some
20 MB. The bridge numbers the units of a partition, so its sequences have gaps: each message is a range, and a device
takes at most 17 KB (50 KB as lists of integers, measured with tracemalloc at MAX_SPANS).
Both classes evict by time of arrival and are restored from ClickHouse.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

MAX_SPANS = 1024
"""Limit of ranges for one run; each gap between ranges is a message that has not arrived yet."""

Run = tuple[str, str, str, int]
"""(device, source, collector, collector_run)."""


@dataclass(slots=True)
class _Spans:
    lows: "array[int]"
    highs: "array[int]"
    newest_ms: int = 0


class SequenceDedup:
    """Detects repeated sequences, by run."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._runs: dict[Run, _Spans] = {}
        self._pruned_ms = 0

    def __len__(self) -> int:
        return len(self._runs)

    def restore(self, run: Run, lows: Iterable[int], highs: Iterable[int], newest_ms: int) -> None:
        """Set the ranges of a run from ClickHouse."""
        self._runs[run] = _spans(list(lows)[-MAX_SPANS:], list(highs)[-MAX_SPANS:], newest_ms)

    def is_new(self, run: Run, sequence: int, arrived_ms: int) -> bool:
        """Record a sequence, and return whether it is new."""
        spans = self._runs.get(run)
        if spans is None:
            self._prune(arrived_ms)
            self._runs[run] = _spans((sequence,), (sequence,), arrived_ms)
            return True
        spans.newest_ms = max(spans.newest_ms, arrived_ms)
        lows, highs = spans.lows, spans.highs
        if sequence == highs[-1] + 1:
            highs[-1] = sequence
            return True
        i = bisect_right(lows, sequence) - 1
        if i >= 0 and sequence <= highs[i]:
            return False
        _insert(lows, highs, i, sequence)
        if len(lows) > MAX_SPANS:
            del lows[0], highs[0]
        return True

    def _prune(self, now_ms: int) -> None:
        """Evict runs without a message for a window; does so at most eight times per window."""
        if now_ms - self._pruned_ms < self._window_ms // 8:
            return
        self._pruned_ms = now_ms
        expired = [run for run, spans in self._runs.items() if spans.newest_ms < now_ms - self._window_ms]
        for run in expired:
            del self._runs[run]


def _spans(lows: Sequence[int], highs: Sequence[int], newest_ms: int) -> _Spans:
    return _Spans(array("Q", lows), array("Q", highs), newest_ms)


def _insert(lows: "array[int]", highs: "array[int]", i: int, sequence: int) -> None:
    """Insert a sequence between range `i` and the next, and extend or merge adjacent ranges."""
    extends = i >= 0 and highs[i] + 1 == sequence
    precedes = i + 1 < len(lows) and lows[i + 1] - 1 == sequence
    if extends and precedes:
        highs[i] = highs.pop(i + 1)
        del lows[i + 1]
    elif extends:
        highs[i] = sequence
    elif precedes:
        lows[i + 1] = sequence
    else:
        lows.insert(i + 1, sequence)
        highs.insert(i + 1, sequence)


class KeyDedup:
    """Detects repeated identities in small topics: findings' revisions, rejected records."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._arrived_ms: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrived_ms)

    def is_new(self, key: Hashable, arrived_ms: int) -> bool:
        """Record an identity, and return whether it is new."""
        while self._arrived_ms and next(iter(self._arrived_ms.values())) < arrived_ms - self._window_ms:
            self._arrived_ms.popitem(last=False)
        if key in self._arrived_ms:
            return False
        self._arrived_ms[key] = arrived_ms
        return True
