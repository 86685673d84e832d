"""Starts a server again under faults that overlap: a start that another fault interrupts is repeated.

A fault may end, pause or fill the disk of a server that the fault before it is still starting. Such a start proves
nothing about the server. One that fails without a fault is a defect, and its error is raised.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streams.wire.errors import Misconfigured

STARTS = 3
"""Faults of one target follow each other, so that one start meets two of them at most."""
FREE_WITHIN_S = 60.0
"""The longest wait for the end of the fault that interrupts; faults hold for 18 s at most."""


class Restarts:
    """The starts of one server; `start` starts what does not run and raises Misconfigured."""

    def __init__(self, start: Callable[[], None]) -> None:
        self._start = start
        self._one_at_a_time = threading.Lock()
        self._changed = threading.Condition()
        self._begun = self._active = 0

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Count a fault that acts on the server."""
        with self._changed:
            self._begun += 1
            self._active += 1
        try:
            yield
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    def restart(self, late_ends: int = 0) -> None:
        """Start the server once no fault acts on it; blocks. Raises Misconfigured if it fails without a fault.

        `late_ends` of its processes may still end by the fault that is over, perhaps while the others start: so many
        failed starts are repeated as well.
        """
        with self._one_at_a_time:
            for attempt in range(1 - late_ends, STARTS + 1):
                begun, is_free = self._wait_until_free()
                try:
                    self._start()
                except Misconfigured:
                    if attempt == STARTS or (attempt > 0 and is_free and begun == self._begun):
                        raise
                else:
                    return

    def _wait_until_free(self) -> tuple[int, bool]:
        """Return how many faults have begun, and whether none acts now."""
        with self._changed:
            is_free = self._changed.wait_for(lambda: not self._active, FREE_WITHIN_S)
            return self._begun, is_free
