"""The time of the brokers, as records that they have just appended show it; a process may not depend on its own clock.

Samples are dated by the brokers' append time, so silence, take-overs and steps are judged by the same clock. Between
such records the monotonic clock counts. The host's clock is used until the first one, and as the second opinion where a
broker's clock has stepped.
"""

import logging
from collections.abc import Callable

from streams.instrument.clock import Clock

log = logging.getLogger(__name__)

_STEP_NS = 60 * 10**9
"""Less passes as the delay of an acknowledgement, or heals by itself in this time."""

_DRIFT = 1000
"""The clocks of brokers and of this host differ by less than one part in this over time (NTP corrects 500 ppm)."""


class BrokerClock:
    """A Clock. `monotonic_ns` never steps; `wall` is the host's clock."""

    def __init__(self, wall: Clock, monotonic_ns: Callable[[], int]) -> None:
        self._wall = wall
        self._monotonic_ns = monotonic_ns
        self._offset_ns: int | None = None
        """Of the brokers' time from the monotonic one."""
        self._observed_ns = 0
        self._is_wall_wrong = False
        self.refused = 0
        """Records whose time neither the last ones nor the host's clock confirm."""

    def now_ns(self) -> int:
        """Return the brokers' time; the host's as long as no broker has acknowledged anything."""
        return self._wall.now_ns() if self._offset_ns is None else self._monotonic_ns() + self._offset_ns

    def observe(self, appended_ns: int) -> None:
        """Take the time at which a broker has just appended a record."""
        now_ns = self._monotonic_ns()
        offset_ns, known_ns = appended_ns - now_ns, self._offset_ns
        if known_ns is None:
            self._offset_ns = offset_ns
        elif abs(offset_ns - known_ns) <= _STEP_NS:
            # The record with the least delay shows it best.
            self._offset_ns = max(offset_ns, known_ns - (now_ns - self._observed_ns) // _DRIFT)
        elif abs(appended_ns - self._wall.now_ns()) <= _STEP_NS:
            log.warning("time of the brokers changed: by_s=%.0f", (offset_ns - known_ns) / 1e9)
            self._offset_ns = offset_ns
        else:
            self.refused += 1
            if self.refused in (1, 100) or self.refused % 10_000 == 0:
                log.error("refused the time of a broker: ahead_s=%.0f", (offset_ns - known_ns) / 1e9)
            return
        self._observed_ns = now_ns
        self._compare_wall()

    @property
    def is_known(self) -> bool:
        """Return whether a broker has shown its time."""
        return self._offset_ns is not None

    @property
    def wall_offset_ns(self) -> int:
        """The offset of the host's clock: how far it is ahead of the brokers' time."""
        return 0 if self._offset_ns is None else self._wall.now_ns() - self.now_ns()

    def _compare_wall(self) -> None:
        """Log once that the host's clock is off, and once that it is right again."""
        is_wrong = abs(self.wall_offset_ns) > _STEP_NS
        if is_wrong != self._is_wall_wrong:
            self._is_wall_wrong = is_wrong
            state = "is off" if is_wrong else "is right again"
            log.warning("the clock of this host %s: ahead_s=%.0f; set it by NTP", state, self.wall_offset_ns / 1e9)
