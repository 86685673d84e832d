"""The clock of a collector's process, and the estimate of a device's clock offset."""

import time


class SystemClock:
    """Reads the machine's clock."""

    def now_ns(self) -> int:
        """Return the Unix time in nanoseconds."""
        return time.time_ns()


AHEAD_NS = 1_000_000_000
_WINDOW_NS = 60_000_000_000


class ClockSkew:
    """Estimates the clock offset of one device."""

    def __init__(self) -> None:
        self._before_ns: int | None = None
        self._best_ns: int | None = None
        self._until_ns = 0

    @property
    def offset_ns(self) -> int:
        """The device's clock minus the local clock, less the smallest delay seen; 0 if the device sent no timestamp."""
        known = [offset for offset in (self._before_ns, self._best_ns) if offset is not None]
        return max(known, default=0)

    def add(self, device_ns: int, received_ns: int) -> None:
        """Add a device's timestamp and the local time at which it was received."""
        offset_ns = device_ns - received_ns
        if received_ns >= self._until_ns:
            self._before_ns = self._best_ns
            self._best_ns, self._until_ns = offset_ns, received_ns + _WINDOW_NS
        elif self._best_ns is None or offset_ns > self._best_ns:
            self._best_ns = offset_ns
