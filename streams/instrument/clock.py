"""Defines clocks: the protocol, the brokers' time derived from records, and the detection of pauses of the process.

Code that needs the time takes a Clock argument; only rooms that own a process create one.
"""

import logging
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now_ns(self) -> int:
        """Return Unix time in nanoseconds."""
        ...


log = logging.getLogger(__name__)

_STEP_NS = 60 * 10**9
"""A smaller difference may be the delay of an acknowledgement, or disappears within this time."""

_DRIFT = 1000
"""The clocks of brokers and of this host drift by less than one part in this number (NTP corrects 500 ppm)."""


class BrokerClock:
    """The brokers' time, derived from records that they have just appended.

    Samples are dated by the brokers' append time, so silence, takeovers and steps use the same clock. Between such
    records the monotonic clock advances it. The host's clock is used until the first record, and to confirm a step of a
    broker's clock. `monotonic_ns` never steps; `wall` is the host's clock.
    """

    def __init__(self, wall: Clock, monotonic_ns: Callable[[], int]) -> None:
        self._wall = wall
        self._monotonic_ns = monotonic_ns
        self._offset_ns: int | None = None
        """The brokers' time minus the monotonic time."""
        self._observed_ns = 0
        self._is_wall_wrong = False
        self.refused = 0
        """Counts records whose time neither the last records nor the host's clock confirm."""

    def now_ns(self) -> int:
        """Return the brokers' time; the host's time until a broker has acknowledged a record."""
        return self._wall.now_ns() if self._offset_ns is None else self._monotonic_ns() + self._offset_ns

    def observe(self, appended_ns: int) -> None:
        """Update the offset with the time at which a broker has just appended a record."""
        now_ns = self._monotonic_ns()
        offset_ns, known_ns = appended_ns - now_ns, self._offset_ns
        if known_ns is None:
            self._offset_ns = offset_ns
        elif abs(offset_ns - known_ns) <= _STEP_NS:
            # The record with the smallest delay is the most exact.
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
        """Return whether a broker's time has been observed."""
        return self._offset_ns is not None

    @property
    def wall_offset_ns(self) -> int:
        """Return the host's clock minus the brokers' time."""
        return 0 if self._offset_ns is None else self._wall.now_ns() - self.now_ns()

    def _compare_wall(self) -> None:
        """Log once when the host's clock becomes wrong, and once when it is right again."""
        is_wrong = abs(self.wall_offset_ns) > _STEP_NS
        if is_wrong != self._is_wall_wrong:
            self._is_wall_wrong = is_wrong
            state = "is off" if is_wrong else "is right again"
            log.warning("the clock of this host %s: ahead_s=%.0f; set it by NTP", state, self.wall_offset_ns / 1e9)


_MEASURED_PART = 16
"""Reading the CPU time of a process with many threads costs microseconds: it is read once in a sixteenth of a pause."""


class Attendance:
    """Detects that this process paused for so long that its partitions may have been reassigned.

    CPU time of the process does not count, because a separate thread keeps up the session in its consumer group.
    """

    def __init__(
        self,
        session_s: float,
        now_s: Callable[[], float],
        used_s: Callable[[], float],
    ) -> None:
        """Take the session timeout in seconds, and clocks of the elapsed time and of the process's CPU time.

        The session runs from the last heartbeat, which precedes the pause, so the longest pause is half a session.
        """
        self._longest_s = session_s / 2
        self._now_s, self._used_s = now_s, used_s
        self._last_s, self._last_used_s = now_s(), used_s()
        self._was_away = False

    def was_away(self) -> bool:
        """Return whether there was a longer pause since `resume`; call it several times in a session."""
        now_s = self._now_s()
        if now_s - self._last_s >= self._longest_s / _MEASURED_PART:
            self._measure(now_s)
        return self._was_away

    def resume(self) -> None:
        """Start again, after everything that depends on the pause was given up."""
        self._measure(self._now_s())
        self._was_away = False

    def _measure(self, now_s: float) -> None:
        used_s = self._used_s()
        paused_s = (now_s - self._last_s) - (used_s - self._last_used_s)
        self._was_away = self._was_away or paused_s > self._longest_s
        self._last_s, self._last_used_s = now_s, used_s
