"""Which files are asked no more, because the kernel keeps refusing them. Pure.

Reading the counters of a restricted PCI function floods the kernel log with ACCESS_REG failures, one a file
(DETECTION 1): after three in a row a whole group is left alone, for the life of the device.
"""

from collections import Counter

REFUSALS = 3


class RefusalBreaker:
    """One for a port."""

    def __init__(self) -> None:
        self._in_a_row: Counter[str] = Counter()
        self._of_file: Counter[str] = Counter()
        self._closed: set[str] = set()

    def allows(self, group: str, path: str) -> bool:
        """Whether this file of this group is still asked."""
        return group not in self._closed and self._of_file[path] < REFUSALS

    def is_closed(self, group: str) -> bool:
        """Whether nothing of this group is asked any more."""
        return group in self._closed

    def on_success(self, group: str, path: str) -> None:
        """The file was read, whatever it said."""
        self._in_a_row[group] = 0
        if self._of_file[path]:
            self._of_file[path] = 0

    def on_refusal(self, group: str, path: str, *, lasting: bool) -> None:
        """The file was not to be read; a want of the moment is forgiven."""
        if not lasting:
            return
        self._of_file[path] += 1
        self._in_a_row[group] += 1
        if self._in_a_row[group] >= REFUSALS:
            self._closed.add(group)
