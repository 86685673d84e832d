"""Limits the rate of updates that are read from one device. Pure; time is an argument."""

from collections.abc import Callable

_SECOND_NS = 1_000_000_000


class UpdateLimiter:
    """Counts the updates of a device in windows of one second."""

    def __init__(self, max_updates_per_s: int, on_throttled: Callable[[], None]) -> None:
        self._max_updates_per_s = max_updates_per_s
        self._on_throttled = on_throttled
        self._window_ns, self._updates = 0, 0

    def delay_s(self, updates: int, now_ns: int) -> float:
        """Add updates; return the rest of the second if the device has exceeded its limit in it, else 0."""
        elapsed_ns = now_ns - self._window_ns
        if not 0 <= elapsed_ns < _SECOND_NS:
            self._window_ns, self._updates, elapsed_ns = now_ns, 0, 0
        self._updates += updates
        if self._updates <= self._max_updates_per_s:
            return 0.0
        self._on_throttled()
        return (_SECOND_NS - elapsed_ns) / _SECOND_NS
