"""Stops reading files that the kernel refuses repeatedly. Pure.

Reading the counters of a restricted PCI function floods the kernel log with ACCESS_REG failures, one per file
(DETECTION 1): after three consecutive refusals a whole group is disabled, for the life of the device.
"""

from collections import Counter

REFUSALS = 3


class RefusalBreaker:
    """The circuit breaker of one port."""

    def __init__(self) -> None:
        self._in_a_row: Counter[str] = Counter()
        self._of_file: Counter[str] = Counter()
        self._closed: set[str] = set()

    def allows(self, group: str, path: str) -> bool:
        """Return whether this file of this group is still read."""
        return group not in self._closed and self._of_file[path] < REFUSALS

    def is_closed(self, group: str) -> bool:
        """Return whether the whole group is disabled."""
        return group in self._closed

    def on_success(self, group: str, path: str) -> None:
        """Record a read file, whatever its content."""
        self._in_a_row[group] = 0
        if self._of_file[path]:
            self._of_file[path] = 0

    def on_refusal(self, group: str, path: str, *, lasting: bool) -> None:
        """Record a refused file; a temporary shortage is ignored."""
        if not lasting:
            return
        self._of_file[path] += 1
        self._in_a_row[group] += 1
        if self._in_a_row[group] >= REFUSALS:
            self._closed.add(group)
