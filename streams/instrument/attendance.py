"""Detects that this process was stopped for so long that others may have its work by now."""

from collections.abc import Callable

_MEASURED_PART = 16
"""The computing time of a process with many threads costs microseconds: it is read once in a sixteenth of a pause."""


class Attendance:
    """The time since the last measurement in which this process did not run.

    Time in which it computed does not count: a thread of its own keeps its session in the consumer group meanwhile.
    """

    def __init__(
        self,
        session_s: float,
        now_s: Callable[[], float],
        used_s: Callable[[], float],
    ) -> None:
        """Take the session in seconds, and clocks of the elapsed and of the computing time of the process.

        The session runs from the last heartbeat, which is older than the pause: half of it is the longest pause.
        """
        self._longest_s = session_s / 2
        self._now_s, self._used_s = now_s, used_s
        self._last_s, self._last_used_s = now_s(), used_s()
        self._was_away = False

    def was_away(self) -> bool:
        """Return whether there was a longer pause since `resume`; to be called several times in a session."""
        now_s = self._now_s()
        if now_s - self._last_s >= self._longest_s / _MEASURED_PART:
            self._measure(now_s)
        return self._was_away

    def resume(self) -> None:
        """Begin again, after all that depends on the pause was given up."""
        self._measure(self._now_s())
        self._was_away = False

    def _measure(self, now_s: float) -> None:
        used_s = self._used_s()
        paused_s = (now_s - self._last_s) - (used_s - self._last_used_s)
        self._was_away = self._was_away or paused_s > self._longest_s
        self._last_s, self._last_used_s = now_s, used_s
