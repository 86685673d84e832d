"""The clock of a collector's process."""

import time


class SystemClock:
    """Reads the machine's clock."""

    def now_ns(self) -> int:
        """Return the Unix time in nanoseconds."""
        return time.time_ns()
