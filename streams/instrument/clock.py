"""The clock protocol: whoever needs the time is handed one; only a room that owns a process makes one."""

from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        ...
