"""Converts the kernel's clock, which counts since boot, to the time of day. Pure except for the one clock it reads.

The kernel stamps its log with the CPU's clock (`local_clock`), which is not disciplined: 50 parts in a million are two
minutes in a month, and `dmesg -T` is off by as much. A line that is read when it is written shows the clock's
error.
"""

import time
from dataclasses import dataclass
from typing import Protocol

from collectors.host.lines import Line

_US = 1000
_BACKWARDS_US = 5_000_000
"""Lines may be slightly out of order; a larger step back means another boot."""
_AGREE_NS = 2_000_000_000
"""Tolerance between a stamp in whole seconds and the kernel's clock, if both are of the same boot."""


class BootTime(Protocol):
    """The time at which the kernel's clock was 0."""

    def zero_ns(self) -> int:
        """Return Unix time in ns; 0 if unknown."""
        ...


class SystemBootTime:
    """The boot time of the running kernel: its monotonic clock stops during a suspend, as that of the log does."""

    def zero_ns(self) -> int:
        """See BootTime; a step of the time of day moves it, and older stamps get the corrected time."""
        return time.time_ns() - time.monotonic_ns()  # noqa: TID251 — the two clocks are what is compared here


@dataclass(slots=True)
class Times:
    """Computes the time of each line, in the order in which they were written.

    `boot_zero_ns` is the boot time of the lines' boot, if it is not the running one; else 0. `lag_ns` is the known
    delay of the log's clock behind the time of day.
    """

    zero: BootTime
    lag_ns: int = 0
    boot_zero_ns: int = 0
    last_us: int = 0

    def at_ns(self, line: Line, now_ns: int, waited_ns: int | None) -> int | None:
        """Return the time of a line; None if it is unknown.

        `waited_ns` is the longest time for which the line can have waited to be read, None if unknown.
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
            # It was written within the last `waited_ns`: the clock's error lies between these two.
            self.lag_ns = min(max(self.lag_ns, now_ns - bare_ns - waited_ns), now_ns - bare_ns)
        at_ns = bare_ns + self.lag_ns
        if line.at_ns is not None and abs(at_ns - line.at_ns) > _AGREE_NS:
            return min(line.at_ns, now_ns)  # another boot's, or a clock that is off: who wrote it knew
        return min(at_ns, now_ns)

    def zero_ns(self) -> int:
        """Return the boot time of the lines' boot; 0 if unknown."""
        return self.boot_zero_ns or self.zero.zero_ns()
