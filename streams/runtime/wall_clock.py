"""The clock of this process."""

import time


class WallClock:
    """What the machine says."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns()
