"""The clock of a collector's process."""

import time


class SystemClock:
    """The machine's own time."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns()
