"""The clock protocol: code that needs the time takes a Clock argument; only rooms that own a process create one."""

from typing import Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now_ns(self) -> int:
        """Return Unix time in nanoseconds."""
        ...
