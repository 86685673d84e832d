"""Limits the rate of events, so that a flooding log does not flood Kafka. Pure; time is any monotonic clock.

For each kind at each port, a burst is sent at once, then a fixed rate applies. Beyond it the newest event waits with
the number of events that it replaces, and is sent when the rate allows: the last state of a link is always sent.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from streams.wire.models import EventKind

_TURNS = {EventKind.LINK_UP: EventKind.LINK_DOWN, EventKind.ADMIN_UP: EventKind.ADMIN_DOWN}
_MOST_KEYS = 4096

Key = tuple[str, EventKind, int]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float
    withheld: DeviceEvent | None = None
    left_out: int = 0


class RateLimitedEmitter:
    """Emits the limited events of one `label`. `emit` takes an event and the time at which it was read."""

    def __init__(
        self, per_s: float, burst: int, metrics: CollectorMetrics, label: str, emit: Callable[[DeviceEvent, int], None]
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._metrics = metrics
        self._label = label
        self._emit_event = emit
        self._buckets: OrderedDict[Key, _Bucket] = OrderedDict()
        self._withheld: set[Key] = set()

    @property
    def waits(self) -> bool:
        """True if any event waits."""
        return bool(self._withheld)

    def emit(self, happening: DeviceEvent, now_ns: int, now_s: float) -> None:
        """Emit an event now, or later when the rate allows."""
        # The ups and downs of a link share a key, so that the last one is the link's state; so do its admin states.
        key = happening.port, _TURNS.get(happening.kind, happening.kind), happening.code
        bucket = self._bucket(key, now_s)
        if bucket.withheld is None and bucket.tokens >= 1:
            bucket.tokens -= 1
            self._emit_event(happening, now_ns)
            return
        if bucket.withheld is not None:
            bucket.left_out += 1
            self._metrics.add("throttled", self._label)
        bucket.withheld = happening
        self._withheld.add(key)

    def flush(self, now_ns: int, now_s: float) -> None:
        """Emit the events that are due."""
        self._release([key for key in sorted(self._withheld) if self._bucket(key, now_s).tokens >= 1], now_ns)

    def end(self, now_ns: int) -> None:
        """Emit all waiting events."""
        self._release(sorted(self._withheld), now_ns)

    def _release(self, keys: Iterable[Key], now_ns: int) -> None:
        for key in keys:
            bucket = self._buckets[key]
            happening = bucket.withheld
            assert happening is not None
            if bucket.left_out:
                happening = replace(happening, detail=f"{happening.detail} ({bucket.left_out} before it left out)")
            bucket.tokens, bucket.withheld, bucket.left_out = max(0.0, bucket.tokens - 1), None, 0
            self._withheld.discard(key)
            self._emit_event(happening, now_ns)

    def _bucket(self, key: Key, now_s: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _MOST_KEYS:
                self._evict()
            bucket = self._buckets[key] = _Bucket(self._burst, now_s)
        self._buckets.move_to_end(key)
        bucket.tokens = min(self._burst, bucket.tokens + max(0.0, now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        return bucket

    def _evict(self) -> None:
        """Evict the bucket that was idle longest; if all have waiting events, its event is dropped and counted."""
        key = next((key for key in self._buckets if key not in self._withheld), next(iter(self._buckets)))
        bucket = self._buckets.pop(key)
        self._withheld.discard(key)
        self._metrics.add("throttled", self._label, int(bucket.withheld is not None))
