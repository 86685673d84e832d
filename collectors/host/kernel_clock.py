"""From the kernel's clock, which counts since boot, to the time of day. Pure but for the one clock that is asked.

The kernel stamps its log with the CPU's own clock (`local_clock`), which nobody disciplines: 50 parts in a million are
two minutes in a month, and `dmesg -T` is wrong by as much. A line that is read as it is written tells how far off
it is.
"""

import time
from dataclasses import dataclass
from typing import Protocol

from collectors.host.lines import Line

_US = 1000
_BACKWARDS_US = 5_000_000
"""Lines come a little out of order; by this much only the next boot goes back."""
_AGREE_NS = 2_000_000_000
"""A stamp of whole seconds, and what the kernel's clock makes of it, when both are of the same boot."""


class BootTime(Protocol):
    """When the kernel's clock stood at 0."""

    def zero_ns(self) -> int:
        """Unix time; 0 where unknown."""
        ...


class SystemBootTime:
    """Of the kernel that runs this process: its monotonic clock stands still in a suspend, as that of the log does."""

    def zero_ns(self) -> int:
        """See Zero; a step of the time of day moves it, and what was stamped before gets the better time."""
        return time.time_ns() - time.monotonic_ns()  # noqa: TID251 — the two clocks are what is compared here


@dataclass(slots=True)
class Times:
    """Tells the time of each line, in the order in which they were written.

    `boot_zero_ns` is that of the boot that the lines are of, where it is not the one that runs; 0 otherwise. `lag_ns`
    is how far the log's clock is behind the time of day, as far as that is known.
    """

    zero: BootTime
    lag_ns: int = 0
    boot_zero_ns: int = 0
    last_us: int = 0

    def at_ns(self, line: Line, now_ns: int, waited_ns: int | None) -> int | None:
        """When it was said; None where nothing tells.

        `waited_ns` is for how long the line can have waited to be read, None where nobody knows.
        """
        if line.since_boot_us is None:
            return None if line.at_ns is None else min(line.at_ns, now_ns)
        if line.since_boot_us < self.last_us - _BACKWARDS_US:
            self.boot_zero_ns = self.lag_ns = 0
            self.last_us = line.since_boot_us
        self.last_us = max(self.last_us, line.since_boot_us)
        zero_ns = self.zero_ns()
        if not zero_ns:
            return None if line.at_ns is None else min(line.at_ns, now_ns)
        bare_ns = zero_ns + line.since_boot_us * _US
        if waited_ns is not None and not self.boot_zero_ns and line.at_ns is None:
            # It was written within the last `waited_ns`: what the clock is off by lies between these two.
            self.lag_ns = min(max(self.lag_ns, now_ns - bare_ns - waited_ns), now_ns - bare_ns)
        at_ns = bare_ns + self.lag_ns
        if line.at_ns is not None and abs(at_ns - line.at_ns) > _AGREE_NS:
            return min(line.at_ns, now_ns)  # another boot's, or a clock that is off: who wrote it knew
        return min(at_ns, now_ns)

    def zero_ns(self) -> int:
        """Of the boot that the lines are of; 0 where unknown."""
        return self.boot_zero_ns or self.zero.zero_ns()
