"""An event loop with virtual time: time advances only while all tasks wait, so tests of deadlines take no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Skipping(selectors.DefaultSelector):
    """A selector that does not wait, but counts how long it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits for another")
        if not ready and timeout:
            self.skipped_s += timeout
        return ready


class VirtualTime(asyncio.SelectorEventLoop):
    """Begins at 0 and has timers, but no sockets and no threads: waiting only for those is an error."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the time that all tasks have waited so far."""
        return self._skipping.skipped_s


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)
