"""Says what happens as far as its bound lets it, and counts what is left out."""

from collections.abc import Callable, Iterable

from collectors.core.emitter import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.rate_limit import RateLimiter


class RateLimitedEmitter:
    """Of one `label`. `say` takes an event and the time at which it was read."""

    def __init__(
        self, bound: RateLimiter, metrics: CollectorMetrics, label: str, say: Callable[[DeviceEvent, int], None]
    ) -> None:
        self._bound = bound
        self._metrics = metrics
        self._label = label
        self._say = say
        self._left_out = 0

    @property
    def waits(self) -> bool:
        """Whether something waits."""
        return self._bound.waits

    def emit(self, happening: DeviceEvent, now_ns: int, now_s: float) -> None:
        """Say it, now or when there is room."""
        self._all(self._bound.admit(happening, now_s), now_ns)

    def flush(self, now_ns: int, now_s: float) -> None:
        """Say what has waited long enough."""
        self._all(self._bound.due(now_s), now_ns)
        if (more := self._bound.left_out - self._left_out) > 0:
            self._metrics.add("throttled", self._label, more)
            self._left_out = self._bound.left_out

    def end(self, now_ns: int) -> None:
        """Say all that waits."""
        self._all(self._bound.rest(), now_ns)

    def _all(self, happenings: Iterable[DeviceEvent], now_ns: int) -> None:
        for happening in happenings:
            self._say(happening, now_ns)
