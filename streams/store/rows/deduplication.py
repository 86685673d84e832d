"""What was stored before: the identities that keep a message sent again from becoming rows again.

A collector's spool resends what it had no acknowledgement for, and a stage that restarts repeats its last outputs.
Sequences of one run come almost in order, so a run is a few spans, not a set: a fabric of 21,504 devices takes
some 20 MB. The bridge's have holes, for it numbers the stretches of a partition: there each message is a span, and a
device takes 17 KB at most (50 KB as lists of integers, measured with tracemalloc at MOST_SPANS).
Both kinds forget by time of arrival, and are restored from ClickHouse.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

MAX_SPANS = 1024
"""Of one run; each gap between spans is a message that is still to come."""

Run = tuple[str, str, str, int]
"""(device, source, collector, collector_run)."""


@dataclass(slots=True)
class _Spans:
    lows: "array[int]"
    highs: "array[int]"
    newest_ms: int = 0


class SequenceDedup:
    """The sequences that are stored, by run."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._runs: dict[Run, _Spans] = {}
        self._pruned_ms = 0

    def __len__(self) -> int:
        return len(self._runs)

    def restore(self, run: Run, lows: Iterable[int], highs: Iterable[int], newest_ms: int) -> None:
        """Take what ClickHouse holds of a run."""
        self._runs[run] = _spans(list(lows)[-MAX_SPANS:], list(highs)[-MAX_SPANS:], newest_ms)

    def is_new(self, run: Run, sequence: int, arrived_ms: int) -> bool:
        """Say whether this is the first time, and remember it."""
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
        _join(lows, highs, i, sequence)
        if len(lows) > MAX_SPANS:
            del lows[0], highs[0]
        return True

    def _prune(self, now_ms: int) -> None:
        """Drop the runs that have been silent for a window; looked for at most eight times a window."""
        if now_ms - self._pruned_ms < self._window_ms // 8:
            return
        self._pruned_ms = now_ms
        old = [run for run, spans in self._runs.items() if spans.newest_ms < now_ms - self._window_ms]
        for run in old:
            del self._runs[run]


def _spans(lows: Sequence[int], highs: Sequence[int], newest_ms: int) -> _Spans:
    return _Spans(array("Q", lows), array("Q", highs), newest_ms)


def _join(lows: "array[int]", highs: "array[int]", i: int, sequence: int) -> None:
    """Put a sequence between span `i` and the next, growing or joining them where it touches."""
    after = i >= 0 and highs[i] + 1 == sequence
    before = i + 1 < len(lows) and lows[i + 1] - 1 == sequence
    if after and before:
        highs[i] = highs.pop(i + 1)
        del lows[i + 1]
    elif after:
        highs[i] = sequence
    elif before:
        lows[i + 1] = sequence
    else:
        lows.insert(i + 1, sequence)
        highs.insert(i + 1, sequence)


class KeyDedup:
    """Identities of which there are few: findings' revisions, rejected records."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._seen: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def is_new(self, key: Hashable, arrived_ms: int) -> bool:
        """Say whether this is the first time, and remember it."""
        while self._seen and next(iter(self._seen.values())) < arrived_ms - self._window_ms:
            self._seen.popitem(last=False)
        if key in self._seen:
            return False
        self._seen[key] = arrived_ms
        return True
