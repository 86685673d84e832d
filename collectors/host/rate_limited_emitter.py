"""Emits events as far as the rate limit allows, and counts the rest."""

from collections.abc import Callable, Iterable

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.rate_limit import RateLimiter


class RateLimitedEmitter:
    """The emitter of one `label`. `emit` takes an event and the time at which it was read."""

    def __init__(
        self, bound: RateLimiter, metrics: CollectorMetrics, label: str, emit: Callable[[DeviceEvent, int], None]
    ) -> None:
        self._bound = bound
        self._metrics = metrics
        self._label = label
        self._emit_event = emit
        self._left_out = 0

    @property
    def waits(self) -> bool:
        """True if an event waits."""
        return self._bound.waits

    def emit(self, happening: DeviceEvent, now_ns: int, now_s: float) -> None:
        """Emit an event, now or when the rate allows."""
        self._all(self._bound.admit(happening, now_s), now_ns)

    def flush(self, now_ns: int, now_s: float) -> None:
        """Emit the events that are due."""
        self._all(self._bound.due(now_s), now_ns)
        if (more := self._bound.left_out - self._left_out) > 0:
            self._metrics.add("throttled", self._label, more)
            self._left_out = self._bound.left_out

    def end(self, now_ns: int) -> None:
        """Emit all waiting events."""
        self._all(self._bound.rest(), now_ns)

    def _all(self, happenings: Iterable[DeviceEvent], now_ns: int) -> None:
        for happening in happenings:
            self._emit_event(happening, now_ns)
