"""The clock of this process."""

import time


class WallClock:
    """The clock of the machine."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns()
